// The upstream of bench_tunnel: a WebSocket server that sends each message back.
//
// As plain as can be, so that it takes little of what the proxy has: one thread, one loop, no
// memory for a connection but what it has of a frame that is not complete. It runs until it is
// ended.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <unordered_map>

#include <CLI/CLI.hpp>

#include "tls_socket.hpp"
#include "websocket.hpp"

namespace {

using namespace bench;

constexpr int kBacklog = 4096;
constexpr std::size_t kHeadBytesMax = 16'384;

struct Connection {
    std::string input;  // bytes that are not answered yet
    bool is_tunnel = false;
};

// The answer to the message that begins `input`, which it takes off; empty: more has to come.
// Throws when the message is not as this server wants it.
std::string shake_hands_with(std::string& input) {
    const std::size_t end = input.find(kHeadEnd);
    if (end == input.npos) {
        if (input.size() > kHeadBytesMax) throw std::runtime_error("a head is too long");
        return {};
    }
    const std::string_view key =
        field_of(std::string_view(input).substr(0, end + 2), "sec-websocket-key");
    if (key.empty()) throw std::runtime_error("a request is no handshake");
    std::string answer =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Accept: " +
        accept_value(key) + "\r\n\r\n";
    input.erase(0, end + kHeadEnd.size());
    return answer;
}

struct Echo {
    std::string bytes;
    bool is_last = false;
};

// Of all frames that are complete.
Echo echo(std::string& input) {
    Echo made;
    std::size_t done = 0;
    while (const auto frame = first_frame(std::string_view(input).substr(done))) {
        done += frame->bytes;
        made.is_last = frame->opcode == kClose;
        add_frame(made.bytes, frame->opcode == kPing ? kPong : frame->opcode, frame->payload);
        if (made.is_last) break;
    }
    input.erase(0, done);
    return made;
}

class Server {
  public:
    explicit Server(std::uint16_t port)
        : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
          epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
        if (listener_.get() < 0 || epoll_.get() < 0) fail("socket");
        const int on = 1;
        ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(port);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
                0 ||
            ::listen(listener_.get(), kBacklog) != 0) {
            fail("listen");
        }
        watch(listener_.get());
    }

    [[noreturn]] void run() {
        std::array<epoll_event, 64> events{};
        for (;;) {
            const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), -1);
            if (count < 0 && errno != EINTR) fail("epoll_wait");
            for (int i = 0; i < count; ++i) {
                const int fd = events[static_cast<std::size_t>(i)].data.fd;
                fd == listener_.get() ? accept() : serve(fd);
            }
        }
    }

  private:
    void watch(int fd) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
    }

    void accept() {
        const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        const int on = 1;
        ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        watch(fd);
        connections_[fd];
    }

    void serve(int fd) {
        const ssize_t got = ::recv(fd, buffer_.data(), buffer_.size(), 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        bool stays = false;
        try {
            stays = got > 0 && answer(fd, {buffer_.data(), static_cast<std::size_t>(got)});
        } catch (const std::exception& fault) {
            std::cerr << "bench_tunnel_echo: " << fault.what() << '\n';
        }
        if (stays) return;
        connections_.erase(fd);
        ::close(fd);
    }

    // False: the connection has ended. One that does not take its messages does, too.
    bool answer(int fd, std::string_view bytes) {
        Connection& connection = connections_[fd];
        connection.input += bytes;
        Echo made;
        if (!connection.is_tunnel) {
            made.bytes = shake_hands_with(connection.input);
            connection.is_tunnel = !made.bytes.empty();
        }
        if (connection.is_tunnel) {
            Echo more = echo(connection.input);
            made.bytes += more.bytes;
            made.is_last = more.is_last;
        }
        if (made.bytes.empty()) return true;
        const ssize_t sent = ::send(fd, made.bytes.data(), made.bytes.size(), MSG_NOSIGNAL);
        return sent == static_cast<ssize_t>(made.bytes.size()) && !made.is_last;
    }

    Descriptor listener_;
    Descriptor epoll_;
    std::unordered_map<int, Connection> connections_;
    std::array<char, 65'536> buffer_{};
};

}  // namespace

int main(int argc, char** argv) {
    std::uint16_t port = 0;
    CLI::App app("A WebSocket server that sends each message back");
    app.add_option("--port", port, "on 127.0.0.1")->required();
    CLI11_PARSE(app, argc, argv);
    try {
        Server(port).run();
    } catch (const std::exception& error) {
        std::cerr << "bench_tunnel_echo: " << error.what() << '\n';
        return 1;
    }
}
