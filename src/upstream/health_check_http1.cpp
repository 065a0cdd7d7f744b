#include "upstream/health_check_http1.hpp"

#include <cstddef>
#include <string_view>
#include <utility>

#include "base/process.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"

namespace tidegate::upstream {

namespace {

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

}  // namespace

Task<Http1Asked> ask_over_http1(TimedSocket& socket, const HealthQuestion& question,
                                HealthAnswer& answer) {
    Http1Asked asked;
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

}  // namespace tidegate::upstream
