#include "app/handover.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/text.hpp"

namespace tidegate::app {

namespace {

constexpr std::size_t kControlBytes = CMSG_SPACE(HandoverChannel::kDescriptorsMax * sizeof(int));

// Much more fits into the queue than is ever sent at once.
constexpr int kSendPatienceMs = 1'000;

using Control = std::array<char, kControlBytes>;

// Owns what came with a message, whatever becomes of it.
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
    note.address = string_member(*object, "address").value_or("");
    if (note.step == HandoverStep::tickets && !read_keys(*object, note.ticket_keys)) {
        return std::nullopt;
    }
    return note;
}

}  // namespace tidegate::app
