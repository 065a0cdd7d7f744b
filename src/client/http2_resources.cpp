#include "client/http2_resources.hpp"

#include <algorithm>

namespace tidegate::client {

void Http2Resources::use(const config::Config& config) {
    const config::Http2& http2 = config.http2;
    const auto& requests = config.limits_on_requests;
    settings = {.streams = http2.streams,
                .stream_window = http2.stream_window,
                .connection_window = http2.connection_window,
                .cookie_crumbs = http2.cookie_crumbs,
                .abuse = {.burst = http2.abuse_burst, .per = http2.abuse_per},
                .head = {requests.header_bytes, requests.headers, requests.uri_bytes},
                .head_time = config.timeouts.request_head,
                .connect_protocol =
                    std::any_of(config.routes.begin(), config.routes.end(),
                                [](const config::Route& one) { return one.takes_websockets; })};
    bodies.set_bound(http2.buffered);
}

std::unique_ptr<Http2Stream> Http2Resources::take(Http2Link& link, h2::Stream* stream) {
    std::unique_ptr<Http2Stream> taken;
    if (free_.empty()) {
        taken = std::make_unique<Http2Stream>(executor_, deadlines_, buffers_);
    } else {
        taken = std::move(free_.back());
        free_.pop_back();
    }
    taken->begin(link, stream);
    return taken;
}

void Http2Resources::give_back(std::unique_ptr<Http2Stream> stream) {
    stream->end();
    if (free_.size() < kKept) free_.push_back(std::move(stream));
}

}  // namespace tidegate::client
