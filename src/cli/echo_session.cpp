#include "cli/echo_session.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.hpp"
#include "cli/echo_options.hpp"
#include "http/problem.hpp"
#include "telemetry/log.hpp"

namespace tidegate::cli {

namespace beast = boost::beast;
using nlohmann::ordered_json;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t kHeadBytesMax = 64 * 1024;
constexpr std::size_t kBodyShownMax = 4'096;
constexpr std::size_t kPieceBytes = 16'384;
// Longer than a proxy keeps idle connections: it should be the one that closes.
constexpr auto kClientPatience = 75s;
constexpr auto kLingerPatience = 1s;

using Parser = beast::http::request_parser<beast::http::buffer_body>;
using Piece = std::array<char, kPieceBytes>;

// What there is to say of a request's body once it has been read.
struct ReadBody {
    std::uint64_t bytes = 0;
    std::string beginning;  // kBodyShownMax and no more
};

std::string json_of(const ordered_json& value) {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// By hand but for the values, so that a field takes one line.
std::string echo_of(const beast::http::request_header<>& head, const ReadBody& body) {
    std::string fields;
    for (const auto& field : head) {
        fields += fmt::format("{}\n    [{}, {}]", fields.empty() ? "" : ",",
                              json_of(std::string(field.name_string())),
                              json_of(std::string(field.value())));
    }
    std::string echo = fmt::format(
        "{{\n  \"method\": {},\n  \"target\": {},\n  \"version\": \"HTTP/1.{}\",\n"
        "  \"headers\": [{}\n  ],\n  \"body_bytes\": {}",
        json_of(std::string(head.method_string())), json_of(std::string(head.target())),
        head.version() % 10, fields, body.bytes);
    if (body.bytes <= kBodyShownMax && is_utf8(body.beginning)) {
        echo += ",\n  \"body\": " + json_of(body.beginning);
    }
    return echo + "\n}\n";
}

std::string fault_of(int status, const std::string& detail) {
    return json_of({{"status", status}, {"detail", detail}}) + "\n";
}

// RFC 9112 section 6.1: a body of unclear length.
bool is_framing_bad(const Parser& parser) {
    const auto& head = parser.get();
    if (head.count(beast::http::field::transfer_encoding) == 0) return false;
    return !parser.chunked() || head.count(beast::http::field::content_length) != 0 ||
           head.version() != 11;
}

bool is_parse_error(error_code ec) {
    return ec.category() ==
               beast::http::make_error_code(beast::http::error::bad_target).category() &&
           ec != beast::http::error::end_of_stream && ec != beast::http::error::partial_message;
}

struct Answer {
    int status = 200;
    std::string_view content_type = "application/json";
    std::string body;
    std::uint64_t filler_bytes = 0;  // what follows `body`

    // RFC 9110 sections 15.3.5 and 15.4.5.
    bool has_body() const { return status != 204 && status != 304; }
};

std::string head_of(const Answer& answer, unsigned version, bool keep_alive) {
    std::string head = fmt::format("HTTP/1.1 {} {}\r\n", answer.status,
                                   tidegate::http::status_title(answer.status));
    if (answer.has_body()) {
        head += fmt::format("Content-Type: {}\r\nContent-Length: {}\r\n", answer.content_type,
                            answer.body.size() + answer.filler_bytes);
    }
    if (!keep_alive) head += "Connection: close\r\n";
    if (keep_alive && version == 10) head += "Connection: keep-alive\r\n";
    return head + "\r\n";
}

Answer bad_request(const std::string& detail) {
    Answer answer;
    answer.status = 400;
    answer.body = fault_of(400, detail);
    return answer;
}

Answer answer_to(const beast::http::request_header<>& head, const ReadBody& body,
                 const EchoOptions& wishes) {
    Answer answer;
    answer.status = wishes.status;
    if (wishes.bytes) {
        answer.content_type = "text/plain";
        answer.filler_bytes = *wishes.bytes;
    } else if (head.target() == "/healthz") {
        answer.body = "{\"status\":\"ok\"}\n";
    } else {
        answer.body = echo_of(head, body);
    }
    return answer;
}

class Session {
  public:
    explicit Session(std::shared_ptr<TimedSocket> socket) : timed_(std::move(socket)) {}

    // One request and its answer; false when it was the last.
    Task<bool> serve_one();

  private:
    Task<error_code> read_body(Parser& parser, ReadBody& body);
    Task<Answer> answer_when_due(const beast::http::request_header<>& head, const ReadBody& body);
    // Answers, and ends the connection: what follows on it is unclear.
    Task<bool> refuse(std::string detail);
    Task<bool> send(const Answer& answer, unsigned version, bool keep_alive, bool head_only);
    Task<error_code> send_filler(std::uint64_t left);

    StreamSocket& socket() { return timed_->socket(); }

    std::shared_ptr<TimedSocket> timed_;
    beast::flat_buffer buffer_{kHeadBytesMax};
};

Task<bool> Session::serve_one() {
    timed_->expect_within(kClientPatience);
    Parser parser;
    parser.header_limit(kHeadBytesMax);
    parser.body_limit(boost::none);
    auto [ec, bytes] =
        co_await beast::http::async_read_header(socket(), buffer_, parser, as_values);
    if (is_parse_error(ec)) co_return co_await refuse(ec.message());
    if (ec) co_return false;
    if (is_framing_bad(parser)) co_return co_await refuse("the length of the body is unclear");

    const beast::http::request_header<> head =
        parser.get().base();  // before trailers join the fields
    ReadBody body;
    ec = co_await read_body(parser, body);
    if (is_parse_error(ec)) co_return co_await refuse(ec.message());
    if (ec) co_return false;

    const Answer answer = co_await answer_when_due(head, body);
    co_return co_await send(answer, head.version(), parser.get().keep_alive(),
                            head.method() == beast::http::verb::head);
}

Task<error_code> Session::read_body(Parser& parser, ReadBody& body) {
    const auto& head = parser.get();
    if (head.version() == 11 && beast::iequals(head[beast::http::field::expect], "100-continue")) {
        static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
        auto [ec, bytes] = co_await asio::async_write(socket(), asio::buffer(kContinue), as_values);
        if (ec) co_return ec;
    }
    std::unique_ptr<Piece> piece;  // most requests have no body
    while (!parser.is_done()) {
        if (!piece) piece = std::make_unique<Piece>();
        auto& into = parser.get().body();
        into.data = piece->data();
        into.size = piece->size();
        timed_->expect_within(kClientPatience);
        auto [ec, bytes] =
            co_await beast::http::async_read_some(socket(), buffer_, parser, as_values);
        if (ec && ec != beast::http::error::need_buffer) co_return ec;
        const std::size_t size = piece->size() - into.size;
        body.bytes += size;
        body.beginning.append(piece->data(), std::min(size, kBodyShownMax - body.beginning.size()));
    }
    co_return error_code{};
}

Task<Answer> Session::answer_when_due(const beast::http::request_header<>& head,
                                      const ReadBody& body) {
    const auto wishes = read_echo_options(std::string_view(head.target()));
    if (!wishes) co_return bad_request(wishes.error());
    if (wishes->delay > 0us) {
        timed_->expect_within(kClientPatience + wishes->delay);
        Timer timer(socket().get_executor(), wishes->delay);
        co_await timer.async_wait(as_values);
    }
    co_return answer_to(head, body, *wishes);
}

Task<bool> Session::refuse(std::string detail) {
    co_await send(bad_request(detail), 11, false, false);
    co_await timed_->close_gently(kLingerPatience);
    co_return false;
}

Task<bool> Session::send(const Answer& answer, unsigned version, bool keep_alive, bool head_only) {
    const std::string head = head_of(answer, version, keep_alive);
    const bool with_body = !head_only && answer.has_body();
    const std::string_view body = with_body ? std::string_view(answer.body) : std::string_view();
    const std::array<asio::const_buffer, 2> parts{asio::buffer(head), asio::buffer(body)};
    timed_->expect_within(kClientPatience);
    auto [ec, bytes] = co_await asio::async_write(socket(), parts, as_values);
    if (!ec && with_body) ec = co_await send_filler(answer.filler_bytes);
    co_return !ec && keep_alive;
}

Task<error_code> Session::send_filler(std::uint64_t left) {
    static const std::string filler(kPieceBytes, 'x');
    while (left != 0) {
        const std::size_t size = std::min<std::uint64_t>(left, filler.size());
        timed_->expect_within(kClientPatience);
        auto [ec, bytes] =
            co_await asio::async_write(socket(), asio::buffer(filler.data(), size), as_values);
        if (ec) co_return ec;
        left -= size;
    }
    co_return error_code{};
}

}  // namespace

Task<> serve_echo(std::shared_ptr<TimedSocket> socket) {
    try {
        Session session(socket);
        while (co_await session.serve_one()) {
        }
    } catch (const std::exception& error) {
        telemetry::log(telemetry::Level::error, "echo: {}", error.what());
    }
    socket->close();
}

}  // namespace tidegate::cli
