// A client that measures TLS connections: each sends one request, and then ends or stays.
//
// The request is one of HTTP/1.1 or, with --http2, of HTTP/2.
//
// Its handshakes take about as much as OpenSSL itself: no certificate is verified but for the
// signature of the handshake, and a resumed connection uses the newest ticket of its thread.
// Everything is bounded: threads, connections, time. Prints one line of JSON.
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <openssl/ssl.h>

#include "http2_request.hpp"
#include "tls_socket.hpp"

namespace {

using namespace bench;

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAnswerBytesMax = 65'536;
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kHttp2 = "\x02h2";  // as ALPN has it

struct Options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;
    std::string name = "bench.test";
    std::string version = "1.3";
    std::string groups = "X25519";
    bool resume = false;
    bool http2 = false;
    std::size_t threads = 8;
    std::uint64_t connections = 100'000'000;
    double seconds = 1;
    std::size_t hold = 0;  // so many connections stay until standard input ends
};

// How many bytes the answer has in all; 0: its head is not complete.
std::size_t bytes_of(std::string_view answer) {
    const std::size_t end = answer.find(kHeadEnd);
    if (end == answer.npos) return 0;
    if (!answer.starts_with("HTTP/1.1 200 ")) throw std::runtime_error("the answer is not 200");
    constexpr std::string_view kLength = "\r\ncontent-length:";
    std::string head(answer.substr(0, end + 2));
    std::transform(head.begin(), head.end(), head.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t at = head.find(kLength);
    if (at == head.npos) throw std::runtime_error("the answer has no length");
    std::size_t length = 0;
    const std::size_t digits = head.find_first_not_of(' ', at + kLength.size());
    std::from_chars(head.data() + digits, head.data() + head.size(), length);
    return end + kHeadEnd.size() + length;
}

// The connections of one thread.
class Client {
  public:
    explicit Client(const Options& options)
        : options_(options),
          context_(make_client_context(options.version == "1.2" ? TLS1_2_VERSION : TLS1_3_VERSION,
                                       options.groups)),
          request_("GET / HTTP/1.1\r\nHost: " + options.name + "\r\n\r\n") {
        SSL_CTX* const context = context_.get();
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
        SSL_CTX_set_ex_data(context, 0, this);
        if (options.resume) SSL_CTX_sess_set_new_cb(context, keep);
        if (!options.http2) return;
        const auto* const alpn = reinterpret_cast<const unsigned char*>(kHttp2.data());
        if (SSL_CTX_set_alpn_protos(context, alpn, kHttp2.size()) != 0) fail_tls("ALPN");
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    struct Connection {
        Descriptor descriptor;
        TlsPtr tls;
    };

    // Shakes hands, sends the request and reads the answer.
    Connection open() {
        Descriptor descriptor = connect_to(options_.address, options_.port);
        TlsPtr made = shake_hands(context_.get(), descriptor.get(), options_.name, session_.get());
        SSL* const tls = made.get();
        options_.http2 ? ask_http2(tls) : ask(tls);
        if (SSL_session_reused(tls) == 1) ++resumed_;
        ++opened_;
        return {std::move(descriptor), std::move(made)};
    }

    // One that ends at once, as clients end them.
    void visit() {
        const auto begin = Clock::now();
        const Connection made = open();
        times_us_.push_back(std::chrono::duration<float, std::micro>(Clock::now() - begin).count());
        SSL_shutdown(made.tls.get());
    }

    std::uint64_t opened() const { return opened_; }
    std::uint64_t resumed() const { return resumed_; }
    const std::vector<float>& times_us() const { return times_us_; }

  private:
    static int keep(SSL* tls, SSL_SESSION* session) {
        static_cast<Client*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(tls), 0))->session_.reset(session);
        return 1;
    }

    void ask(SSL* tls) {
        send(tls, request_);
        std::string answer;
        std::size_t expected = 0;
        while (expected == 0 || answer.size() < expected) {
            answer += receive(tls);
            if (answer.size() > kAnswerBytesMax) throw std::runtime_error("the answer is too long");
            if (expected == 0) expected = bytes_of(answer);
        }
    }

    void ask_http2(SSL* tls) {
        const unsigned char* agreed = nullptr;
        unsigned length = 0;
        SSL_get0_alpn_selected(tls, &agreed, &length);
        if (length == 0 ||
            kHttp2.substr(1) != std::string_view(reinterpret_cast<const char*>(agreed), length)) {
            throw std::runtime_error("the server does not speak HTTP/2");
        }
        Http2Request request(options_.name);
        send(tls, request.take_output());
        while (!request.is_done()) {
            request.receive(receive(tls));
            if (const std::string more = request.take_output(); !more.empty()) send(tls, more);
        }
    }

    static void send(SSL* tls, std::string_view bytes) {
        if (SSL_write(tls, bytes.data(), static_cast<int>(bytes.size())) <= 0) fail_tls("request");
    }

    // Good until the next call.
    std::string_view receive(SSL* tls) {
        const int got = SSL_read(tls, buffer_.data(), static_cast<int>(buffer_.size()));
        if (got <= 0) fail_tls("answer");
        return {buffer_.data(), static_cast<std::size_t>(got)};
    }

    const Options& options_;
    ContextPtr context_;
    SessionPtr session_;
    std::string request_;
    std::array<char, 4096> buffer_{};
    std::uint64_t opened_ = 0;
    std::uint64_t resumed_ = 0;
    std::vector<float> times_us_;
};

nlohmann::json visit_for_a_while(const Options& options) {
    std::vector<std::unique_ptr<Client>> clients;
    for (std::size_t i = 0; i < options.threads; ++i) {
        clients.push_back(std::make_unique<Client>(options));
        if (options.resume) clients.back()->visit();  // for its first ticket
    }
    std::atomic<std::uint64_t> left{options.connections};
    std::atomic<std::uint64_t> failed{0};
    std::string fault;
    std::mutex mutex;
    const auto begin = Clock::now();
    const auto end = begin + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(options.seconds));
    const auto work = [&](Client& client) {
        while (Clock::now() < end && failed == 0 && left.fetch_sub(1) - 1 < options.connections) {
            try {
                client.visit();
            } catch (const std::exception& error) {
                ++failed;
                const std::lock_guard lock(mutex);
                fault = error.what();
            }
        }
    };
    {
        std::vector<std::jthread> threads;
        for (const auto& client : clients) threads.emplace_back(work, std::ref(*client));
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::uint64_t opened = 0;
    std::uint64_t resumed = 0;
    std::vector<float> times;
    for (const auto& client : clients) {
        opened += client->opened();
        resumed += client->resumed();
        times.insert(times.end(), client->times_us().begin(), client->times_us().end());
    }
    std::sort(times.begin(), times.end());
    const auto at = [&](double share) {
        if (times.empty()) return 0.0F;
        return times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
    };
    return {{"connections", opened}, {"resumed", resumed},  {"failed", failed.load()},
            {"fault", fault},        {"seconds", seconds},  {"p50_us", at(0.5)},
            {"p99_us", at(0.99)},    {"p999_us", at(0.999)}};
}

nlohmann::json hold(const Options& options) {
    Client client(options);
    std::vector<Client::Connection> held;
    held.reserve(options.hold);
    while (held.size() < options.hold) held.push_back(client.open());
    std::cout << "held" << std::endl;
    while (std::cin.get() != std::char_traits<char>::eof()) {
    }
    const auto ended = std::count_if(held.begin(), held.end(), [](const auto& connection) {
        pollfd state{connection.descriptor.get(), POLLRDHUP, 0};
        return ::poll(&state, 1, 0) != 0;
    });
    return {{"connections", held.size()}, {"ended", ended}};
}

void declare(CLI::App& app, Options& options) {
    app.add_option("--address", options.address, "an IPv4 address");
    app.add_option("--port", options.port)->required();
    app.add_option("--name", options.name, "asked for in the handshake, and as Host");
    app.add_option("--tls", options.version)->check(CLI::IsMember({"1.2", "1.3"}));
    app.add_option("--groups", options.groups, "of the key exchange, as OpenSSL names them");
    app.add_flag("--resume", options.resume, "go on with the session of the connection before");
    app.add_flag("--http2", options.http2, "ask in HTTP/2");
    app.add_option("--threads", options.threads)->check(CLI::Range(1, 256));
    app.add_option("--connections", options.connections, "at most so many");
    app.add_option("--seconds", options.seconds)->check(CLI::Range(0.01, 600.0));
    app.add_option("--hold", options.hold, "instead: hold so many until standard input ends")
        ->check(CLI::Range(1, 100'000));
}

}  // namespace

int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    Options options;
    CLI::App app("Makes TLS connections, each for one request");
    declare(app, options);
    CLI11_PARSE(app, argc, argv);
    try {
        std::cout << (options.hold != 0 ? hold(options) : visit_for_a_while(options)) << '\n';
    } catch (const std::exception& error) {
        std::cerr << "bench_tls: " << error.what() << '\n';
        return 1;
    }
}
