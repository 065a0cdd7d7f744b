#include "app/predecessor.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "app/listener.hpp"
#include "app/own_program.hpp"
#include "base/process.hpp"
#include "base/units.hpp"
#include "store/memory_store.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

constexpr std::chrono::seconds kOfferPatience{10};
// The former process writes all its counts meanwhile.
constexpr std::chrono::seconds kGoPatience{60};
// It has nothing else to do.
constexpr std::chrono::seconds kLeavePatience{5};

// The descriptor that kHandoverVariable names; nothing: it names none that is a channel.
std::optional<int> channel_of(config::Environment environment) {
    const auto number = parse_decimal(environment(kHandoverVariable).value_or(""));
    if (!number || *number < 3 || *number > 1'023) return std::nullopt;
    const int descriptor = static_cast<int>(*number);
    if (socket_option(descriptor, SOL_SOCKET, SO_TYPE) != SOCK_SEQPACKET) return std::nullopt;
    return descriptor;
}

// The bytes of a file, mapped while this lives.
class MappedFile {
  public:
    explicit MappedFile(const Descriptor& file) {
        struct stat info {};
        if (::fstat(file.get(), &info) != 0 || info.st_size == 0) return;
        size_ = static_cast<std::size_t>(info.st_size);
        address_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
    }
    ~MappedFile() {
        if (address_ != MAP_FAILED) ::munmap(address_, size_);
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::string_view bytes() const {
        if (address_ == MAP_FAILED) return {};
        return {static_cast<const char*>(address_), size_};
    }

  private:
    void* address_ = MAP_FAILED;
    std::size_t size_ = 0;
};

}  // namespace

Predecessor::Predecessor(Executor executor, Descriptor socket)
    : channel_(executor, std::move(socket)) {}

void leave_parent(config::Environment environment) {
    const auto channel = channel_of(environment);
    if (!channel) return;
    const pid_t child = ::fork();
    if (child > 0) ::_exit(0);
    // Where there is no child, this process goes on as that of its parent.
    const std::string text = to_text({.step = HandoverStep::started, .pid = ::getpid()});
    ::send(*channel, text.data(), text.size(), MSG_NOSIGNAL);
}

Result<std::unique_ptr<Predecessor>, std::string> Predecessor::find(config::Environment environment,
                                                                    Executor executor) {
    if (!environment(kHandoverVariable)) return std::unique_ptr<Predecessor>();
    const auto channel = channel_of(environment);
    if (!channel) {
        return std::string(kHandoverVariable) +
               " is set, but no process hands over to this one: unset it";
    }
    ::unsetenv(kHandoverVariable);  // not for programs that this one starts
    ::fcntl(*channel, F_SETFD, FD_CLOEXEC);
    std::unique_ptr<Predecessor> found(new Predecessor(executor, Descriptor(*channel)));
    std::string fault = found->read_offers();
    if (!fault.empty()) return fault;
    return found;
}

std::string Predecessor::read_offers() {
    for (;;) {
        auto message = channel_.receive_blocking(kOfferPatience);
        if (!message) return "the process that was to hand over has ended, or says nothing";
        auto note = parse_handover_note(message->text);
        if (!note) {
            return "the process that hands over sent what this version cannot read, and goes on: "
                   "restart Tidegate";
        }
        switch (note->step) {
            case HandoverStep::hello:
                pid_ = note->pid;
                store::set_process_clock_offset(note->clock_offset);
                log(Level::info, "taking over from process {} (Tidegate {})", pid_, note->version);
                break;
            case HandoverStep::listener:
                add_offer(listeners_, note->address, std::move(message->descriptors));
                break;
            case HandoverStep::admin:
                add_offer(admin_, note->address, std::move(message->descriptors));
                break;
            case HandoverStep::offered:
                return {};
            case HandoverStep::stop:
                return "the process that was to hand over goes on";
            default:
                break;
        }
    }
}

Task<bool> Predecessor::take_over(Takers takers) {
    log(Level::info, "ready to take over from process {}", pid_);
    channel_.send(to_text({.step = HandoverStep::ready}));
    for (;;) {
        const auto message = co_await channel_.receive(kGoPatience);
        if (!message) {
            log(Level::warn,
                "process {} {}: accepting connections; what it has counted may be lost", pid_,
                channel_.is_closed() ? "has ended before it handed over"
                                     : "does not end the hand-over");
            co_return true;
        }
        const auto note = parse_handover_note(message->text);
        if (!note) continue;
        switch (note->step) {
            case HandoverStep::tickets:
                takers.ticket_keys(note->address, note->ticket_keys);
                break;
            case HandoverStep::counts:
                if (!message->descriptors.empty()) {
                    takers.counts(MappedFile(message->descriptors.front()).bytes());
                }
                break;
            case HandoverStep::go:
                co_return true;
            case HandoverStep::stop:
                co_return false;
            default:
                break;
        }
    }
}

Task<> Predecessor::tell_accepting() {
    channel_.send(to_text({.step = HandoverStep::accepting}));
    for (;;) {
        const auto message = co_await channel_.receive(kLeavePatience);
        if (!message) co_return;
        const auto note = parse_handover_note(message->text);
        if (note && note->step == HandoverStep::leaving) co_return;
    }
}

Task<> Predecessor::until_gone() {
    while (!channel_.is_closed()) co_await channel_.receive(std::chrono::hours{1});
}

}  // namespace tidegate::app
