#include "cli/admin_client.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "admin/message_reader.hpp"
#include "config/address.hpp"
#include "net/asio.hpp"
#include "net/timed_socket.hpp"

namespace tidegate::cli {

namespace {

using Reply = Result<AdminReply, std::string>;

// The largest answer: what a hundred policies count.
constexpr std::size_t kBodyBytesMax = std::size_t{16} << 20;
constexpr std::size_t kAnswerHeadBytesMax = std::size_t{8} * 1024;

StreamProtocol::endpoint endpoint_of(const config::Address& address) {
    if (address.is_unix()) return asio::local::stream_protocol::endpoint(address.unix_path);
    return asio::ip::tcp::endpoint(asio::ip::make_address(address.host), address.port);
}

std::string request_for(const AdminPlace& place, bool post, std::string_view target) {
    std::string request =
        fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", post ? "POST" : "GET",
                    target, place.address.is_unix() ? "localhost" : place.address.to_string());
    if (!place.token.empty()) request += "Authorization: Bearer " + place.token + "\r\n";
    if (post) request += "Content-Length: 0\r\n";
    return request + "\r\n";
}

// The deadline closes the socket.
std::string why_silent(const admin::MessageFault& fault) {
    return fault.ec == asio::error::operation_aborted ? "it does not answer" : reason_of(fault);
}

Task<Reply> ask(Executor executor, AdminPlace place, bool post, std::string target,
                std::chrono::milliseconds patience) {
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(executor));
    const std::string where = place.address.to_string() + place.origin;
    socket->expect_within(patience);
    const error_code not_connected = co_await socket->connect(endpoint_of(place.address));
    if (not_connected) {
        socket->close();
        co_return fmt::format("cannot reach the admin listener on {}: {}", where,
                              why_silent({not_connected}));
    }
    const std::string request = request_for(place, post, target);
    const error_code not_sent = co_await socket->write(request);
    admin::MessageReader reader(*socket, kAnswerHeadBytesMax);
    http::ResponseHead head;
    std::string body;
    bool is_read = co_await reader.read_head(head);
    if (is_read) is_read = co_await reader.read_body(head, kBodyBytesMax, body);
    socket->close();
    if (!is_read) {
        co_return fmt::format(
            "no answer from the admin listener on {}: {}", where,
            why_silent(not_sent ? admin::MessageFault{not_sent} : reader.fault()));
    }
    co_return AdminReply{head.status, std::move(body)};
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
