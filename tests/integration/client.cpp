#include "integration/client.hpp"

#include <charconv>
#include <iterator>
#include <utility>

#include "integration/h2_translator.hpp"

namespace tidegate::test {

RawClient::RawClient(std::uint16_t port, const std::string& from) : reader_(socket_) {
    if (ListenerPort::speaks_http2(port)) {
        http2_ = std::make_unique<H2Translator>(port, from);
    } else {
        socket_ = Socket::connect(port, from);
    }
}

RawClient::RawClient(Socket connected) : socket_(std::move(connected)), reader_(socket_) {}

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::move(other.socket_)),
      reader_(std::move(other.reader_)),
      http2_(std::move(other.http2_)) {
    reader_.moved_to(socket_);
}

RawClient::~RawClient() {
    socket_.reset();
}

const Socket& RawClient::socket() const {
    return http2_ ? http2_->client().socket() : socket_;
}

bool RawClient::send(std::string_view bytes) const {
    return http2_ ? http2_->send(bytes) : socket_.send(bytes);
}

Message RawClient::response() {
    return http2_ ? http2_->response() : reader_.response();
}

Message RawClient::response_to_head() {
    return http2_ ? http2_->response() : reader_.response(true);
}

std::string RawClient::rest() {
    return http2_ ? http2_->rest() : reader_.rest();
}

std::string RawClient::some() {
    return http2_ ? http2_->some() : reader_.some();
}

bool RawClient::was_reset() const {
    return http2_ ? http2_->was_reset() : socket_.was_reset();
}

bool RawClient::was_truncated() const {
    return http2_ ? http2_->was_truncated() : socket_.was_truncated();
}

void RawClient::finish_sending() const {
    if (http2_) {
        http2_->finish_sending();
    } else {
        socket_.finish_sending();
    }
}

void RawClient::reset() {
    if (http2_) {
        http2_->leave();
    } else {
        socket_.reset();
    }
}

Message RawClient::ask(std::string_view request) {
    send(request);
    return response();
}

Message RawClient::get(const std::string& path, const std::string& more_fields) {
    return ask(get_request(path, more_fields));
}

std::string get_request(const std::string& path, const std::string& more_fields) {
    return "GET " + path + " HTTP/1.1\r\nHost: example.test\r\n" + more_fields + "\r\n";
}

std::string post_request(const std::string& path, std::string_view body,
                         const std::string& more_fields) {
    std::string request = "POST " + path + " HTTP/1.1\r\nHost: example.test\r\nContent-Length: " +
                          std::to_string(body.size()) + "\r\n" + more_fields + "\r\n";
    request += body;
    return request;
}

std::string chunk(std::string_view bytes) {
    char size[16];
    const auto end = std::to_chars(std::begin(size), std::end(size), bytes.size(), 16).ptr;
    std::string framed(std::begin(size), end);
    framed += "\r\n";
    framed += bytes;
    return framed += "\r\n";
}

FieldList as_carried(FieldList fields) {
    if (!over_http2()) return fields;
    for (auto& [name, value] : fields) {
        for (char& letter : name) {
            if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
        }
    }
    return fields;
}

Message http_get(std::uint16_t port, const std::string& path, const std::string& more_fields,
                 const std::string& from) {
    return RawClient(port, from).get(path, more_fields + "Connection: close\r\n");
}

}  // namespace tidegate::test
