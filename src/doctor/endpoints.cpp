#include "doctor/endpoints.hpp"

#include <cstring>
#include <optional>
#include <thread>

#include "net/deadline.hpp"
#include "net/name_lookup.hpp"

namespace tidegate::doctor {

Result<Endpoints, std::string> find_endpoints(const config::Address& address,
                                              std::chrono::milliseconds time) {
    using boost::system::in_place_error;
    // The interval between two looks whether the name was looked up.
    constexpr std::chrono::milliseconds kPause{5};
    if (address.is_unix()) {
        return Endpoints{asio::local::stream_protocol::endpoint(address.unix_path)};
    }
    const NameLookup lookup(address.host, address.port);
    const SteadyTime end = std::chrono::steady_clock::now() + time;
    while (!lookup.done()) {
        if (std::chrono::steady_clock::now() >= end) {
            return {in_place_error, "its host name could not be resolved in time"};
        }
        std::this_thread::sleep_for(kPause);
    }
    if (lookup.endpoints().empty()) {
        return {in_place_error, "its host name cannot be resolved: " + lookup.error()};
    }
    return lookup.endpoints();
}

std::string endpoint_text(const StreamProtocol::endpoint& endpoint) {
    if (endpoint.protocol().family() == AF_UNIX) {
        asio::local::stream_protocol::endpoint local;
        local.resize(endpoint.size());
        std::memcpy(local.data(), endpoint.data(), endpoint.size());
        return local.path();
    }
    asio::ip::tcp::endpoint tcp;
    tcp.resize(endpoint.size());
    std::memcpy(tcp.data(), endpoint.data(), endpoint.size());
    const std::string host = tcp.address().to_string();
    const std::string port = std::to_string(tcp.port());
    return tcp.address().is_v6() ? "[" + host + "]:" + port : host + ":" + port;
}

std::string try_connect(const StreamProtocol::endpoint& endpoint, std::chrono::milliseconds time) {
    asio::io_context io{1};
    StreamSocket socket(io.get_executor());
    std::optional<error_code> outcome;
    socket.async_connect(endpoint, [&](const error_code& ec) { outcome = ec; });
    io.run_for(time);
    if (!outcome) return "no answer in time";
    return *outcome ? outcome->message() : "";
}

}  // namespace tidegate::doctor
