// The channel between a process and the one that takes its place: messages of text, with open
// descriptors beside them, over a pair of Unix sockets that keep messages apart (SOCK_SEQPACKET,
// unix(7)). Main thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include "net/asio.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

struct HandoverMessage {
    std::string text;
    std::vector<Descriptor> descriptors;
};

// Two connected ends; both are closed where a program is started, unless it is given one. Throws
// std::system_error if the system has none to give.
std::pair<Descriptor, Descriptor> make_handover_sockets();

// One end. Used by one Task at a time.
class HandoverChannel {
  public:
    static constexpr std::size_t kTextBytesMax = 65'536;
    // What one message may carry: less than what Linux allows (SCM_MAX_FD, 253).
    static constexpr std::size_t kDescriptorsMax = 200;

    // `socket` is an end of a pair of make_handover_sockets().
    HandoverChannel(Executor executor, Descriptor socket);

    // The other end gets duplicates of the descriptors. False: it is gone, or does not read.
    // Requires no more bytes and descriptors than the bounds.
    bool send(std::string_view text, std::span<const int> descriptors = {});
    // The next message. Nothing: the other end is gone (then is_closed()), or none came in time.
    Task<std::optional<HandoverMessage>> receive(std::chrono::milliseconds patience);
    // The same before the loop runs: blocks.
    std::optional<HandoverMessage> receive_blocking(std::chrono::milliseconds patience);
    bool is_closed() const { return is_closed_; }

  private:
    // The message that waits, if one does; sets is_closed_.
    std::optional<HandoverMessage> take();

    boost::asio::posix::basic_stream_descriptor<Executor> socket_;
    Timer timer_;
    bool is_closed_ = false;
};

}  // namespace tidegate::app
