#include "doctor/http2_trial.hpp"

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "doctor/wait_for.hpp"
#include "net/timed_socket.hpp"

namespace tidegate::doctor {

namespace {

using namespace std::string_view_literals;

// RFC 9113 section 3.4: the preface, then SETTINGS, here without any.
constexpr std::string_view kGreeting =
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    "\0\0\0\x04\0\0\0\0\0"sv;
// RFC 9113 section 4.1: three bytes of length, type, flags, four bytes of stream.
constexpr std::size_t kFrameHeadBytes = 9;
constexpr std::size_t kSettingBytes = 6;
constexpr char kSettingsType = 0x04;

Task<Http2Answer> greet_in_http2(std::shared_ptr<TimedSocket> socket, Http2Trial trial) {
    Http2Answer answer;
    socket->expect_within(trial.time);
    error_code ec = co_await socket->connect(trial.endpoint);
    if (!ec) ec = co_await socket->write(trial.before, kGreeting);
    while (!ec && answer.bytes.size() < kFrameHeadBytes) {
        std::array<char, 512> bytes{};
        const ByteStream::Received received = co_await socket->read_some(bytes);
        answer.bytes.append(bytes.data(), received.bytes);
        ec = received.ec;
    }
    if (!answer.bytes.empty()) {
        // The bytes that came show more than the way in which it ended.
    } else if (!socket->socket().is_open()) {
        answer.fault = "it does not answer in time";
    } else if (ec == asio::error::eof) {
        answer.fault = "it closes the connection without an answer";
    } else if (ec) {
        answer.fault = ec.message();
    }
    socket->close();
    co_return answer;
}

}  // namespace

Http2Answer try_http2(const Http2Trial& trial) {
    asio::io_context io{1};
    const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
    return wait_for(io, greet_in_http2(socket, trial));
}

bool begins_with_settings(std::string_view bytes) {
    if (bytes.size() < kFrameHeadBytes) return false;
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(bytes[at]); };
    const std::size_t length = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
    const bool is_acknowledgement = (byte(4) & 1U) != 0;
    return bytes[3] == kSettingsType && !is_acknowledgement && length % kSettingBytes == 0 &&
           bytes.substr(5, 4) == "\0\0\0\0"sv;
}

}  // namespace tidegate::doctor
