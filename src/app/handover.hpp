// What a process and the one that takes its place say to each other, and the channel for it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include "base/described_enum.hpp"
#include "limit/limit.hpp"
#include "net/asio.hpp"
#include "net/descriptor.hpp"
#include "tls/ticket_keys.hpp"

namespace tidegate::app {

// The channel between a process and the one that takes its place: messages of text, with open
// descriptors beside them, over a pair of Unix sockets that keep messages apart (SOCK_SEQPACKET,
// unix(7)). Main thread.
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

// What a process and the one that takes its place say to each other: an object of JSON each, of
// which a reader of another version leaves aside what it does not know. Pure.
//
//   former -> new   hello, listener..., admin, offered
//   new -> former   started: it has read its configuration
//   new -> former   ready: it has opened and fetched all that it needs
//   former -> new   tickets..., counts, go: it accepts no more connections
//   new -> former   accepting: it does
//   former -> new   leaving: it will not accept again
//
// If the former process ends before `go`, it has crashed: the new one accepts all the same. If the
// new one ends before `accepting`, the former one accepts again. A former process that goes on says
// `stop`, and ends the new one.
//
// Versions speak with each other: steps and members are added, and never get another meaning.
BOOST_DEFINE_FIXED_ENUM_CLASS(HandoverStep, std::uint8_t,
                              unknown,  // of another version
                              hello,
                              listener,  // with its sockets
                              admin,     // with its socket
                              offered,   // no more listeners
                              ready, tickets,
                              counts,  // with a file that holds them
                              go, accepting, started, leaving, stop)

using MadeTicketKeys = std::vector<std::pair<TicketKey, TicketKeys::Time>>;

// Each step has some of these.
struct HandoverNote {
    HandoverStep step = HandoverStep::unknown;
    std::string version{};          // hello
    limit::Micros clock_offset{0};  // hello: see store::process_clock_offset()
    pid_t pid = 0;                  // hello, started: of the process that says it
    std::string address{};          // listener, admin, tickets: as the configuration has it
    MadeTicketKeys ticket_keys{};   // tickets
};

std::string to_text(const HandoverNote& note);
// Nothing: it is none.
std::optional<HandoverNote> parse_handover_note(std::string_view text);

}  // namespace tidegate::app
