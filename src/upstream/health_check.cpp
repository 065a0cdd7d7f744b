#include "upstream/health_check.hpp"

#include <nghttp2/nghttp2.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include "base/process.hpp"
#include "base/units.hpp"
#include "h2/client.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/grpc.hpp"
#include "http/head.hpp"
#include "net/byte_stream.hpp"
#include "net/deadline.hpp"
#include "net/tls_fault.hpp"

namespace tidegate::upstream {

namespace {

// What came of asking a server on its connection.
struct CheckOutcome {
    error_code ec;            // why nothing more was read
    bool is_bad = false;      // what came breaks the rules of its version, or is no answer
    bool has_spoken = false;  // anything came
    bool has_answer = false;  // `answer` has the status, or, of gRPC, says all there is to say
};

constexpr http::HeadBounds kHeadBounds{16'384, 200, 16'384};
// Interim answers and the head of the final one; and again what follows that head.
constexpr std::size_t kAnswerBytesMax = 65'536;

enum class HeadRead : std::uint8_t { unfinished, whole, bad };

// The final answer at the front of `bytes`, behind any interim ones. If it is whole, leaves in
// `bytes` what follows it.
HeadRead read_head(std::string_view& bytes, HealthAnswer& answer, http::Framing& framing) {
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
        framing = {};
        if (head.status == kSwitchingProtocols ||
            http::response_framing(head, false, framing) != http::FramingFault::none) {
            return HeadRead::bad;
        }
        bytes.remove_prefix(length);
        if (head.status < kFinal) continue;
        answer.status = head.status;
        for (const http::Field& field : head.fields) {
            if (http::equal_ignoring_case(field.name, "location")) answer.location = field.value;
        }
        return HeadRead::whole;
    }
}

std::string request_for(const HealthQuestion& question) {
    const config::HealthCheck& settings = question.settings;
    return "GET " + settings.path +
           " HTTP/1.1\r\nHost: " + (settings.host.empty() ? question.authority : settings.host) +
           "\r\nUser-Agent: tidegate-health/" + std::string(kVersion) + "\r\nAccept: */*\r\n" +
           (question.keeps ? "\r\n" : "Connection: close\r\n\r\n");
}

bool is_short(const http::Framing& framing) {
    return framing.body != http::BodyKind::length || framing.length <= kAnswerBytesMax;
}

// Sends the GET that the settings describe, and reads until the head of the final answer is there.
// Fills in `answer.rest` if the question and the head let the connection take another check.
// `socket` is connected, its handshake over, and closes itself when the time is over.
Task<CheckOutcome> ask_over_http1(TimedSocket& socket, const HealthQuestion& question,
                                  HealthAnswer& answer) {
    CheckOutcome asked;
    asked.ec = co_await socket.write(request_for(question));
    std::string text;
    HeadRead head = HeadRead::unfinished;
    http::Framing framing;
    std::string_view behind;
    while (!asked.ec && head == HeadRead::unfinished && text.size() < kAnswerBytesMax) {
        char bytes[4'096];
        const ByteStream::Received received = co_await socket.read_some(bytes);
        asked.ec = received.ec;
        text.append(bytes, received.bytes);
        behind = text;
        head = read_head(behind, answer, framing);
    }
    asked.has_spoken = !text.empty();
    asked.is_bad = head == HeadRead::bad;
    asked.has_answer = head == HeadRead::whole;
    if (asked.has_answer && !asked.ec && question.keeps && framing.keep_alive &&
        is_short(framing)) {
        answer.rest.emplace(AnswerRest{framing, std::string(behind)});
    }
    co_return asked;
}

constexpr h2::ClientSettings kCheckSettings{.head = {16'384, 200, 16'384}};
// Of all that a server sends to a check.
constexpr std::size_t kCheckBytesMax = 262'144;

std::string fields_for(const HealthQuestion& question) {
    const std::string& host = question.settings.host;
    return "Host: " + (host.empty() ? question.authority : host) +
           "\r\nUser-Agent: tidegate-health/" + std::string(kVersion) + "\r\n" +
           (question.settings.grpc ? "Content-Type: application/grpc\r\nTE: trailers\r\n"
                                   : "Accept: */*\r\n");
}

// One check on its connection: its request, and the answer so far.
class Http2Check {
  public:
    Http2Check(const HealthQuestion& question, std::string_view scheme, h2::Time now)
        : settings_(question.settings), now_(now), client_(kCheckSettings, pool_, now) {
        if (settings_.only_connects()) return;
        const bool is_grpc = settings_.grpc.has_value();
        const std::string_view path = is_grpc ? http::kGrpcHealthPath : settings_.path;
        stream_ =
            &client_.begin({is_grpc ? "POST" : "GET", scheme, path}, fields_for(question), is_grpc);
        if (!is_grpc) return;
        std::string message;
        http::append_grpc_health_request(*settings_.grpc, message);
        http::append_grpc_message_head(static_cast<std::uint32_t>(message.size()), question_);
        question_ += message;
        piece_ = question_;
        client_.offer(*stream_, {&piece_, 1}, true);
    }

    std::size_t gather(std::span<char> into) {
        const std::size_t bytes = client_.gather(into, now_, events_);
        events_.clear();
        return bytes;
    }

    void receive(std::string_view bytes) {
        client_.receive(bytes, now_, events_);
        for (const h2::ClientEvent& event : events_) {
            if (event.kind != h2::ClientEvent::Kind::body) continue;
            if (settings_.grpc && body_.size() <= kGrpcHealthBytesMax) body_ += event.bytes;
            client_.consume(*stream_, event.bytes.size());
        }
        events_.clear();
    }

    bool has_settings() const { return client_.has_settings(); }

    // The bytes that came break the rules of HTTP/2, or are no answer.
    bool is_bad() const {
        return client_.has_failed() || client_.error() != NGHTTP2_NO_ERROR ||
               (stream_ != nullptr && stream_->malformed() != h2::Malformed::none);
    }
    // Nothing more will come.
    bool is_lost() const {
        return client_.is_done() || (stream_ != nullptr && stream_->is_closed());
    }

    // True: the answer is there, as far as it counts.
    bool take_answer(HealthAnswer& answer) {
        if (stream_ == nullptr || !take_head(answer)) return false;
        if (!settings_.grpc) return true;
        if (!stream_->has_ended()) return false;
        answer.fault = fault_of_grpc_health(*stream_->next_head(), stream_->trailers(), body_);
        return true;
    }

  private:
    // True: the head of the final answer is there.
    bool take_head(HealthAnswer& answer) {
        constexpr int kFinal = 200;
        while (http::ResponseHead* const head = stream_->next_head()) {
            if (head->status < kFinal) {
                stream_->drop_interim();
                continue;
            }
            answer.status = head->status;
            answer.location = http::single_value(head->fields, "location");
            return true;
        }
        return false;
    }

    const config::HealthCheck& settings_;
    const h2::Time now_;
    // Of gRPC. They outlive the client, which sends them.
    std::string question_;
    std::string_view piece_;
    h2::StreamPool<h2::ClientStream> pool_;
    h2::ClientSession client_;
    h2::ClientEventList events_;
    h2::ClientStream* stream_ = nullptr;
    std::string body_;
};

// Sends the GET that the settings describe, and reads until the head of the final answer is there;
// or the call of gRPC, and reads all of its answer. Where the settings only connect, the server's
// SETTINGS are its answer. `socket` is as for ask_over_http1().
Task<CheckOutcome> ask_over_http2(TimedSocket& socket, const HealthQuestion& question,
                                  HealthAnswer& answer) {
    Http2Check check(question, socket.tls() != nullptr ? "https" : "http", steady_now());
    CheckOutcome asked;
    std::string output(8'192, '\0');
    std::array<char, 4'096> input;
    std::size_t received = 0;
    while (!asked.ec) {
        while (const std::size_t bytes = check.gather(output)) {
            asked.ec = co_await socket.write(std::string_view(output).substr(0, bytes));
            if (asked.ec) co_return asked;
        }
        asked.is_bad = check.is_bad() || received > kCheckBytesMax;
        asked.has_answer = question.settings.only_connects() && check.has_settings();
        if (asked.is_bad) break;
        asked.has_answer = asked.has_answer || check.take_answer(answer);
        if (asked.has_answer) break;
        asked.is_bad = check.is_lost();
        if (asked.is_bad) break;
        const ByteStream::Received read = co_await socket.read_some(input);
        asked.ec = read.ec;
        received += read.bytes;
        asked.has_spoken = received > 0;
        check.receive({input.data(), read.bytes});
    }
    co_return asked;
}

using http::GrpcServing;
using http::GrpcStatus;

constexpr std::string_view kNoGrpcAnswer = "its answer is not gRPC";

// Why the call itself failed.
std::string fault_of_status(int status) {
    const std::string number = "grpc-status " + std::to_string(status);
    switch (static_cast<GrpcStatus>(status)) {
        case GrpcStatus::unimplemented:
            return "it has no health service of gRPC (" + number + ")";
        case GrpcStatus::not_found:
            return "its health service does not know the service (" + number + ")";
        default:
            return "its health service answers " + number;
    }
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

std::string too_late(std::string_view what, const HealthQuestion& question) {
    return std::string(what) + " within " + format_duration(question.settings.timeout);
}

// Where the settings ask nothing, `connects_only`, there is no handshake. Fills in the fault if
// there is one.
Task<> connect_to_check(TimedSocket& socket, const HealthQuestion& question, bool connects_only,
                        HealthAnswer& answer) {
    const error_code ec = co_await socket.connect(question.endpoint);
    // Its time may have ended in the same turn of the loop, and the socket with it.
    if (!socket.socket().is_open()) {
        answer.fault = too_late("it accepts no connection", question);
    } else if (ec) {
        answer.fault = "cannot connect: " + ec.message();
    } else if (!connects_only && !question.tls_host.empty()) {
        answer.fault = co_await shake_hands(socket, question);
    }
}

// Why the server did not answer.
std::string fault_without_answer(const TimedSocket& socket, const HealthQuestion& question,
                                 const CheckOutcome& asked, bool is_late) {
    if (asked.is_bad) {
        return question.is_http2 ? "its answer is not HTTP/2" : "its answer is not HTTP";
    }
    if (is_late) return too_late("it does not answer", question);
    if (socket.tls() != nullptr) {
        // In TLS 1.3, a server may refuse the client's certificate after the handshake.
        const TlsFault fault = tls_fault(socket.tls(), asked.ec, asked.has_spoken);
        if (fault.refused) return fault.message;
    }
    return "it closes without an answer";
}

bool is_expected(const HealthAnswer& answer, const config::HealthCheck& settings) {
    return settings.path.empty() || std::any_of(settings.status.begin(), settings.status.end(),
                                                [&](const config::StatusRange& range) {
                                                    return range.contains(answer.status);
                                                });
}

Task<> ask_on_connection(TimedSocket& socket, const HealthQuestion& question, bool is_kept,
                         HealthAnswer& answer) {
    // RFC 9110 section 15.5.9: what a server may say to a connection that it ends for being unused.
    constexpr int kRequestTimeout = 408;
    const CheckOutcome asked = question.is_http2
                                   ? co_await ask_over_http2(socket, question, answer)
                                   : co_await ask_over_http1(socket, question, answer);
    const bool is_late = !socket.socket().is_open();
    answer.is_stale =
        is_kept && !is_late && (!asked.has_spoken || answer.status == kRequestTimeout);
    if (!asked.has_answer) {
        answer.fault = fault_without_answer(socket, question, asked, is_late);
    } else if (!is_expected(answer, question.settings)) {
        answer.fault = "it answers " + std::to_string(answer.status);
    }
}

// `connects_only`: if the settings state no request, none is sent.
Task<HealthAnswer> run_check(std::shared_ptr<TimedSocket> socket, HealthQuestion question,
                             bool connects_only) {
    const SteadyTime began = steady_now();
    const bool is_kept = socket->socket().is_open();
    HealthAnswer answer;
    if (!is_kept) {
        error_code no_socket;
        socket->socket().open(question.endpoint.protocol(), no_socket);
        answer.could_ask = !is_want_of_ours(no_socket);
        if (no_socket) {
            answer.fault = "cannot connect: " + no_socket.message();
            co_return answer;
        }
    }
    socket->expect_within(question.settings.timeout - question.spent);
    if (!is_kept) co_await connect_to_check(*socket, question, connects_only, answer);
    if (answer.fault.empty() && !connects_only) {
        co_await ask_on_connection(*socket, question, is_kept, answer);
    }
    answer.took = steady_now() - began;
    if (!answer.fault.empty() || answer.is_stale) answer.rest.reset();
    if (!answer.rest) socket->close();
    co_return answer;
}

}  // namespace

Task<bool> read_rest(TimedSocket& socket, AnswerRest rest) {
    http::BodyReader body;
    body.start(rest.framing);
    std::size_t received = rest.bytes.size();
    for (;;) {
        while (!body.done()) {
            const http::BodyBatch batch = body.take(rest.bytes, {});
            if (batch.bad) co_return false;
            if (batch.consumed == 0 && !batch.done) break;
            rest.bytes.erase(0, batch.consumed);
        }
        if (body.done()) co_return rest.bytes.empty();
        if (received > kAnswerBytesMax) co_return false;
        char bytes[4'096];
        const ByteStream::Received more = co_await socket.read_some(bytes);
        if (more.ec) co_return false;
        received += more.bytes;
        rest.bytes.append(bytes, more.bytes);
    }
}

std::string fault_of_grpc_health(const http::ResponseHead& head, const http::Fields& trailers,
                                 std::string_view body) {
    constexpr int kOk = 200;
    if (head.status != kOk) return "it answers " + std::to_string(head.status);
    const auto type = http::single_value(head.fields, http::FieldName::content_type);
    if (!http::is_grpc_content_type(type)) return std::string(kNoGrpcAnswer);
    // Trailers alone are one head.
    auto status = http::grpc_status_in(trailers);
    if (!status && body.empty()) status = http::grpc_status_in(head.fields);
    if (!status) return std::string(kNoGrpcAnswer);
    if (*status != static_cast<int>(GrpcStatus::ok)) return fault_of_status(*status);
    const http::GrpcMessage message = http::read_grpc_message(body);
    const auto serving =
        body.size() <= kGrpcHealthBytesMax && message.fault == http::GrpcMessage::Fault::none
            ? http::read_grpc_health_response(message.bytes)
            : std::nullopt;
    if (!serving) return "its answer is no HealthCheckResponse";
    switch (*serving) {
        case GrpcServing::serving:
            return {};
        case GrpcServing::not_serving:
            return "it says NOT_SERVING";
        case GrpcServing::no_service:
            return "it says SERVICE_UNKNOWN";
        case GrpcServing::unknown:
            break;
    }
    return "it says UNKNOWN";
}

Task<HealthAnswer> check_health(std::shared_ptr<TimedSocket> socket, HealthQuestion question) {
    const bool connects_only = question.settings.only_connects();
    return run_check(std::move(socket), question, connects_only);
}

Task<HealthAnswer> check_http2(std::shared_ptr<TimedSocket> socket, HealthQuestion question) {
    return run_check(std::move(socket), question, false);
}

bool is_quiet(TimedSocket& socket) {
    if (!socket.socket().is_open()) return false;
    SSL* const tls = socket.tls();
    if (tls != nullptr && (SSL_has_pending(tls) != 0 || BIO_pending(SSL_get_rbio(tls)) > 0)) {
        return false;
    }
    char byte = 0;
    const auto bytes = ::recv(socket.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return bytes < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

}  // namespace tidegate::upstream
