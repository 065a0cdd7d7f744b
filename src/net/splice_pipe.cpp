#include "net/splice_pipe.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace tidegate {

namespace {

// The size of a pipe by default. A larger portion leaves the processor's cache; a smaller one needs
// more system calls than copying. A user who holds many pipes gets small ones (pipe-user-pages-soft
// in pipe(7)), which are not worth it.
constexpr int kPortion = 65'536;

}  // namespace

SplicePipe::SplicePipe(SplicePipes& pipes) : pipes_(pipes) {
    if (pipes_.is_refused || pipes_.open >= kPipesMax) return;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) return;
    Descriptor read_end(ends[0]);
    Descriptor write_end(ends[1]);
    if (::fcntl(write_end.get(), F_GETPIPE_SZ) < kPortion) return;
    read_end_ = std::move(read_end);
    write_end_ = std::move(write_end);
    ++pipes_.open;
}

SplicePipe::~SplicePipe() {
    if (is_open()) --pipes_.open;
}

// The pipe is empty: only the connection can block.
IoResult SplicePipe::fill(Connection& from, std::uint64_t bytes_max) {
    assert(is_open() && empty() && bytes_max > 0);
    const IoResult result = from.splice_into(
        write_end_.get(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, kPortion)));
    size_ = result.bytes;
    if (result.status == IoStatus::ok && empty()) pipes_.is_refused = true;
    return result;
}

IoStatus SplicePipe::drain(Connection& to) {
    while (size_ > 0) {
        const IoResult result = to.splice_from(read_end_.get(), size_);
        if (result.status != IoStatus::ok) return result.status;
        if (result.bytes == 0) return IoStatus::failed;  // never; it must not end in a loop
        size_ -= result.bytes;
    }
    return IoStatus::ok;
}

}  // namespace tidegate
