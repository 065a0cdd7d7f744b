#include "net/byte_stream.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <utility>

#include <boost/asio/ssl/stream.hpp>
#include <fmt/format.h>

namespace tidegate {

struct ByteStream::Tls {
    asio::ssl::stream<StreamSocket&> stream;
};

ByteStream::ByteStream(StreamSocket socket) : socket_(std::move(socket)) {}

ByteStream::~ByteStream() = default;

SSL* ByteStream::tls() const {
    return tls_ ? tls_->stream.native_handle() : nullptr;
}

Task<error_code> ByteStream::connect(Endpoint endpoint) {
    const auto [ec] = co_await socket_.async_connect(endpoint, as_values);
    co_return ec;
}

void ByteStream::begin_tls(TlsPtr tls) {
    tls_.reset(new Tls{{socket_, tls.release()}});
}

Task<error_code> ByteStream::shake_hands() {
    const auto [ec] =
        co_await tls_->stream.async_handshake(asio::ssl::stream_base::client, as_values);
    co_return ec;
}

Task<ByteStream::Received> ByteStream::read_some(std::span<char> into) {
    const asio::mutable_buffer room(into.data(), into.size());
    Received received;
    if (tls_) {
        std::tie(received.ec, received.bytes) =
            co_await tls_->stream.async_read_some(room, as_values);
    } else {
        std::tie(received.ec, received.bytes) = co_await socket_.async_read_some(room, as_values);
    }
    co_return received;
}

Task<error_code> ByteStream::write(std::string_view first, std::string_view second) {
    std::array<asio::const_buffer, 2> left{asio::buffer(first), asio::buffer(second)};
    error_code ec;
    while (!ec && asio::buffer_size(left) != 0) {
        std::size_t sent = 0;
        if (tls_) {
            std::tie(ec, sent) = co_await tls_->stream.async_write_some(left, as_values);
        } else {
            std::tie(ec, sent) = co_await socket_.async_write_some(left, as_values);
        }
        const std::size_t of_first = std::min(sent, left[0].size());
        left[0] += of_first;
        left[1] += sent - of_first;
    }
    co_return ec;
}

TimedSocket::TimedSocket(StreamSocket socket)
    : ByteStream(std::move(socket)), timer_(ByteStream::socket().get_executor()) {}

void TimedSocket::expect_within(std::chrono::steady_clock::duration patience) {
    timer_.expires_after(patience);
    timer_.async_wait([self = shared_from_this()](error_code ec) {
        // A completion that was queued when the timer was set anew comes without an error.
        if (ec || self->timer_.expiry() > std::chrono::steady_clock::now()) return;
        self->close();
    });
}

void TimedSocket::expect_nothing() {
    timer_.expires_at(std::chrono::steady_clock::time_point::max());
}

void TimedSocket::close() {
    error_code ignored;
    socket().close(ignored);
    timer_.cancel();
}

Task<> TimedSocket::close_gently(std::chrono::steady_clock::duration patience) {
    error_code ec;
    socket().shutdown(asio::socket_base::shutdown_send, ec);
    expect_within(patience);
    char rest[4096];
    while (!ec) {
        const Received received = co_await read_some(rest);
        ec = received.ec;
    }
    close();
}

namespace {

constexpr std::size_t kPieceBytes = 16'384;

}  // namespace

std::string_view describe(const MessageFault& fault) {
    if (fault.head != http::HeadFault::none) return http::describe(fault.head);
    if (fault.framing != http::FramingFault::none) return http::describe(fault.framing);
    return fault.is_too_long ? "The body is longer than allowed." : "The body has a broken chunk.";
}

std::string reason_of(const MessageFault& fault) {
    if (fault.ec == asio::error::eof) return "it closed the connection";
    if (fault.ec) return fault.ec.message();
    return fmt::format("it is not HTTP as it should be ({})", describe(fault));
}

// A head has no other bounds than its bytes.
MessageReader::MessageReader(ByteStream& stream, std::size_t head_bytes_max)
    : stream_(stream), bounds_{head_bytes_max, head_bytes_max, head_bytes_max} {}

Task<bool> MessageReader::read_head(http::RequestHead& head) {
    const bool is_whole = co_await take_head();
    if (is_whole) fault_.head = http::parse_request_head(head_, bounds_, head);
    co_return is_whole&& fault_.head == http::HeadFault::none;
}

Task<bool> MessageReader::read_head(http::ResponseHead& head) {
    const bool is_whole = co_await take_head();
    if (is_whole) fault_.head = http::parse_response_head(head_, bounds_, head);
    co_return is_whole&& fault_.head == http::HeadFault::none;
}

Task<bool> MessageReader::take_head() {
    buffer_.erase(0, std::exchange(body_bytes_, 0));
    http::HeadScanner scanner;
    std::size_t size = scanner.scan(buffer_, bounds_);
    while (size == 0) {
        fault_.head = scanner.fault();
        if (fault_.head != http::HeadFault::none) co_return false;
        const bool is_more = co_await receive();
        if (!is_more) co_return false;
        size = scanner.scan(buffer_, bounds_);
    }
    head_.assign(buffer_, 0, size);
    buffer_.erase(0, size);
    co_return true;
}

Task<http::BodyBatch> MessageReader::read_body() {
    while (true) {
        buffer_.erase(0, std::exchange(body_bytes_, 0));
        http::BodyBatch batch = body_.take(buffer_, {});
        body_bytes_ = batch.consumed;
        if (batch.count > 0 || batch.done || batch.bad) co_return batch;
        const bool is_more = co_await receive();
        if (is_more) continue;
        batch.done = fault_.ec == asio::error::eof && body_.end_of_input();
        batch.bad = !batch.done;
        co_return batch;
    }
}

Task<bool> MessageReader::read_body(http::ResponseHead& head, std::size_t bytes_max,
                                    std::string& text) {
    http::Framing framing;
    fault_.framing = http::response_framing(head, false, framing);
    fault_.is_too_long = framing.length > bytes_max;
    if (fault_.framing != http::FramingFault::none || fault_.is_too_long) co_return false;
    begin_body(framing);
    http::BodyBatch batch;
    while (!batch.done) {
        batch = co_await read_body();
        fault_.is_too_long = batch.content_bytes > bytes_max - text.size();
        if (fault_.is_too_long || batch.bad) co_return false;
        for (const std::string_view piece : batch.view()) text += piece;
    }
    co_return true;
}

Task<bool> MessageReader::receive() {
    const std::size_t size = buffer_.size();
    buffer_.resize(size + kPieceBytes);
    const auto received = co_await stream_.read_some(std::span(buffer_).subspan(size));
    buffer_.resize(size + received.bytes);
    is_heard_ = is_heard_ || received.bytes != 0;
    fault_.ec = received.ec;
    co_return !received.ec;
}

}  // namespace tidegate
