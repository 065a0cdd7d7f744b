// A pipe through which the kernel hands the bytes of one socket to another without copying them
// (splice). For long bodies in the clear that go on as they came.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/connection.hpp"
#include "net/descriptor.hpp"

namespace tidegate {

// Of one worker.
struct SplicePipes {
    std::size_t open = 0;
    bool is_refused = false;  // this system splices no sockets
};

class SplicePipe {
  public:
    // Where fewer bytes are to come, a pipe costs more than the copies it saves.
    static constexpr std::uint64_t kBytesMin = 262'144;
    // Of a worker at a time, as each takes two descriptors; the bodies beyond are copied.
    static constexpr std::size_t kPipesMax = 32;

    // Opens a pipe, unless the worker has as many as it may.
    explicit SplicePipe(SplicePipes& pipes);
    ~SplicePipe();
    SplicePipe(const SplicePipe&) = delete;
    SplicePipe& operator=(const SplicePipe&) = delete;

    // False: there were enough, or the system gives none that is worth it.
    bool is_open() const { return static_cast<bool>(in_); }
    bool empty() const { return size_ == 0; }
    // What was filled in and not drained.
    std::size_t size() const { return size_; }

    // Takes what has come on `from`, at most `bytes_max`, which is not 0. Ok with no bytes: this
    // system splices no sockets. Requires that it is open and empty.
    IoResult fill(Connection& from, std::uint64_t bytes_max);
    // Sends what `to` takes now: ok when all is gone, or would_block, or failed.
    IoStatus drain(Connection& to);

  private:
    SplicePipes& pipes_;
    Descriptor out_;
    Descriptor in_;
    std::size_t size_ = 0;
};

}  // namespace tidegate
