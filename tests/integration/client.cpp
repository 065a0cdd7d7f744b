#include "integration/client.hpp"

#include <charconv>
#include <iterator>
#include <utility>

namespace tidegate::test {

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::move(other.socket_)), reader_(std::move(other.reader_)) {
    reader_.moved_to(socket_);
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

Message http_get(std::uint16_t port, const std::string& path, const std::string& more_fields,
                 const std::string& from) {
    return RawClient(port, from).get(path, more_fields + "Connection: close\r\n");
}

}  // namespace tidegate::test
