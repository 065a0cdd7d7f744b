#include "upstream/tunnel_stream.hpp"

#include <tuple>

#include "upstream/http1_stream.hpp"
#include "upstream/pool.hpp"

namespace tidegate::upstream {

namespace {

// Never called: of a tunnel, neither a body nor an answer waits for its client.
void ignore_eviction(void*) {}

}  // namespace

TunnelStream::TunnelStream(Pool& pool, BufferPool& buffers, Http1Stream& stream,
                           ActiveRequest& request)
    : pool_(pool), input_(buffers), request_(request, &ignore_eviction, nullptr) {
    std::tie(server_, connection_) = stream.release_tunnel(input_);
}

TunnelStream::~TunnelStream() {
    pool_.close_tunnel(connection_);
    server_->end_request(pool_.is_counted());
}

}  // namespace tidegate::upstream
