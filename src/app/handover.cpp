#include "app/handover.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/listener.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "net/deadline.hpp"
#include "store/process_clock.hpp"
#include "store/replica_heartbeat.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(HandoverChannel::kDescriptorsMax * sizeof(int));

// Much more fits into the queue than is ever sent at once.
constexpr int kSendPatienceMs = 1'000;

using Control = std::array<char, kControlBytes>;

// Takes ownership of every descriptor that came with a message, also if the message is not
// understood.
std::vector<Descriptor> descriptors_of(msghdr& message) {
    std::vector<Descriptor> descriptors;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
            int number = -1;
            std::memcpy(&number, CMSG_DATA(part) + i * sizeof number, sizeof number);
            descriptors.emplace_back(number);
        }
    }
    return descriptors;
}

}  // namespace

std::pair<Descriptor, Descriptor> make_handover_sockets() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
        throw std::system_error(errno, std::generic_category(), "socketpair");
    }
    return {Descriptor(ends[0]), Descriptor(ends[1])};
}

HandoverChannel::HandoverChannel(Executor executor, Descriptor socket)
    : socket_(executor, socket.release()), timer_(executor) {
    socket_.non_blocking(true);
}

bool HandoverChannel::send(std::string_view text, std::span<const int> descriptors) {
    assert(text.size() <= kTextBytesMax && descriptors.size() <= kDescriptorsMax);
    iovec bytes{const_cast<char*>(text.data()), text.size()};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    alignas(cmsghdr) Control control{};
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* const part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
    }
    const int socket = socket_.native_handle();
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd ready{.fd = socket, .events = POLLOUT, .revents = 0};
    return ::poll(&ready, 1, kSendPatienceMs) == 1 &&
           ::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

Task<std::optional<HandoverMessage>> HandoverChannel::receive(std::chrono::milliseconds patience) {
    std::optional<HandoverMessage> message = take();
    if (message || is_closed_) co_return message;
    // The timer may have fired, with its handler in the queue, when a message ends the wait.
    const auto is_waiting = std::make_shared<bool>(true);
    timer_.expires_after(patience);
    timer_.async_wait([this, is_waiting](const error_code& ec) {
        if (!ec && *is_waiting) socket_.cancel();
    });
    const auto [ec] =
        co_await socket_.async_wait(asio::posix::descriptor_base::wait_read, as_values);
    *is_waiting = false;
    timer_.cancel();
    if (!ec) message = take();
    co_return message;
}

std::optional<HandoverMessage> HandoverChannel::receive_blocking(
    std::chrono::milliseconds patience) {
    pollfd ready{.fd = socket_.native_handle(), .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, static_cast<int>(patience.count())) != 1) return std::nullopt;
    return take();
}

std::optional<HandoverMessage> HandoverChannel::take() {
    std::string text(kTextBytesMax, '\0');
    iovec bytes{text.data(), text.size()};
    alignas(cmsghdr) Control control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_.native_handle(), &message, MSG_CMSG_CLOEXEC);
    if (size < 0) {
        is_closed_ = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
        return std::nullopt;
    }
    HandoverMessage taken{{}, descriptors_of(message)};
    // No message is empty, so this is the end; one that was cut is none of ours.
    is_closed_ = size == 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
    if (is_closed_) return std::nullopt;
    text.resize(static_cast<std::size_t>(size));
    taken.text = std::move(text);
    return taken;
}

namespace {

using std::chrono::duration_cast;

std::string hex_of_key(const TicketKey& key) {
    std::string text;
    append_hex(std::span(key.name), text);
    append_hex(std::span(key.mac), text);
    append_hex(std::span(key.cipher), text);
    return text;
}

template <std::size_t kBytes>
bool read_hex(std::string_view& text, std::array<unsigned char, kBytes>& into) {
    if (text.size() < 2 * kBytes) return false;
    for (std::size_t i = 0; i < kBytes; ++i) {
        const int byte = hex_byte(text[2 * i], text[2 * i + 1]);
        if (byte < 0) return false;
        into[i] = static_cast<unsigned char>(byte);
    }
    text.remove_prefix(2 * kBytes);
    return true;
}

std::int64_t number_of(const JsonValue& object, const char* name) {
    const JsonValue* const found = find_member(object, name);
    return found != nullptr && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

bool read_keys(const JsonValue& object, MadeTicketKeys& keys) {
    const JsonValue* const list = find_member(object, "keys");
    if (list == nullptr || !list->is_array()) return false;
    for (const JsonValue& one : *list) {
        if (!one.is_object()) return false;
        std::string_view text = string_member(one, "key").value_or("");
        TicketKey key;
        if (!read_hex(text, key.name) || !read_hex(text, key.mac) || !read_hex(text, key.cipher)) {
            return false;
        }
        keys.emplace_back(key,
                          TicketKeys::Time(std::chrono::microseconds(number_of(one, "made_us"))));
    }
    return true;
}

}  // namespace

std::string to_text(const HandoverNote& note) {
    nlohmann::ordered_json object{{"step", to_string(note.step)}};
    if (note.step == HandoverStep::hello) {
        object["version"] = note.version;
        object["clock_offset_us"] = note.clock_offset.count();
        if (note.replicas != 0) object["replicas"] = note.replicas;
    }
    if (note.pid != 0) object["pid"] = note.pid;
    if (!note.address.empty()) object["address"] = note.address;
    for (const auto& [key, made] : note.ticket_keys) {
        const auto made_us = duration_cast<limit::Micros>(made.time_since_epoch());
        object["keys"].push_back({{"key", hex_of_key(key)}, {"made_us", made_us.count()}});
    }
    return json_text(object);
}

std::optional<HandoverNote> parse_handover_note(std::string_view text) {
    const auto object = parse_json_object(text);
    if (!object) return std::nullopt;
    HandoverNote note;
    const auto name = string_member(*object, "step");
    for (const HandoverStep step : kEnumerators<HandoverStep>) {
        if (name == to_string(step)) note.step = step;
    }
    note.version = string_member(*object, "version").value_or("");
    note.pid = static_cast<pid_t>(number_of(*object, "pid"));
    note.clock_offset = limit::Micros{number_of(*object, "clock_offset_us")};
    note.replicas = static_cast<int>(
        std::clamp<std::int64_t>(number_of(*object, "replicas"), 0, store::kReplicasSeenMax));
    note.address = string_member(*object, "address").value_or("");
    if (note.step == HandoverStep::tickets && !read_keys(*object, note.ticket_keys)) {
        return std::nullopt;
    }
    return note;
}

namespace {

// The first after standard input, output and error.
constexpr int kChannel = 3;

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

// Where a shell finds a program that is called so.
std::vector<std::string> paths_of(const std::string& typed) {
    if (typed.find('/') != std::string::npos) return {typed};
    std::vector<std::string> paths;
    const char* const variable = std::getenv("PATH");
    std::istringstream folders(variable != nullptr ? variable : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        paths.push_back((folder.empty() ? "." : folder) + "/" + typed);
    }
    return paths;
}

// What the child does between its birth and its program.
struct SpawnActions {
    SpawnActions() {
        ::posix_spawn_file_actions_init(&files);
        ::posix_spawnattr_init(&attributes);
    }
    ~SpawnActions() {
        ::posix_spawn_file_actions_destroy(&files);
        ::posix_spawnattr_destroy(&attributes);
    }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;

    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
};

}  // namespace

OwnProgram OwnProgram::of_this_process() {
    OwnProgram own;
    std::ifstream file("/proc/self/cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t end = std::min(line.find('\0', at), line.size());
        own.arguments_.push_back(line.substr(at, end - at));
        at = end + 1;
    }
    std::error_code failure;
    const std::filesystem::path running = "/proc/self/exe";
    own.path_ = std::filesystem::read_symlink(running, failure).string();
    if (own.arguments_.empty()) own.arguments_.push_back(own.path_);
    // A link that leads to the version in use is followed anew.
    for (const std::string& path : paths_of(own.arguments_.front())) {
        if (!std::filesystem::equivalent(path, running, failure)) continue;
        own.path_ = path;
        break;
    }
    return own;
}

std::vector<std::string> successor_environment(std::vector<std::string> variables, int channel) {
    constexpr std::array<std::string_view, 5> kOfThisProcess{
        "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", kHandoverVariable};
    std::erase_if(variables, [&](const std::string& variable) {
        const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
        return std::find(kOfThisProcess.begin(), kOfThisProcess.end(), name) !=
               kOfThisProcess.end();
    });
    variables.push_back(std::string(kHandoverVariable) + "=" + std::to_string(channel));
    return variables;
}

Result<pid_t, std::string> OwnProgram::start(const Descriptor& channel) const {
    std::vector<std::string> variables;
    for (char** one = environ; *one != nullptr; ++one) variables.emplace_back(*one);
    variables = successor_environment(std::move(variables), kChannel);

    // Where the channel has that number already, it still stays open in the child. All else goes,
    // for not every library opens its descriptors so that a program that is started lacks them.
    SpawnActions actions;
    ::posix_spawn_file_actions_adddup2(&actions.files, channel.get(), kChannel);
    ::posix_spawn_file_actions_addclosefrom_np(&actions.files, kChannel + 1);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&actions.attributes, &none);
    ::posix_spawnattr_setflags(&actions.attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = -1;
    const int error = ::posix_spawn(&pid, path_.c_str(), &actions.files, &actions.attributes,
                                    pointers_to(arguments_).data(), pointers_to(variables).data());
    if (error != 0) {
        return "cannot start " + quote(path_) + ": " + std::generic_category().message(error);
    }
    return pid;
}

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
                replicas_ = note->replicas;
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

Task<bool> Predecessor::take_over(TakeOverHandlers handlers) {
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
                handlers.ticket_keys(note->address, note->ticket_keys);
                break;
            case HandoverStep::counts:
                if (!message->descriptors.empty()) {
                    handlers.counts(MappedFile(message->descriptors.front()).bytes());
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
                                                                 const OwnProgram& program,
                                                                 int replicas) try {
    auto [ours, theirs] = make_handover_sockets();
    const auto pid = program.start(theirs);
    if (!pid) return pid.error();
    std::unique_ptr<Successor> started(new Successor(executor, std::move(ours), *pid));
    started->send({.step = HandoverStep::hello,
                   .version = std::string(kVersion),
                   .clock_offset = store::process_clock_offset(),
                   .replicas = replicas,
                   .pid = ::getpid()});
    return started;
} catch (const std::system_error& error) {
    return std::string(error.what());
}

Successor::~Successor() {
    if (outlives_this_) return;
    // The child may have made the process that takes over, which has not told its id yet.
    send({.step = HandoverStep::stop});
    kill();
    if (child_ != 0) ::waitpid(child_, nullptr, 0);
}

void Successor::kill() const {
    if (child_ != 0) ::kill(child_, SIGKILL);
    // The end of its channel is its own end: another process may have its id by now.
    if (child_ == 0 && !outlives_this_ && !channel_.is_closed()) ::kill(pid_, SIGKILL);
}

void Successor::send(const HandoverNote& note, std::span<const int> descriptors) {
    const bool is_sent = channel_.send(to_text(note), descriptors);
    // await_step() sees the end of the process, but not that the process lacks a socket.
    lacks_sockets_ = lacks_sockets_ || (!is_sent && !descriptors.empty());
}

void Successor::offer(HandoverStep step, const std::string& address,
                      std::span<const int> descriptors) {
    while (!descriptors.empty()) {
        const std::size_t count = std::min(descriptors.size(), HandoverChannel::kDescriptorsMax);
        send({.step = step, .address = address}, descriptors.first(count));
        descriptors = descriptors.subspan(count);
    }
}

void Successor::hand_over_ticket_keys(const std::string& address, MadeTicketKeys keys) {
    send({.step = HandoverStep::tickets, .address = address, .ticket_keys = std::move(keys)});
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
    send({.step = HandoverStep::counts}, {&number, 1});
}

Task<std::string> Successor::until_started(std::chrono::milliseconds patience) {
    std::string fault = co_await await_step(HandoverStep::started, "start", patience);
    // The child ends as soon as it has made the other process. If it could not, it is that process.
    if (fault.empty() && pid_ != child_) ::waitpid(std::exchange(child_, 0), nullptr, 0);
    co_return fault;
}

Task<std::string> Successor::until_ready(std::chrono::milliseconds patience) {
    send({.step = HandoverStep::offered});
    if (lacks_sockets_) {
        co_await channel_.receive(std::chrono::milliseconds{0});  // sees whether it has ended
        if (channel_.is_closed()) co_return co_await until_ended();
        co_return fmt::format("process {} takes no sockets", pid_);
    }
    co_return co_await await_step(HandoverStep::ready, "become ready", patience);
}

Task<std::string> Successor::until_accepting(std::chrono::milliseconds patience) {
    send({.step = HandoverStep::go});
    std::string fault =
        co_await await_step(HandoverStep::accepting, "accept connections", patience);
    outlives_this_ = fault.empty();
    co_return fault;
}

Task<std::string> Successor::await_step(HandoverStep step, std::string_view what,
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
    send({.step = HandoverStep::leaving});
}

}  // namespace tidegate::app
