#include "app/successor.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/process.hpp"
#include "base/units.hpp"
#include "net/deadline.hpp"
#include "store/memory_store.hpp"

namespace tidegate::app {

namespace {

constexpr std::chrono::milliseconds kEndPatience{2'000};
constexpr std::chrono::milliseconds kEndPoll{10};

std::string status_text(int status) {
    if (WIFEXITED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
    if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
    return "ended";
}

// A file in memory. A process that has its descriptor may map it.
Descriptor memory_file() {
    return Descriptor(::memfd_create("tidegate-counts", MFD_CLOEXEC | MFD_ALLOW_SEALING));
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

Successor::Successor(Executor executor, Descriptor socket, pid_t child)
    : channel_(executor, std::move(socket)), timer_(executor), child_(child), pid_(child) {}

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
    // The child may have made the process that takes over, which has not told its id yet.
    say({.step = HandoverStep::stop});
    kill();
    if (child_ != 0) ::waitpid(child_, nullptr, 0);
}

void Successor::kill() const {
    if (child_ != 0) ::kill(child_, SIGKILL);
    // The end of its channel is its own end: another process may have its id by now.
    if (child_ == 0 && !outlives_this_ && !channel_.is_closed()) ::kill(pid_, SIGKILL);
}

void Successor::say(const HandoverNote& note, std::span<const int> descriptors) {
    const bool is_said = channel_.send(to_text(note), descriptors);
    // until_said() sees the end of the process, but not that the process lacks a socket.
    misses_offers_ = misses_offers_ || (!is_said && !descriptors.empty());
}

void Successor::offer(HandoverStep step, const std::string& address,
                      std::span<const int> descriptors) {
    while (!descriptors.empty()) {
        const std::size_t count = std::min(descriptors.size(), HandoverChannel::kDescriptorsMax);
        say({.step = step, .address = address}, descriptors.first(count));
        descriptors = descriptors.subspan(count);
    }
}

void Successor::hand_over_ticket_keys(const std::string& address, MadeTicketKeys keys) {
    say({.step = HandoverStep::tickets, .address = address, .ticket_keys = std::move(keys)});
}

Descriptor Successor::save_counts(const Write& write) {
    Descriptor file = memory_file();
    bool is_whole = static_cast<bool>(file);
    write([&](std::string_view bytes) { is_whole = is_whole && write_all(file.get(), bytes); });
    if (!is_whole) return Descriptor();
    // What the other process maps must not become shorter.
    ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return file;
}

void Successor::hand_over_counts(const Descriptor& saved) {
    const int number = saved.get();
    say({.step = HandoverStep::counts}, {&number, 1});
}

Task<std::string> Successor::until_started(std::chrono::milliseconds patience) {
    std::string fault = co_await until_said(HandoverStep::started, "start", patience);
    // The child ends as soon as it has made the other process. If it could not, it is that process.
    if (fault.empty() && pid_ != child_) ::waitpid(std::exchange(child_, 0), nullptr, 0);
    co_return fault;
}

Task<std::string> Successor::until_ready(std::chrono::milliseconds patience) {
    say({.step = HandoverStep::offered});
    if (misses_offers_) {
        co_await channel_.receive(std::chrono::milliseconds{0});  // sees whether it has ended
        if (channel_.is_closed()) co_return co_await until_ended();
        co_return fmt::format("process {} takes no sockets", pid_);
    }
    co_return co_await until_said(HandoverStep::ready, "become ready", patience);
}

Task<std::string> Successor::until_accepting(std::chrono::milliseconds patience) {
    say({.step = HandoverStep::go});
    std::string fault =
        co_await until_said(HandoverStep::accepting, "accept connections", patience);
    outlives_this_ = fault.empty();
    co_return fault;
}

Task<std::string> Successor::until_said(HandoverStep step, std::string_view what,
                                        std::chrono::milliseconds patience) {
    const SteadyTime until = steady_now() + patience;
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_now());
        const auto message = co_await channel_.receive(left);
        if (!message && channel_.is_closed()) co_return co_await until_ended();
        if (!message) {
            co_return fmt::format("process {} did not {} in {}", pid_, what,
                                  format_duration(patience));
        }
        const auto note = parse_handover_note(message->text);
        if (!note || note->step != step) continue;
        if (note->pid != 0) pid_ = note->pid;
        co_return std::string();
    }
}

// The end of a process closes its channel a moment before its parent can ask how it ended.
Task<std::string> Successor::until_ended() {
    std::string how = "ended";
    for (const SteadyTime until = steady_now() + kEndPatience;
         child_ != 0 && steady_now() < until;) {
        int status = 0;
        const pid_t found = ::waitpid(child_, &status, WNOHANG);
        if (found == 0) {
            timer_.expires_after(kEndPoll);
            co_await timer_.async_wait(as_values);
            continue;
        }
        child_ = 0;
        // Where the parent ignores SIGCHLD, the kernel keeps no status.
        if (found > 0) how = status_text(status);
    }
    if (child_ != 0) {
        co_return fmt::format("process {} has closed its end of the channel, and goes on", pid_);
    }
    co_return fmt::format("process {} {} before it accepted; its lines above say why", pid_, how);
}

void Successor::tell_leaving() {
    say({.step = HandoverStep::leaving});
}

}  // namespace tidegate::app
