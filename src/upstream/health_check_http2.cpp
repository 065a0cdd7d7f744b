#include "upstream/health_check_http2.hpp"

#include <nghttp2/nghttp2.h>

#include <array>
#include <optional>
#include <string_view>

#include "base/process.hpp"
#include "h2/client.hpp"
#include "http/field.hpp"
#include "http/grpc.hpp"
#include "net/deadline.hpp"
#include "upstream/health_check_grpc.hpp"

namespace tidegate::upstream {

namespace {

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
    h2::ClientStreamPool pool_;
    h2::Client client_;
    h2::ClientEventList events_;
    h2::ClientStream* stream_ = nullptr;
    std::string body_;
};

}  // namespace

Task<Http2Asked> ask_over_http2(TimedSocket& socket, const HealthQuestion& question,
                                HealthAnswer& answer) {
    Http2Check check(question, socket.tls() != nullptr ? "https" : "http", steady_now());
    Http2Asked asked;
    std::string output(8'192, '\0');
    std::array<char, 4'096> input;
    std::size_t received = 0;
    while (!asked.ec) {
        while (const std::size_t bytes = check.gather(output)) {
            asked.ec = co_await socket.write(std::string_view(output).substr(0, bytes));
            if (asked.ec) co_return asked;
        }
        asked.has_settings = check.has_settings();
        asked.is_bad = check.is_bad() || received > kCheckBytesMax;
        if (asked.is_bad) break;
        asked.has_answer = check.take_answer(answer);
        const bool is_enough = question.settings.only_connects() && asked.has_settings;
        if (asked.has_answer || is_enough) break;
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

}  // namespace tidegate::upstream
