#include "upstream/health_check.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/units.hpp"
#include "base/version.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "net/deadline.hpp"
#include "net/timed_socket.hpp"
#include "net/tls_fault.hpp"
#include "upstream/health_check_http2.hpp"

namespace tidegate::upstream {

namespace {

constexpr http::HeadBounds kHeadBounds{16'384, 200, 16'384};
// Interim answers and the head of the final one.
constexpr std::size_t kAnswerBytesMax = 65'536;

enum class HeadRead : std::uint8_t { unfinished, whole, bad };

// The final answer at the front of `bytes`, behind any interim ones.
HeadRead read_head(std::string_view bytes, HealthAnswer& answer) {
    constexpr int kFinal = 200;
    constexpr int kSwitchingProtocols = 101;  // for which the check does not ask
    for (;;) {
        http::HeadScanner scanner;
        const std::size_t length = scanner.scan(bytes, kHeadBounds);
        if (scanner.fault() != http::HeadFault::none) return HeadRead::bad;
        if (length == 0) return HeadRead::unfinished;
        http::ResponseHead head;
        if (http::parse_response_head(bytes.substr(0, length), kHeadBounds, head) !=
            http::HeadFault::none) {
            return HeadRead::bad;
        }
        // A request would get no answer either where the length can be read in two ways.
        http::Framing framing;
        if (head.status == kSwitchingProtocols ||
            http::response_framing(head, false, framing) != http::FramingFault::none) {
            return HeadRead::bad;
        }
        if (head.status >= kFinal) {
            answer.status = head.status;
            for (const http::Field& field : head.fields) {
                if (http::equal_ignoring_case(field.name, "location"))
                    answer.location = field.value;
            }
            return HeadRead::whole;
        }
        bytes.remove_prefix(length);
    }
}

std::string request_for(const std::string& authority, const config::HealthCheck& settings) {
    return "GET " + settings.path +
           " HTTP/1.1\r\nHost: " + (settings.host.empty() ? authority : settings.host) +
           "\r\nUser-Agent: tidegate-health/" + std::string(kVersion) +
           "\r\nAccept: */*\r\nConnection: close\r\n\r\n";
}

// This process or machine lacks descriptors or memory, which says nothing about a server.
bool is_want_of_ours(error_code ec) {
    namespace errc = boost::system::errc;
    return ec == errc::too_many_files_open || ec == errc::too_many_files_open_in_system ||
           ec == errc::no_buffer_space || ec == errc::not_enough_memory;
}

// Why the server does not accept TLS, or Tidegate the server; empty: both do.
Task<std::string> shake_hands(ByteStream& stream, const HealthQuestion& question) {
    using Offer = TlsClient::Offer;
    TlsPtr tls = question.tls->connection_to(question.tls_host, nullptr,
                                             question.is_http2 ? Offer::http2 : Offer::nothing);
    if (tls == nullptr) co_return "its host name is not valid in TLS";
    stream.begin_tls(std::move(tls));
    const error_code ec = co_await stream.shake_hands();
    if (question.is_http2 && (!ec ? !speaks_http2(stream.tls())
                                  : refuses_protocol(static_cast<unsigned long>(ec.value())))) {
        co_return "it does not offer HTTP/2 (ALPN h2)";
    }
    if (!ec) co_return std::string();
    co_return stream.socket().is_open() ? tls_fault(stream.tls(), ec, false).message
                                        : "it does not end the TLS handshake in time";
}

struct Asked {
    HeadRead head = HeadRead::unfinished;
    error_code ec;
    bool has_spoken = false;
};

Task<Asked> ask_over_http1(TimedSocket& socket, const HealthQuestion& question,
                           HealthAnswer& answer) {
    Asked asked;
    asked.ec = co_await socket.write(request_for(question.authority, question.settings));
    std::string text;
    while (!asked.ec && asked.head == HeadRead::unfinished && text.size() < kAnswerBytesMax) {
        char bytes[4'096];
        const ByteStream::Received received = co_await socket.read_some(bytes);
        asked.ec = received.ec;
        text.append(bytes, received.bytes);
        asked.head = read_head(text, answer);
    }
    asked.has_spoken = !text.empty();
    co_return asked;
}

Task<Asked> ask_server(TimedSocket& socket, const HealthQuestion& question, HealthAnswer& answer) {
    if (!question.is_http2) co_return co_await ask_over_http1(socket, question, answer);
    const Http2Asked asked = co_await ask_over_http2(socket, question, answer);
    const bool is_whole = question.settings.only_connects() ? asked.has_settings : asked.has_answer;
    co_return Asked{is_whole       ? HeadRead::whole
                    : asked.is_bad ? HeadRead::bad
                                   : HeadRead::unfinished,
                    asked.ec, asked.has_spoken};
}

// `connects_only`: if the settings state no request, none is sent.
Task<HealthAnswer> run_check(std::shared_ptr<TimedSocket> socket, HealthQuestion question,
                             bool connects_only) {
    const config::HealthCheck& settings = question.settings;
    const StreamProtocol::endpoint& endpoint = question.endpoint;
    const SteadyTime began = steady_now();
    HealthAnswer answer;
    error_code no_socket;
    socket->socket().open(endpoint.protocol(), no_socket);
    answer.could_ask = !is_want_of_ours(no_socket);
    if (no_socket) {
        answer.fault = "cannot connect: " + no_socket.message();
        co_return answer;
    }
    socket->expect_within(settings.timeout);
    const auto too_late = [&](std::string_view what) {
        return std::string(what) + " within " + format_duration(settings.timeout);
    };

    error_code ec = co_await socket->connect(endpoint);
    answer.took = steady_now() - began;
    // Its time may have ended in the same turn of the loop, and the socket with it.
    if (!socket->socket().is_open()) {
        answer.fault = too_late("it accepts no connection");
        co_return answer;
    }
    if (ec || connects_only) {
        socket->close();
        if (ec) answer.fault = "cannot connect: " + ec.message();
        co_return answer;
    }
    if (!question.tls_host.empty()) {
        answer.fault = co_await shake_hands(*socket, question);
        answer.took = steady_now() - began;
        if (!answer.fault.empty()) {
            socket->close();
            co_return answer;
        }
    }
    const Asked asked = co_await ask_server(*socket, question, answer);
    ec = asked.ec;
    const HeadRead head = asked.head;
    answer.took = steady_now() - began;
    const bool late = !socket->socket().is_open();
    socket->close();
    const auto fits = [&](const config::StatusRange& range) {
        return range.contains(answer.status);
    };
    if (head == HeadRead::unfinished) {
        // In TLS 1.3, a server may refuse the client's certificate after the handshake.
        const bool is_refused = !late && socket->tls() != nullptr &&
                                tls_fault(socket->tls(), ec, asked.has_spoken).refused;
        answer.fault = late         ? too_late("it does not answer")
                       : is_refused ? tls_fault(socket->tls(), ec, asked.has_spoken).message
                                    : "it closes without an answer";
    } else if (head == HeadRead::bad) {
        answer.fault = question.is_http2 ? "its answer is not HTTP/2" : "its answer is not HTTP";
    } else if (!settings.path.empty() &&
               std::none_of(settings.status.begin(), settings.status.end(), fits)) {
        answer.fault = "it answers " + std::to_string(answer.status);
    }
    co_return answer;
}

}  // namespace

Task<HealthAnswer> check_health(std::shared_ptr<TimedSocket> socket, HealthQuestion question) {
    const bool connects_only = question.settings.only_connects();
    return run_check(std::move(socket), question, connects_only);
}

Task<HealthAnswer> check_http2(std::shared_ptr<TimedSocket> socket, HealthQuestion question) {
    return run_check(std::move(socket), question, false);
}

}  // namespace tidegate::upstream
