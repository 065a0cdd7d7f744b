#include "upstream/tunnel_stream.hpp"

#include <tuple>
#include <utility>

#include "upstream/pool.hpp"

namespace tidegate::upstream {

TunnelStream::TunnelStream(Pool& pool, Http1Stream& stream, ActiveRequest& request)
    : pool_(pool), input_(pool.buffers()), request_(request, &TunnelStream::on_evicted, this) {
    std::tie(server_, connection_) = stream.release_tunnel(input_);
}

TunnelStream::~TunnelStream() {
    close();
    server_->end_request(pool_.is_counted());
}

void TunnelStream::close() {
    if (!std::exchange(is_closed_, true)) pool_.close_tunnel(connection_);
}

}  // namespace tidegate::upstream
