#include "upstream/health_check_http2.hpp"

#include <nghttp2/nghttp2.h>

#include <array>
#include <string_view>

#include "base/version.hpp"
#include "h2/client.hpp"
#include "http/field.hpp"
#include "net/deadline.hpp"

namespace tidegate::upstream {

namespace {

constexpr h2::ClientSettings kCheckSettings{.head = {16'384, 200, 16'384}};
// Of all that a server sends to a check.
constexpr std::size_t kCheckBytesMax = 262'144;

std::string fields_for(const HealthQuestion& question) {
    const std::string& host = question.settings.host;
    return "Host: " + (host.empty() ? question.authority : host) +
           "\r\nUser-Agent: tidegate-health/" + std::string(kVersion) + "\r\nAccept: */*\r\n";
}

// True: the head of the final answer is there.
bool take_head(h2::ClientStream& stream, HealthAnswer& answer) {
    constexpr int kFinal = 200;
    while (http::ResponseHead* const head = stream.next_head()) {
        if (head->status < kFinal) {
            stream.drop_interim();
            continue;
        }
        answer.status = head->status;
        answer.location = http::single_value(head->fields, "location");
        return true;
    }
    return false;
}

}  // namespace

Task<Http2Asked> ask_over_http2(TimedSocket& socket, const HealthQuestion& question,
                                HealthAnswer& answer) {
    const config::HealthCheck& settings = question.settings;
    const SteadyTime now = steady_now();
    h2::ClientStreamPool pool;
    h2::Client client(kCheckSettings, pool, now);
    h2::ClientEventList events;
    h2::ClientStream* stream = nullptr;
    if (!settings.path.empty()) {
        const std::string_view scheme = socket.tls() != nullptr ? "https" : "http";
        stream = &client.begin({"GET", scheme, settings.path}, fields_for(question), false);
    }
    Http2Asked asked;
    std::string output(8'192, '\0');
    std::array<char, 4'096> input;
    std::size_t received = 0;
    while (!asked.ec && !asked.is_bad) {
        while (const std::size_t bytes = client.gather(output, now, events)) {
            asked.ec = co_await socket.write(std::string_view(output).substr(0, bytes));
            if (asked.ec) co_return asked;
        }
        asked.has_settings = client.has_settings();
        asked.has_head = stream != nullptr && take_head(*stream, answer);
        if (asked.has_head || (stream == nullptr && asked.has_settings)) break;
        const bool is_lost = stream != nullptr && stream->is_closed();
        asked.is_bad = is_lost || client.is_done() || client.error() != NGHTTP2_NO_ERROR ||
                       received > kCheckBytesMax;
        if (asked.is_bad) break;
        const ByteStream::Received read = co_await socket.read_some(input);
        asked.ec = read.ec;
        received += read.bytes;
        asked.has_spoken = received > 0;
        events.clear();
        client.receive({input.data(), read.bytes}, now, events);
    }
    co_return asked;
}

}  // namespace tidegate::upstream
