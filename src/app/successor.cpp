#include "app/successor.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/units.hpp"
#include "base/version.hpp"
#include "net/deadline.hpp"
#include "store/memory_store.hpp"

namespace tidegate::app {

namespace {

// It counts on from all that is counted before it accepts.
constexpr std::chrono::milliseconds kAcceptingPatience{60'000};
constexpr std::chrono::milliseconds kEndPatience{2'000};
constexpr std::chrono::milliseconds kEndPoll{10};

std::string status_text(int status) {
    if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
    if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
    return "ended";
}

// A file without a name, in memory. Whoever has its descriptor may map it.
Descriptor memory_file() {
    return Descriptor(::memfd_create("tidegate-counts", MFD_CLOEXEC));
}

bool write_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

}  // namespace

Successor::Successor(Executor executor, Descriptor socket, pid_t pid)
    : channel_(executor, std::move(socket)), timer_(executor), pid_(pid) {}

Result<std::unique_ptr<Successor>, std::string> Successor::start(Executor executor,
                                                                 const OwnProgram& program) try {
    auto [ours, theirs] = make_handover_sockets();
    const auto pid = program.start(theirs);
    if (!pid) return pid.error();
    std::unique_ptr<Successor> started(new Successor(executor, std::move(ours), *pid));
    started->say({.step = HandoverStep::hello,
                  .version = std::string(kVersion),
                  .clock_offset = store::process_clock_offset(),
                  .pid = ::getpid()});
    return started;
} catch (const std::system_error& error) {
    return std::string(error.what());
}

Successor::~Successor() {
    if (outlives_this_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void Successor::say(const HandoverNote& note, std::span<const int> descriptors) {
    // One that is gone, or does not read, is noticed by who waits for it.
    channel_.send(to_text(note), descriptors);
}

void Successor::offer(HandoverStep step, const std::string& address,
                      std::span<const int> descriptors) {
    while (!descriptors.empty()) {
        const std::size_t count = std::min(descriptors.size(), HandoverChannel::kDescriptorsMax);
        say({.step = step, .address = address}, descriptors.first(count));
        descriptors = descriptors.subspan(count);
    }
}

Task<std::string> Successor::until_ready(std::chrono::milliseconds patience) {
    say({.step = HandoverStep::offered});
    return until_said(HandoverStep::ready, patience);
}

Task<std::string> Successor::until_accepting() {
    say({.step = HandoverStep::go});
    std::string fault = co_await until_said(HandoverStep::accepting, kAcceptingPatience);
    outlives_this_ = outlives_this_ || fault.empty();
    co_return fault;
}

Task<std::string> Successor::until_said(HandoverStep step, std::chrono::milliseconds patience) {
    const SteadyTime until = steady_now() + patience;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_now());
        const auto message = co_await channel_.receive(left);
        if (message) {
            const auto note = parse_handover_note(message->text);
            if (note && note->step == step) co_return std::string();
            continue;
        }
        if (channel_.is_closed()) co_return co_await until_ended();
        co_return fmt::format("process {} is not ready after {}", pid_, format_duration(patience));
    }
}

// The end of a process closes its channel a moment before others can ask how it ended.
Task<std::string> Successor::until_ended() {
    for (const SteadyTime until = steady_now() + kEndPatience; steady_now() < until;) {
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) == pid_) {
            outlives_this_ = true;
            co_return fmt::format("process {} {} before it accepted; its lines above say why", pid_,
                                  status_text(status));
        }
        timer_.expires_after(kEndPoll);
        co_await timer_.async_wait(as_values);
    }
    co_return fmt::format("process {} has closed its end of the channel, and goes on", pid_);
}

void Successor::hand_over_ticket_keys(const std::string& address, MadeTicketKeys keys) {
    say({.step = HandoverStep::tickets, .address = address, .ticket_keys = std::move(keys)});
}

bool Successor::hand_over_counts(const Write& write) {
    const Descriptor file = memory_file();
    bool is_whole = static_cast<bool>(file);
    write([&](std::string_view bytes) { is_whole = is_whole && write_all(file.get(), bytes); });
    const int number = file.get();
    if (is_whole) say({.step = HandoverStep::counts}, {&number, 1});
    return is_whole;
}

void Successor::kill() const {
    if (!outlives_this_) ::kill(pid_, SIGKILL);
}

}  // namespace tidegate::app
