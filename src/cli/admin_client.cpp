#include "cli/admin_client.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <fmt/format.h>

#include "config/address.hpp"
#include "net/asio.hpp"
#include "net/timed_socket.hpp"

namespace tidegate::cli {

namespace {

namespace beast = boost::beast;
using Reply = Result<AdminReply, std::string>;

// The largest answer: what a hundred policies count.
constexpr std::uint64_t kBodyBytesMax = std::uint64_t{16} << 20;

StreamProtocol::endpoint endpoint_of(const config::Address& address) {
    if (address.is_unix()) return asio::local::stream_protocol::endpoint(address.unix_path);
    return asio::ip::tcp::endpoint(asio::ip::make_address(address.host), address.port);
}

beast::http::request<beast::http::empty_body> request_for(const AdminPlace& place, bool post,
                                                          std::string_view target) {
    beast::http::request<beast::http::empty_body> request(
        post ? beast::http::verb::post : beast::http::verb::get, target, 11);
    request.set(beast::http::field::host,
                place.address.is_unix() ? "localhost" : place.address.to_string());
    request.set(beast::http::field::connection, "close");
    if (!place.token.empty())
        request.set(beast::http::field::authorization, "Bearer " + place.token);
    request.prepare_payload();
    return request;
}

// The deadline closes the socket.
std::string reason_of(error_code ec) {
    return ec == asio::error::operation_aborted ? "it does not answer" : ec.message();
}

Task<Reply> ask(Executor executor, AdminPlace place, bool post, std::string target,
                std::chrono::milliseconds patience) {
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(executor));
    const std::string where = place.address.to_string() + place.origin;
    socket->expect_within(patience);
    const auto [not_connected] =
        co_await socket->socket().async_connect(endpoint_of(place.address), as_values);
    if (not_connected) {
        socket->close();
        co_return fmt::format("cannot reach the admin listener on {}: {}", where,
                              reason_of(not_connected));
    }
    const auto request = request_for(place, post, target);
    const auto [not_sent, sent] =
        co_await beast::http::async_write(socket->socket(), request, as_values);
    beast::flat_buffer buffer;
    beast::http::response_parser<beast::http::string_body> parser;
    parser.body_limit(kBodyBytesMax);
    const auto [not_read, read] =
        co_await beast::http::async_read(socket->socket(), buffer, parser, as_values);
    socket->close();
    if (not_read) {
        co_return fmt::format("no answer from the admin listener on {}: {}", where,
                              reason_of(not_sent ? not_sent : not_read));
    }
    auto& response = parser.get();
    co_return AdminReply{static_cast<int>(response.result_int()), std::move(response.body())};
}

}  // namespace

Reply ask_admin(const AdminPlace& place, bool post, std::string_view target,
                std::chrono::milliseconds patience) {
    asio::io_context io{1};
    AdminPlace reached = place;
    reached.address = config::reachable(place.address);
    std::optional<Reply> reply;
    spawn(io.get_executor(),
          ask(io.get_executor(), std::move(reached), post, std::string(target), patience),
          [&](const std::exception_ptr& failure, Reply answer) {
              if (failure) std::rethrow_exception(failure);
              reply = std::move(answer);
          });
    io.run();
    return std::move(*reply);
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view kUnreserved =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    std::string out;
    for (const char c : text) {
        if (kUnreserved.find(c) != std::string_view::npos) {
            out += c;
        } else {
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return out;
}

}  // namespace tidegate::cli
