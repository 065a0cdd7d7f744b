// A client that opens WebSockets, and then leaves them idle or sends messages of 64 bytes through
// them, in each the next one as soon as the one before has come back.
//
// Says `open` when all are open and have carried one message each. A line on standard input starts
// the messages, and a line of JSON says how they went; the end of standard input ends it all. So
// the figures do not include the opening. Everything is bounded: tunnels, time. One thread,
// one loop.
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "tls_socket.hpp"
#include "websocket.hpp"

namespace {

using namespace bench;

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMessageBytes = 64;
constexpr std::size_t kHeadBytesMax = 65'536;
constexpr std::chrono::seconds kPatience{10};  // for the last messages

struct Options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;
    std::string name = "bench.test";
    std::string groups = "X25519";
    bool tls = false;
    std::size_t tunnels = 64;
    double seconds = 1;
};

// The socket of one client; blocking at first.
class Tunnel {
  public:
    Tunnel(const Options& options, SSL_CTX* context, std::size_t number)
        : number_(number), descriptor_(connect_to(options.address, options.port)) {
        if (context != nullptr) tls_ = shake_hands(context, descriptor_.get(), options.name);
        open(options.name);
    }

    int fd() const { return descriptor_.get(); }

    void stop_blocking() {
        if (::fcntl(fd(), F_SETFL, O_NONBLOCK) != 0) fail("fcntl");
        blocks_ = false;
    }

    // The next message: no other tunnel has it, and this one has it only once.
    void send_message(Masks& masks) {
        std::array<char, kMessageBytes + 1> text{};
        std::snprintf(text.data(), text.size(), "%031zu %032llu", number_,
                      static_cast<unsigned long long>(++sent_));
        message_.assign(text.data(), kMessageBytes);
        frame_.clear();
        add_frame(frame_, kBinary, message_, masks.next());
        since_ = Clock::now();
        send(frame_);
    }

    // Whether the message is back. Throws when something else is.
    bool receive_message() {
        receive();
        const auto frame = first_frame(input_);
        if (!frame) return false;
        if (frame->opcode != kBinary || frame->payload != message_ ||
            frame->bytes != input_.size()) {
            throw std::runtime_error("a tunnel gave back something else");
        }
        input_.clear();
        return true;
    }

    Clock::time_point since() const { return since_; }

  private:
    void open(const std::string& name) {
        const std::string key = random_key();
        send("GET / HTTP/1.1\r\nHost: " + name +
             "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
             "Sec-WebSocket-Key: " +
             key + "\r\n\r\n");
        std::size_t end = 0;
        while ((end = input_.find(kHeadEnd)) == input_.npos) {
            if (input_.size() > kHeadBytesMax) throw std::runtime_error("an answer is too long");
            receive();
        }
        const std::string_view head = std::string_view(input_).substr(0, end + 2);
        if (!head.starts_with("HTTP/1.1 101 ")) {
            throw std::runtime_error("the server does not open WebSockets: " +
                                     std::string(head.substr(0, head.find('\r'))));
        }
        if (field_of(head, "sec-websocket-accept") != accept_value(key)) {
            throw std::runtime_error("a handshake was accepted with a wrong value");
        }
        input_.erase(0, end + kHeadEnd.size());
    }

    // Short enough for one call: at most one message is on its way.
    void send(std::string_view bytes) {
        if (tls_ != nullptr) {
            ERR_clear_error();
            if (SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())) <= 0) {
                fail_tls("send");
            }
        } else if (::send(fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) !=
                   static_cast<ssize_t>(bytes.size())) {
            fail("send");
        }
    }

    // Appends what is there; nothing, if that blocks.
    void receive() {
        std::array<char, 4096> buffer;
        if (tls_ != nullptr) return receive_tls(buffer);
        const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), 0);
        if (got == 0) throw std::runtime_error("a tunnel was closed");
        if (got < 0 && (errno != EAGAIN || blocks_)) fail("receive");
        if (got > 0) input_.append(buffer.data(), static_cast<std::size_t>(got));
    }

    void receive_tls(std::array<char, 4096>& buffer) {
        ERR_clear_error();
        const int got = SSL_read(tls_.get(), buffer.data(), static_cast<int>(buffer.size()));
        if (got > 0) {
            input_.append(buffer.data(), static_cast<std::size_t>(got));
        } else if (SSL_get_error(tls_.get(), got) != SSL_ERROR_WANT_READ || blocks_) {
            fail_tls("receive");
        }
    }

    std::size_t number_;
    Descriptor descriptor_;
    TlsPtr tls_;  // none in the clear
    bool blocks_ = true;
    std::string input_;
    std::string message_;
    std::string frame_;
    std::uint64_t sent_ = 0;
    Clock::time_point since_;
};

class Client {
  public:
    explicit Client(const Options& options)
        : options_(options), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
        if (epoll_.get() < 0) fail("epoll");
        if (options.tls) context_ = make_client_context(TLS1_3_VERSION, options.groups);
        tunnels_.reserve(options.tunnels);
        while (tunnels_.size() < options.tunnels) open();
    }

    // Messages for as long as the options say.
    nlohmann::json run() {
        const auto begin = Clock::now();
        const auto end = begin + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(options_.seconds));
        for (Tunnel& tunnel : tunnels_) tunnel.send_message(masks_);
        waiting_ = tunnels_.size();
        while (waiting_ != 0) {
            if (Clock::now() > end + kPatience) throw std::runtime_error("messages are lost");
            wait(end);
        }
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        std::sort(times_us_.begin(), times_us_.end());
        return {{"echoes", times_us_.size()},
                {"seconds", seconds},
                {"p50_us", time_at(0.5)},
                {"p99_us", time_at(0.99)},
                {"p999_us", time_at(0.999)}};
    }

  private:
    void open() {
        Tunnel& tunnel = tunnels_.emplace_back(options_, context_.get(), tunnels_.size());
        tunnel.send_message(masks_);
        while (!tunnel.receive_message()) {
        }
        tunnel.stop_blocking();
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = tunnels_.size() - 1;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, tunnel.fd(), &event) != 0) fail("epoll_ctl");
    }

    void wait(Clock::time_point end) {
        std::array<epoll_event, 64> events{};
        const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), 100);
        if (count < 0 && errno != EINTR) fail("epoll_wait");
        for (int i = 0; i < count; ++i) {
            Tunnel& tunnel = tunnels_[events[static_cast<std::size_t>(i)].data.u64];
            if (!tunnel.receive_message()) continue;
            const auto now = Clock::now();
            times_us_.push_back(
                std::chrono::duration<float, std::micro>(now - tunnel.since()).count());
            if (now < end) {
                tunnel.send_message(masks_);
            } else {
                --waiting_;
            }
        }
    }

    float time_at(double share) const {
        return times_us_[static_cast<std::size_t>(share *
                                                  static_cast<double>(times_us_.size() - 1))];
    }

    const Options& options_;
    Descriptor epoll_;
    ContextPtr context_;
    Masks masks_;
    std::vector<Tunnel> tunnels_;
    std::size_t waiting_ = 0;  // messages that are not back
    std::vector<float> times_us_;
};

void declare(CLI::App& app, Options& options) {
    app.add_option("--address", options.address, "an IPv4 address");
    app.add_option("--port", options.port)->required();
    app.add_option("--name", options.name, "asked for in the handshake, and as Host");
    app.add_flag("--tls", options.tls, "TLS 1.3");
    app.add_option("--groups", options.groups, "of the key exchange, as OpenSSL names them");
    app.add_option("--tunnels", options.tunnels)->check(CLI::Range(1, 100'000));
    app.add_option("--seconds", options.seconds)->check(CLI::Range(0.01, 600.0));
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    Options options;
    CLI::App app("Opens WebSockets, and sends messages through them");
    declare(app, options);
    CLI11_PARSE(app, argc, argv);
    try {
        Client client(options);
        std::cout << "open" << std::endl;
        std::string line;
        if (std::getline(std::cin, line)) std::cout << client.run() << std::endl;
        while (std::getline(std::cin, line)) {
        }
    } catch (const std::exception& error) {
        std::cerr << "bench_tunnel: " << error.what() << '\n';
        return 1;
    }
}
