#include "cli/echo.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/listener.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "config/address.hpp"
#include "config/config.hpp"
#include "http/problem.hpp"
#include "net/asio.hpp"
#include "net/byte_stream.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::cli {

namespace {

std::optional<std::string> read_status(std::string_view value, EchoOptions& options) {
    const std::optional<std::int64_t> status = parse_decimal(value);
    if (!status || *status < 200 || *status > 599) {
        return "status is " + quote(value) + ", but must be a number from 200 to 599";
    }
    options.status = static_cast<int>(*status);
    return std::nullopt;
}

std::optional<std::string> read_delay(std::string_view value, EchoOptions& options) {
    const auto delay = parse_duration(value);
    if (!delay) return "delay: " + delay.error();
    if (*delay > kEchoDelayMax) return "delay is " + quote(value) + ", but at most 60s is possible";
    options.delay = *delay;
    return std::nullopt;
}

std::optional<std::string> read_bytes(std::string_view value, EchoOptions& options) {
    const auto bytes = parse_size(value);
    if (!bytes) return "bytes: " + bytes.error();
    if (*bytes > kEchoBytesMax)
        return "bytes is " + quote(value) + ", but at most 1GiB is possible";
    options.bytes = *bytes;
    return std::nullopt;
}

std::optional<std::string> read_parameter(std::string_view parameter, EchoOptions& options) {
    const std::size_t equals = parameter.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = parameter.substr(0, equals);
    const std::string_view value = parameter.substr(equals + 1);
    if (name == "status") return read_status(value, options);
    if (name == "delay") return read_delay(value, options);
    if (name == "bytes") return read_bytes(value, options);
    return std::nullopt;
}

}  // namespace

Result<EchoOptions, std::string> read_echo_options(std::string_view target) {
    EchoOptions options;
    std::size_t at = target.find('?');
    while (at != std::string_view::npos) {
        const std::size_t begin = at + 1;
        at = target.find('&', begin);
        const std::size_t length = at == std::string_view::npos ? at : at - begin;
        std::optional<std::string> fault = read_parameter(target.substr(begin, length), options);
        if (fault) return *std::move(fault);
    }
    return options;
}

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHeadBytesMax = std::size_t{64} * 1024;
constexpr std::size_t kBodyShownMax = 4'096;
constexpr std::size_t kFillerBytes = 16'384;
// Longer than a proxy keeps idle connections: it should be the one that closes.
constexpr auto kClientPatience = 75s;
constexpr auto kLingerPatience = 1s;

// The description of a request's body once it has been read.
struct EchoedBody {
    std::uint64_t bytes = 0;
    std::string beginning;  // kBodyShownMax and no more
};

// Written by hand except for the values, so that a field takes one line.
std::string echo_of(const http::RequestHead& head, const EchoedBody& body) {
    std::string fields;
    for (const auto& field : head.fields) {
        fields += fmt::format("{}\n    [{}, {}]", fields.empty() ? "" : ",", json_text(field.name),
                              json_text(field.value));
    }
    std::string echo = fmt::format(
        "{{\n  \"method\": {},\n  \"target\": {},\n  \"version\": \"HTTP/1.{}\",\n"
        "  \"headers\": [{}\n  ],\n  \"body_bytes\": {}",
        json_text(head.method), json_text(head.target), head.minor_version, fields, body.bytes);
    if (body.bytes <= kBodyShownMax && is_utf8(body.beginning)) {
        echo += ",\n  \"body\": " + json_text(body.beginning);
    }
    return echo + "\n}\n";
}

std::string fault_of(int status, const std::string& detail) {
    return json_text({{"status", status}, {"detail", detail}}) + "\n";
}

struct EchoAnswer {
    int status = 200;
    std::string_view content_type = "application/json";
    std::string body;
    std::uint64_t filler_bytes = 0;  // what follows `body`

    // RFC 9110 sections 15.3.5 and 15.4.5.
    bool has_body() const { return status != 204 && status != 304; }
};

std::string head_of(const EchoAnswer& answer, int minor_version, bool keep_alive) {
    std::string head =
        fmt::format("HTTP/1.1 {} {}\r\n", answer.status, http::status_title(answer.status));
    if (answer.has_body()) {
        head += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", answer.content_type,
                            answer.body.size() + answer.filler_bytes);
    }
    if (!keep_alive) head += "Connection: close\r\n";
    if (keep_alive && minor_version == 0) head += "Connection: keep-alive\r\n";
    return head + "\r\n";
}

EchoAnswer bad_request(const std::string& detail) {
    EchoAnswer answer;
    answer.status = 400;
    answer.body = fault_of(400, detail);
    return answer;
}

EchoAnswer answer_to(const http::RequestHead& head, const EchoedBody& body,
                     const EchoOptions& wishes) {
    EchoAnswer answer;
    answer.status = wishes.status;
    if (wishes.bytes) {
        answer.content_type = "text/plain";
        answer.filler_bytes = *wishes.bytes;
    } else if (head.target == "/healthz") {
        answer.body = "{\"status\":\"ok\"}\n";
    } else {
        answer.body = echo_of(head, body);
    }
    return answer;
}

class EchoSession {
  public:
    explicit EchoSession(std::shared_ptr<TimedSocket> socket) : socket_(std::move(socket)) {}

    // One request and its answer; false when it was the last.
    Task<bool> serve_one();

  private:
    // False: the fault of the reader says why there is no more of it.
    Task<bool> read_body(EchoedBody& body);
    Task<EchoAnswer> answer_when_due(const http::RequestHead& head, const EchoedBody& body);
    // Answers, and ends the connection: what follows on it is unclear.
    Task<bool> refuse(std::string detail);
    // As the fault of the reader says; nothing can be sent on a connection that has failed.
    Task<bool> refuse_unreadable();
    Task<bool> send(const EchoAnswer& answer, int minor_version, bool keep_alive, bool head_only);
    Task<error_code> send_filler(std::uint64_t left);

    std::shared_ptr<TimedSocket> socket_;
    MessageReader reader_{*socket_, kHeadBytesMax};
};

Task<bool> EchoSession::serve_one() {
    socket_->expect_within(kClientPatience);
    http::RequestHead head;
    const bool is_read = co_await reader_.read_head(head);
    if (!is_read) co_return co_await refuse_unreadable();
    http::Framing framing;
    if (http::local_request_framing(head, framing) != http::FramingFault::none) {
        co_return co_await refuse("the length of the body is unclear");
    }
    if (head.minor_version == 1 &&
        http::equal_ignoring_case(http::single_value(head.fields, "expect"), "100-continue")) {
        const error_code ec = co_await socket_->write("HTTP/1.1 100 Continue\r\n\r\n");
        if (ec) co_return false;
    }
    EchoedBody body;
    reader_.begin_body(framing);
    const bool is_whole = co_await read_body(body);
    if (!is_whole) co_return co_await refuse_unreadable();

    const EchoAnswer answer = co_await answer_when_due(head, body);
    co_return co_await send(answer, head.minor_version, framing.keep_alive, head.method == "HEAD");
}

Task<bool> EchoSession::read_body(EchoedBody& body) {
    http::BodyBatch batch;
    while (!batch.done) {
        socket_->expect_within(kClientPatience);
        batch = co_await reader_.read_body();
        if (batch.bad) co_return false;
        body.bytes += batch.content_bytes;
        for (const std::string_view piece : batch.view()) {
            body.beginning += piece.substr(0, kBodyShownMax - body.beginning.size());
        }
    }
    co_return true;
}

Task<EchoAnswer> EchoSession::answer_when_due(const http::RequestHead& head,
                                              const EchoedBody& body) {
    const auto wishes = read_echo_options(head.target);
    if (!wishes) co_return bad_request(wishes.error());
    if (wishes->delay > 0us) {
        socket_->expect_within(kClientPatience + wishes->delay);
        Timer timer(socket_->socket().get_executor(), wishes->delay);
        co_await timer.async_wait(as_values);
    }
    co_return answer_to(head, body, *wishes);
}

Task<bool> EchoSession::refuse(std::string detail) {
    const EchoAnswer answer = bad_request(detail);
    co_await send(answer, 1, false, false);
    co_await socket_->close_gently(kLingerPatience);
    co_return false;
}

Task<bool> EchoSession::refuse_unreadable() {
    if (reader_.fault().ec) co_return false;
    co_return co_await refuse(std::string(describe(reader_.fault())));
}

Task<bool> EchoSession::send(const EchoAnswer& answer, int minor_version, bool keep_alive,
                             bool head_only) {
    const std::string head = head_of(answer, minor_version, keep_alive);
    const bool with_body = !head_only && answer.has_body();
    const std::string_view body = with_body ? std::string_view(answer.body) : std::string_view();
    socket_->expect_within(kClientPatience);
    error_code ec = co_await socket_->write(head, body);
    if (!ec && with_body) ec = co_await send_filler(answer.filler_bytes);
    co_return !ec && keep_alive;
}

Task<error_code> EchoSession::send_filler(std::uint64_t left) {
    static const std::string filler(kFillerBytes, 'x');
    while (left != 0) {
        const std::size_t size = std::min<std::uint64_t>(left, filler.size());
        socket_->expect_within(kClientPatience);
        const error_code ec = co_await socket_->write({filler.data(), size});
        if (ec) co_return ec;
        left -= size;
    }
    co_return error_code{};
}

// Answers requests until either side is done. Memory is bounded whatever the peer sends: a head of
// at most 64 KiB, one piece of a body.
Task<> serve_echo(std::shared_ptr<TimedSocket> socket) {
    try {
        EchoSession session(socket);
        while (co_await session.serve_one()) {
        }
    } catch (const std::exception& error) {
        telemetry::log(telemetry::Level::error, "echo: {}", error.what());
    }
    socket->close();
}

constexpr std::size_t kConnectionsMax = 1024;
constexpr std::chrono::milliseconds kAcceptPause{100};

// Counts one connection for as long as it lives.
class EchoSeat {
  public:
    explicit EchoSeat(std::size_t& taken) : taken_(&taken) { ++taken; }
    ~EchoSeat() {
        if (taken_ != nullptr) --*taken_;
    }
    EchoSeat(EchoSeat&& other) noexcept : taken_(std::exchange(other.taken_, nullptr)) {}
    EchoSeat& operator=(EchoSeat&&) = delete;

  private:
    std::size_t* taken_;
};

Task<> serve_seated(EchoSeat, std::shared_ptr<TimedSocket> socket) {
    co_await serve_echo(std::move(socket));
}

}  // namespace

struct EchoServer::Impl {
    explicit Impl(const config::Address& wanted)
        : address(wanted), acceptor(open(io.get_executor(), address)), pause(io.get_executor()) {}
    ~Impl() {
        io.stop();
        thread.join();
        if (address.is_unix()) ::unlink(address.unix_path.c_str());
    }

    // Sets the address to where it listens.
    static Acceptor open(const Executor& executor, config::Address& address) {
        config::Listen settings;
        settings.address = address;
        const auto group = app::open_listeners(settings, 1);
        if (!group) throw std::runtime_error("echo: " + group.error());
        address = group->settings.address;
        return app::adopt_listener(executor, address, group->descriptors.front());
    }

    Task<> accept_all() {
        for (;;) {
            auto [ec, socket] = co_await acceptor.async_accept(as_values);
            if (ec) {
                telemetry::log(telemetry::Level::warn, "echo: cannot accept: {}", ec.message());
                pause.expires_after(kAcceptPause);
                co_await pause.async_wait(as_values);
                continue;
            }
            if (connections == kConnectionsMax) continue;
            spawn_vital(io.get_executor(),
                        serve_seated(EchoSeat(connections),
                                     std::make_shared<TimedSocket>(std::move(socket))));
        }
    }

    // Before `io`, whose end is the end of the sessions that count themselves here.
    std::size_t connections = 0;
    asio::io_context io{1};
    config::Address address;
    Acceptor acceptor;
    Timer pause;
    std::thread thread;
};

EchoServer::EchoServer(const config::Address& address) : impl_(std::make_unique<Impl>(address)) {
    spawn_vital(impl_->io.get_executor(), impl_->accept_all());
    impl_->thread = std::thread([&io = impl_->io] {
        block_all_signals();
        io.run();
    });
}

EchoServer::~EchoServer() = default;

const config::Address& EchoServer::address() const {
    return impl_->address;
}

namespace {

constexpr const char* kEchoFooter =
    R"(Answers every request with what it received, as JSON. In the query:
  ?status=404    that status
  ?delay=100ms   wait before answering (at most 60s)
  ?bytes=1MiB    a body of that size (at most 1GiB))";

// Serves until INT or TERM comes. Returns the exit code.
int run_echo(const config::Address& address) {
    // Blocked before the server's thread is made, which inherits it: the signal waits for us.
    sigset_t stop;
    sigemptyset(&stop);
    sigaddset(&stop, SIGINT);
    sigaddset(&stop, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stop, nullptr);

    const EchoServer server(address);
    fmt::print(stderr, "echo upstream listening on {}\n", server.address().to_string());
    int signal = 0;
    sigwait(&stop, &signal);
    return 0;
}

}  // namespace

Command echo_command(CLI::App& app) {
    const auto listen = std::make_shared<std::string>(kEchoAddress);
    CLI::App* const echo = app.add_subcommand("echo", "Run a small upstream for tests");
    echo->add_option("--listen", *listen, fmt::format("Where to listen (default {})", kEchoAddress))
        ->option_text("ADDRESS")
        ->check(objection_to_address);
    echo->footer(kEchoFooter);
    // Made from text that was checked: the default, or what the parser's check let pass.
    return {echo, [listen] { return run_echo(*config::parse_listen_address(*listen)); }};
}

}  // namespace tidegate::cli
