#include "upstream/shared_server.hpp"

#include <sstream>

#include <boost/asio/ip/tcp.hpp>

namespace tidegate::upstream {

namespace {

std::string address_of(const config::UpstreamServer& configured,
                       const StreamProtocol::endpoint& endpoint) {
    if (configured.address.is_unix()) return configured.address.to_string();
    asio::ip::tcp::endpoint tcp;
    tcp.resize(endpoint.size());
    std::copy_n(static_cast<const char*>(static_cast<const void*>(endpoint.data())),
                endpoint.size(), static_cast<char*>(static_cast<void*>(tcp.data())));
    return config::Address{tcp.address().to_string(), tcp.port(), {}}.to_string();
}

// FNV-1a: the same in every process, so that a hash chooses the same server in all of them.
std::uint64_t id_of(const std::string& address) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : address) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return hash;
}

}  // namespace

SharedServer::SharedServer(const config::UpstreamServer& configured,
                           const StreamProtocol::endpoint& at, std::size_t workers)
    : name(configured.address.to_string()),
      address(address_of(configured, at)),
      authority(configured.authority),
      tls_host(configured.is_tls ? configured.address.host : std::string()),
      is_http2(configured.is_http2),
      endpoint(at),
      state(id_of(address), configured.weight),
      counts(workers) {}

std::uint64_t SharedServer::active() const {
    std::uint64_t begun = 0;
    std::uint64_t ended = 0;
    for (const Counts& worker : counts) {
        ended += worker.ended.value();
        begun += worker.requests.value();
    }
    return begun > ended ? begun - ended : 0;
}

}  // namespace tidegate::upstream
