#include "app/handover_channel.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

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

}  // namespace tidegate::app
