#include "app/listener.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace tidegate::app {

namespace {

constexpr int kBacklog = 4096;  // the kernel lowers it to net.core.somaxconn

std::string fault(const config::Address& address, int error) {
    std::string text = "cannot listen on " + address.to_string() + ": " +
                       error_code(error, boost::system::system_category()).message();
    if (error == EADDRINUSE) text += "; another program is using it";
    return text;
}

// An open descriptor, or -errno.
int open_bound(const StreamProtocol::endpoint& endpoint, bool shared, bool listening) {
    const int family = endpoint.protocol().family();
    const int descriptor = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -errno;
    const int on = 1;
    if (family != AF_UNIX) {
        ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (shared) ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    }
    if (::bind(descriptor, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
        (listening && ::listen(descriptor, kBacklog) != 0)) {
        const int error = errno;
        ::close(descriptor);
        return -error;
    }
    return descriptor;
}

// Whether the socket file is left over from a program that is gone.
bool is_abandoned(const std::string& path) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
    const asio::local::stream_protocol::endpoint endpoint(path);
    const int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return false;
    const int outcome = ::connect(probe, endpoint.data(), static_cast<socklen_t>(endpoint.size()));
    const int error = errno;
    ::close(probe);
    return outcome != 0 && error == ECONNREFUSED;
}

Result<ListenerGroup, std::string> open_unix(const config::Listen& settings, std::size_t workers) {
    const std::string& path = settings.address.unix_path;
    if (is_abandoned(path)) ::unlink(path.c_str());
    const int first = open_bound(asio::local::stream_protocol::endpoint(path), false, true);
    if (first < 0) return fault(settings.address, -first);
    ListenerGroup group{settings, {first}};
    while (group.descriptors.size() < workers) group.descriptors.push_back(::dup(first));
    return group;
}

std::uint16_t bound_port(int descriptor) {
    StreamProtocol::endpoint endpoint;
    auto size = static_cast<socklen_t>(endpoint.capacity());
    ::getsockname(descriptor, endpoint.data(), &size);
    endpoint.resize(size);
    asio::ip::tcp::endpoint tcp;
    std::memcpy(tcp.data(), endpoint.data(), size);
    return tcp.port();
}

}  // namespace

Result<ListenerGroup, std::string> open_listeners(const config::Listen& settings,
                                                  std::size_t workers) {
    if (settings.address.is_unix()) return open_unix(settings, workers);
    error_code ec;
    const auto ip = asio::ip::make_address(settings.address.host, ec);
    if (ec) return "cannot listen on " + settings.address.to_string() + ": not an IP address";
    const int probe = open_bound(asio::ip::tcp::endpoint(ip, settings.address.port), false, true);
    if (probe < 0) return fault(settings.address, -probe);
    ListenerGroup group{settings, {}};
    group.settings.address.port = bound_port(probe);
    ::close(probe);
    const asio::ip::tcp::endpoint endpoint(ip, group.settings.address.port);
    while (group.descriptors.size() < workers) {
        const int descriptor = open_bound(endpoint, true, true);
        if (descriptor < 0) {
            for (const int opened : group.descriptors) ::close(opened);
            return fault(group.settings.address, -descriptor);
        }
        group.descriptors.push_back(descriptor);
    }
    return group;
}

Acceptor adopt_listener(Executor executor, const config::Address& address, int descriptor) {
    StreamProtocol protocol = asio::local::stream_protocol();
    if (!address.is_unix()) {
        const bool v6 = address.host.find(':') != std::string::npos;
        protocol = v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
    }
    Acceptor acceptor(executor, protocol, descriptor);
    acceptor.non_blocking(true);
    return acceptor;
}

}  // namespace tidegate::app
