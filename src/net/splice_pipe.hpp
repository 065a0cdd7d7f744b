// A pipe through which the kernel hands the bytes of one socket to another without copying them
// (splice). For long bodies without TLS that are forwarded unchanged.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "net/connection.hpp"
#include "net/descriptor.hpp"

namespace tidegate {

// What the pipes of one worker share.
struct SplicePipes {
    std::size_t open = 0;
    // The kernel or a seccomp filter has refused to splice: the worker copies from then on.
    bool is_refused = false;
};

class SplicePipe {
  public:
    // With fewer bytes still to come, a pipe costs more than the copies that it saves.
    static constexpr std::uint64_t kBytesMin = 262'144;
    // Open at a time in a worker, as each takes two descriptors. Further bodies are copied.
    static constexpr std::size_t kPipesMax = 32;

    // Opens a pipe. It stays closed where the worker has as many as it may or splicing was refused,
    // and where the kernel gives only a smaller one than usual.
    explicit SplicePipe(SplicePipes& pipes);
    ~SplicePipe();
    SplicePipe(const SplicePipe&) = delete;
    SplicePipe& operator=(const SplicePipe&) = delete;

    // False: the body has to be copied.
    bool is_open() const { return static_cast<bool>(write_end_); }
    bool empty() const { return size_ == 0; }
    // What was filled in and not drained.
    std::size_t size() const { return size_; }

    // Takes what has come on `from`, at most `bytes_max`, which is not 0. Ok with no bytes:
    // splicing was refused, and nothing was moved. Requires that it is open and empty.
    IoResult fill(Connection& from, std::uint64_t bytes_max);
    // Sends what `to` takes now: ok when all is gone, or would_block, or failed.
    IoStatus drain(Connection& to);

  private:
    SplicePipes& pipes_;
    Descriptor read_end_;
    Descriptor write_end_;
    std::size_t size_ = 0;
};

}  // namespace tidegate
