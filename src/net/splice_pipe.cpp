#include "net/splice_pipe.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace tidegate {

namespace {

// What a pipe holds by default. Larger portions cost more, as they leave the processor's cache, and
// smaller ones more system calls than copying does. The kernel gives a user who holds many pipes
// smaller ones (pipe-user-pages-soft in pipe(7)).
constexpr int kPortion = 65'536;

}  // namespace

SplicePipe::SplicePipe(SplicePipes& pipes) : pipes_(pipes) {
    if (pipes_.is_refused || pipes_.open >= kPipesMax) return;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) return;
    Descriptor out(ends[0]);
    Descriptor in(ends[1]);
    if (::fcntl(in.get(), F_GETPIPE_SZ) < kPortion) return;
    out_ = std::move(out);
    in_ = std::move(in);
    ++pipes_.open;
}

SplicePipe::~SplicePipe() {
    if (is_open()) --pipes_.open;
}

// The pipe is empty: only the connection can block.
IoResult SplicePipe::fill(Connection& from, std::uint64_t bytes_max) {
    assert(is_open() && empty() && bytes_max > 0);
    const IoResult result = from.splice_into(
        in_.get(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes_max, kPortion)));
    size_ = result.bytes;
    if (result.status == IoStatus::ok && empty()) pipes_.is_refused = true;
    return result;
}

IoStatus SplicePipe::drain(Connection& to) {
    while (size_ > 0) {
        const IoResult result = to.splice_from(out_.get(), size_);
        if (result.status != IoStatus::ok) return result.status;
        if (result.bytes == 0) return IoStatus::failed;  // never; it must not end in a loop
        size_ -= result.bytes;
    }
    return IoStatus::ok;
}

}  // namespace tidegate
