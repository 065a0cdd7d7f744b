// How a process gives its place to another: what the two say to each other and the channel for it,
// the start of the new process, and the side of each. Main thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/posix/basic_stream_descriptor.hpp>

#include "app/listener.hpp"
#include "base/described_enum.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "limit/limit.hpp"
#include "net/asio.hpp"
#include "net/descriptor.hpp"
#include "tls/tls_server.hpp"

namespace tidegate::app {

// The channel between a process and the one that takes its place: messages of text, with open
// descriptors beside them, over a pair of Unix sockets that keep messages apart (SOCK_SEQPACKET,
// unix(7)).
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
    // One message may carry this many descriptors: fewer than Linux allows (SCM_MAX_FD, 253).
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

// A process and the one that takes its place send each other notes: an object of JSON each, of
// which a reader of another version leaves aside what it does not know. The text of a note is made
// and read without I/O.
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
    int replicas = 0;               // hello: that Redis last counted; 0: not known
    pid_t pid = 0;                  // hello, started: of the process that says it
    std::string address{};          // listener, admin, tickets: as the configuration has it
    MadeTicketKeys ticket_keys{};   // tickets
};

std::string to_text(const HandoverNote& note);
// Nothing: it is none.
std::optional<HandoverNote> parse_handover_note(std::string_view text);

// Names the descriptor of its channel for a process that takes the place of another.
inline constexpr const char* kHandoverVariable = "TIDEGATE_HANDOVER";

// This program as it was started, to be started anew: by the same path, which leads to another
// version after an upgrade.
class OwnProgram {
  public:
    // To be called at the start: a file that is replaced later has another path by then.
    static OwnProgram of_this_process();

    // As it was typed or found in PATH, links not followed; with a slash.
    const std::string& path() const { return path_; }

    // Starts it with the same arguments, folder, output and environment; variables that name this
    // process or its descriptors are left out, and it has no descriptor of ours but `channel`,
    // which kHandoverVariable names. Returns its process id, or why it does not start.
    Result<pid_t, std::string> start(const Descriptor& channel) const;

  private:
    std::string path_;
    std::vector<std::string> arguments_;
};

// `variables`, each `NAME=value`, as the process that is started gets them. Pure.
std::vector<std::string> successor_environment(std::vector<std::string> variables, int channel);

// In a process that is to take the place of another: makes it the child of the init process or
// service manager, which then waits for its end, and tells the other process its id. Does nothing
// in any other process. To be called before there is a second thread.
void leave_parent(config::Environment environment);

// The process whose place this one takes.
class Predecessor {
  public:
    // These take what the former process leaves to this one, each as it comes.
    struct TakeOverHandlers {
        std::function<void(const std::string& address, const MadeTicketKeys&)> ticket_keys;
        std::function<void(std::string_view bytes)> counts;
    };

    // Greets the process that kHandoverVariable tells of and reads which listeners it offers. Null:
    // there is none. The error is a sentence. Blocks for a while at most; to be called once, before
    // anything asks for the time of the store.
    static Result<std::unique_ptr<Predecessor>, std::string> find(config::Environment environment,
                                                                  Executor executor);

    pid_t pid() const { return pid_; }
    // The number of proxies that Redis last counted for it; 0: not known.
    int replicas() const { return replicas_; }
    OfferedListeners& listeners() { return listeners_; }
    OfferedListeners& admin() { return admin_; }

    // Says that this process is ready, and takes what the former one leaves. True: this process is
    // to accept connections, also when the former one has crashed meanwhile. False: the former one
    // goes on, and this one is to stop.
    Task<bool> take_over(TakeOverHandlers handlers);
    // Says that this process accepts connections. Until the former one has left the service to it.
    Task<> tell_accepting();
    // Until the former process has ended.
    Task<> until_gone();

  private:
    Predecessor(Executor executor, Descriptor socket);

    std::string read_offers();

    HandoverChannel channel_;
    pid_t pid_ = 0;
    int replicas_ = 0;
    OfferedListeners listeners_;
    OfferedListeners admin_;
};

// The process that takes the place of this one.
class Successor {
  public:
    // Writes something, a piece at a time.
    using Write = std::function<void(const std::function<void(std::string_view)>&)>;

    // Starts `program`. `replicas`: see HandoverNote. The error says why it does not start.
    static Result<std::unique_ptr<Successor>, std::string> start(Executor executor,
                                                                 const OwnProgram& program,
                                                                 int replicas);
    // Ends it, unless it accepts.
    ~Successor();

    // Returns the process that takes over, once that has started; before, the one that starts it.
    pid_t pid() const { return pid_; }

    // Offers the sockets of a listener, or of the admin listener (HandoverStep::admin), at
    // `address`, as the configuration has it.
    void offer(HandoverStep step, const std::string& address, std::span<const int> descriptors);
    void hand_over_ticket_keys(const std::string& address, MadeTicketKeys keys);
    // Puts what `write` writes into a file in memory for hand_over_counts(); none: the system has
    // no memory for it. Any thread.
    static Descriptor save_counts(const Write& write);
    void hand_over_counts(const Descriptor& saved);

    // Each until the process has come so far. Or the reason why it does not come so far: a sentence
    // that begins with the process.
    Task<std::string> until_started(std::chrono::milliseconds patience);
    // After this there are no more offers.
    Task<std::string> until_ready(std::chrono::milliseconds patience);
    // Lets it accept. Once it does, it goes on when this is gone.
    Task<std::string> until_accepting(std::chrono::milliseconds patience);

    // It alone is the service from now on.
    void tell_leaving();
    // The task that waits for the process sees its end.
    void kill() const;

  private:
    Successor(Executor executor, Descriptor socket, pid_t child);

    void send(const HandoverNote& note, std::span<const int> descriptors = {});
    Task<std::string> await_step(HandoverStep step, std::string_view what,
                                 std::chrono::milliseconds patience);
    Task<std::string> until_ended();

    HandoverChannel channel_;
    Timer timer_;
    pid_t child_;  // makes the process that takes over, and ends; 0: it has ended
    pid_t pid_;
    bool lacks_sockets_ = false;
    bool outlives_this_ = false;
};

}  // namespace tidegate::app
