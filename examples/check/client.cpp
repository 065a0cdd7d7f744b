// Asks Tidegate before a piece of work: client PORT USER. Exits 0 if the user may go on, 1 if a limit
// refuses.
#include <exception>
#include <iostream>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <nlohmann/json.hpp>

namespace {

namespace beast = boost::beast;
namespace http = beast::http;

constexpr unsigned kOk = 200;
constexpr unsigned kTooMany = 429;

http::response<http::string_body> ask(const std::string& port, const nlohmann::json& question) {
    boost::asio::io_context io;
    boost::asio::ip::tcp::resolver resolver(io);
    beast::tcp_stream stream(io);
    stream.connect(resolver.resolve("127.0.0.1", port));
    http::request<http::string_body> request(http::verb::post, "/v1/check", 11, question.dump());
    request.set(http::field::host, "127.0.0.1");
    request.set(http::field::content_type, "application/json");
    request.prepare_payload();
    http::write(stream, request);
    beast::flat_buffer buffer;
    http::response<http::string_body> answer;
    http::read(stream, buffer, answer);
    return answer;
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc != 3) throw std::invalid_argument("usage: client PORT USER");
    const auto answer =
        ask(argv[1], {{"policy", "per-user"}, {"identifiers", {{"user", argv[2]}}}});
    const nlohmann::json told = nlohmann::json::parse(answer.body());
    switch (answer.result_int()) {
        case kOk:
            std::cout << "admitted, " << told["limits"][0]["left"] << " left\n";
            return 0;
        case kTooMany:
            std::cout << "refused, again in " << told["retry_after_ms"] << " ms\n";
            return 1;
        default:
            throw std::runtime_error(told["detail"].get<std::string>());
    }
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
}
