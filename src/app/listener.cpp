#include "app/listener.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/file_work.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "net/descriptor.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

std::string errno_text(int error) {
    return std::generic_category().message(error);
}

std::string set_group(int descriptor, const struct stat& now, const std::string& group) {
    const auto id = config::find_group(group);
    if (!id) return "there is no group " + quote(group) + " on this system";
    if (now.st_gid == *id) return {};
    if (::fchownat(descriptor, "", static_cast<uid_t>(-1), *id, AT_EMPTY_PATH) == 0) return {};
    if (errno != EPERM) {
        return "the group " + quote(group) + " cannot be set: " + errno_text(errno);
    }
    return "this process may not give the socket to the group " + quote(group) +
           ": make its user a member of the group (systemd: `SupplementaryGroups=" + group +
           "`), or grant CAP_CHOWN";
}

std::string set_mode(int descriptor, unsigned mode) {
    // chmod() of an O_PATH descriptor, which follows no link at the path itself.
    const std::string opened = "/proc/self/fd/" + std::to_string(descriptor);
    if (::chmod(opened.c_str(), mode) == 0) return {};
    return "its mode cannot be set: " + errno_text(errno);
}

}  // namespace

std::string set_socket_file(const std::string& path, const config::SocketFile& wanted) {
    if (wanted == config::SocketFile{}) return {};
    const FileWait wait(path);
    const Descriptor file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat now {};
    if (!file || ::fstat(file.get(), &now) != 0) {
        return "its file cannot be opened: " + errno_text(errno);
    }
    if (!S_ISSOCK(now.st_mode)) return "another file has taken its place";
    constexpr unsigned kPermissions = 07777;
    const unsigned former = now.st_mode & kPermissions;
    const unsigned mode = wanted.mode.value_or(former);
    // What the new mode takes away goes before the group changes, and what it adds comes behind.
    std::string wrong;
    if ((former & mode) != former) wrong = set_mode(file.get(), former & mode);
    if (wrong.empty() && !wanted.group.empty()) wrong = set_group(file.get(), now, wanted.group);
    if (wrong.empty() && (former & mode) != mode) wrong = set_mode(file.get(), mode);
    return wrong;
}

namespace {

// What the kernel may hold of an answer that a client's window has no room for. Without a bound, a
// thousand clients that do not read take gigabytes, which all connections of the machine share.
constexpr int kUnsentBytesMax = 262'144;

std::string fault(const config::Address& address, int error) {
    std::string text = "cannot listen on " + address.to_string() + ": " + errno_text(error);
    constexpr int kFirstUnprivilegedPort = 1024;
    if (error == EADDRINUSE) text += "; another program is using it";
    if (error == EADDRNOTAVAIL) text += "; this machine has no such address";
    if (error == EACCES && !address.is_unix() && address.port < kFirstUnprivilegedPort) {
        text +=
            "; a port below 1024 needs the capability CAP_NET_BIND_SERVICE (systemd: "
            "`AmbientCapabilities=CAP_NET_BIND_SERVICE`): grant it, or choose a higher port";
    }
    return text;
}

// ` (TLS, h2 and http1)`; nothing where HTTP/1 is spoken in the clear, as nearly everywhere.
std::string spoken(const config::Listen& settings) {
    if (!settings.tls && !settings.takes_http2) return {};
    const char* const versions = !settings.takes_http2  ? "http1"
                                 : settings.takes_http1 ? "h2 and http1"
                                                        : "h2";
    return fmt::format(" ({}{})", settings.tls ? "TLS, " : "", versions);
}

// Whether the kernel has no IPv6, so that kEveryAddress means IPv4 alone.
bool lacks_ipv6(int error) {
    return error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
}

// An open descriptor, or -errno.
int open_bound(const StreamProtocol::endpoint& endpoint, bool shared, bool ipv6_only = false,
               bool listens = true) {
    const int family = endpoint.protocol().family();
    const int descriptor = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -errno;
    const int on = 1;
    const int v6_only = ipv6_only ? 1 : 0;
    // Whatever net.ipv6.bindv6only says.
    if (family == AF_INET6) {
        ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    }
    if (family != AF_UNIX) {
        ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (shared) ::setsockopt(descriptor, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    }
    if (::bind(descriptor, endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
        (listens && ::listen(descriptor, kBacklog) != 0)) {
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
    const asio::local::stream_protocol::endpoint endpoint(path);
    const int first = open_bound(endpoint, false, false, false);
    if (first < 0) return fault(settings.address, -first);
    // Before it listens no program can connect, whatever the permissions are meanwhile.
    std::string wrong = set_socket_file(path, settings.socket_file);
    if (wrong.empty() && ::listen(first, kBacklog) != 0) wrong = errno_text(errno);
    if (!wrong.empty()) {
        ::close(first);
        ::unlink(path.c_str());
        return "cannot listen on " + settings.address.to_string() + ": " + wrong;
    }
    ListenerGroup group{settings, {first}, settings.address};
    group.share(workers);
    return group;
}

// A first socket that shares the port with none, so that it fails if another program uses it. It
// does not listen: closing it would reset the clients that have connected meanwhile.
// Where the kernel has no IPv6, `settings` become those of every IPv4 address.
int open_probe(config::Listen& settings) {
    const auto open = [&] {
        const auto ip = asio::ip::make_address(settings.address.host);
        return open_bound(asio::ip::tcp::endpoint(ip, settings.address.port), false,
                          settings.ipv6_only, false);
    };
    int probe = open();
    const bool means_ipv4 = settings.address.host == config::kEveryAddress && !settings.ipv6_only;
    if (means_ipv4 && probe < 0 && lacks_ipv6(-probe)) {
        settings.address.host = "0.0.0.0";
        probe = open();
    }
    return probe;
}

}  // namespace

int socket_option(int descriptor, int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(descriptor, level, name, &value, &size) == 0 ? value : -1;
}

config::Address bound_address(int descriptor) {
    StreamProtocol::endpoint endpoint;
    auto size = static_cast<socklen_t>(endpoint.capacity());
    if (::getsockname(descriptor, endpoint.data(), &size) != 0) return {};
    endpoint.resize(size);
    const int family = endpoint.protocol().family();
    config::Address address;
    if (family == AF_UNIX) {
        const std::size_t name_at = offsetof(sockaddr_un, sun_path);
        const auto* const path = reinterpret_cast<const char*>(endpoint.data()) + name_at;
        address.unix_path.assign(path, size - name_at);
        // A name of the abstract namespace begins with a zero byte, a path ends with one.
        if (address.unix_path.starts_with('\0')) address.unix_path.front() = '@';
        if (address.unix_path.ends_with('\0')) address.unix_path.pop_back();
    } else if (family == AF_INET || family == AF_INET6) {
        asio::ip::tcp::endpoint tcp;
        std::memcpy(tcp.data(), endpoint.data(), size);
        address.host = tcp.address().to_string();
        address.port = tcp.port();
    }
    return address;
}

Result<ListenerGroup, std::string> take_listeners(const config::Listen& settings,
                                                  std::vector<Descriptor> descriptors,
                                                  std::size_t workers) {
    const int first = descriptors.front().get();
    ListenerGroup group{settings, {}, settings.address, true};
    group.settings.address = bound_address(first);
    const bool is_tcp = !group.settings.address.is_unix();
    if (is_tcp) {
        const bool is_ipv6_only = socket_option(first, IPPROTO_IPV6, IPV6_V6ONLY) == 1;
        if (is_ipv6_only != settings.ipv6_only) {
            return "cannot take over " + settings.address.to_string() +
                   ": the running process takes other versions of IP there: restart Tidegate";
        }
        group.settings.ipv6_only = is_ipv6_only;
    } else if (const std::string wrong =
                   set_socket_file(settings.address.unix_path, settings.socket_file);
               !wrong.empty()) {
        return "cannot take over " + settings.address.to_string() + ": " + wrong;
    }
    const bool has_queue_each = is_tcp && socket_option(first, SOL_SOCKET, SO_REUSEPORT) == 1;
    if (!has_queue_each) descriptors.resize(1);
    for (Descriptor& one : descriptors) group.descriptors.push_back(one.release());
    if (has_queue_each) {
        const config::Address& at = group.settings.address;
        const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(at.host), at.port);
        while (group.descriptors.size() < workers) {
            const int opened = open_bound(endpoint, true, group.settings.ipv6_only, false);
            if (opened < 0) break;  // then workers accept from one queue
            group.descriptors.push_back(opened);
        }
    }
    group.share(workers);
    return group;
}

Result<ListenerGroup, std::string> open_listeners(const config::Listen& settings,
                                                  std::size_t workers) {
    if (settings.address.is_unix()) return open_unix(settings, workers);
    error_code ec;
    asio::ip::make_address(settings.address.host, ec);
    if (ec) return "cannot listen on " + settings.address.to_string() + ": not an IP address";
    ListenerGroup group{settings, {}, settings.address};
    config::Address& address = group.settings.address;
    const int probe = open_probe(group.settings);
    if (probe < 0) return fault(address, -probe);
    address.port = bound_address(probe).port;
    ::close(probe);
    const asio::ip::tcp::endpoint endpoint(asio::ip::make_address(address.host), address.port);
    while (group.descriptors.size() < workers) {
        const int descriptor = open_bound(endpoint, true, settings.ipv6_only);
        if (descriptor < 0) {
            for (const int opened : group.descriptors) ::close(opened);
            return fault(address, -descriptor);
        }
        group.descriptors.push_back(descriptor);
    }
    return group;
}

void ListenerGroup::share(std::size_t workers) {
    while (descriptors.size() < workers) {
        const int descriptor = ::fcntl(descriptors.front(), F_DUPFD_CLOEXEC, 0);
        if (descriptor < 0) {
            throw std::system_error(errno, std::generic_category(),
                                    "cannot listen on " + settings.address.to_string());
        }
        descriptors.push_back(descriptor);
    }
}

std::string ListenerGroup::to_string() const {
    const config::Address& address = settings.address;
    return address.to_string() +
           (configured.is_inherited() ? " (" + configured.to_string() + ")" : "") +
           (address.host == config::kEveryAddress && !settings.ipv6_only ? " (IPv6 and IPv4)"
                                                                         : "") +
           (settings.proxy_protocol ? " (PROXY protocol)" : "") + spoken(settings);
}

void begin_listening(int descriptor) {
    if (socket_option(descriptor, SOL_SOCKET, SO_ACCEPTCONN) == 0) ::listen(descriptor, kBacklog);
}

Acceptor adopt_listener(Executor executor, const config::Address& address, int descriptor) {
    StreamProtocol protocol = asio::local::stream_protocol();
    if (!address.is_unix()) {
        // Linux hands these on to each accepted connection, which saves two system calls for each.
        const int on = 1;
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytesMax,
                     sizeof kUnsentBytesMax);
        const bool v6 = address.host.find(':') != std::string::npos;
        protocol = v6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4();
    }
    Acceptor acceptor(executor, protocol, descriptor);
    acceptor.non_blocking(true);
    return acceptor;
}

namespace {

constexpr int kFirstInherited = 3;
constexpr std::int64_t kInheritedMax = 1'024;
// What sd_listen_fds_with_names(3) calls a socket when LISTEN_FDNAMES is not set.
constexpr std::string_view kUnnamed = "unknown";

std::string names_text(const InheritedSockets& sockets) {
    std::string text;
    for (const InheritedSocket& one : sockets) {
        text += (text.empty() ? "" : ", ") + quote(one.name);
    }
    return text;
}

// Why a socket cannot be what `settings` want; empty: it can.
std::string objection_to(int descriptor, const config::Listen& settings,
                         const config::Address& bound) {
    const bool is_known = bound.is_unix() || !bound.host.empty();
    if (!is_known || socket_option(descriptor, SOL_SOCKET, SO_TYPE) != SOCK_STREAM ||
        socket_option(descriptor, SOL_SOCKET, SO_ACCEPTCONN) != 1) {
        return "it does not listen for connections: its .socket unit needs `ListenStream=` and "
               "`Accept=no`";
    }
    if (settings.trusted && !bound.is_unix()) {
        return "`trusted` is for a Unix socket, and this one is " + bound.to_string() +
               ": list proxies in identity.client_ip.trusted_proxies";
    }
    if (settings.tls && bound.is_unix()) {
        return "a Unix socket does not leave this machine and needs no TLS: remove `tls`";
    }
    return {};
}

Result<ListenerGroup, std::string> make_group(const config::Listen& settings, Descriptor descriptor,
                                              std::size_t workers) {
    ListenerGroup group{settings, {}, settings.address};
    group.settings.address = bound_address(descriptor.get());
    const std::string objection = objection_to(descriptor.get(), settings, group.settings.address);
    if (!objection.empty()) {
        return "cannot listen on " + settings.address.to_string() + ": " + objection;
    }
    group.settings.ipv6_only = socket_option(descriptor.get(), IPPROTO_IPV6, IPV6_V6ONLY) == 1;
    group.descriptors.push_back(descriptor.release());
    group.share(workers);
    return group;
}

}  // namespace

InheritedSockets take_inherited_sockets(config::Environment environment, pid_t pid) {
    InheritedSockets sockets;
    const auto number_of = [&](const char* name) {
        return parse_decimal(environment(name).value_or("")).value_or(0);
    };
    if (number_of("LISTEN_PID") != pid) return sockets;
    const std::int64_t count = std::min(number_of("LISTEN_FDS"), kInheritedMax);
    const auto listed = environment("LISTEN_FDNAMES");
    std::string_view names = listed ? std::string_view(*listed) : std::string_view();
    for (int descriptor = kFirstInherited; descriptor < kFirstInherited + count; ++descriptor) {
        std::string name(listed ? take_until(names, ':') : kUnnamed);
        if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) {
            telemetry::log(telemetry::Level::warn, "the socket {}, descriptor {}, is not open",
                           quote(name), descriptor);
            continue;
        }
        sockets.push_back({std::move(name), Descriptor(descriptor)});
    }
    return sockets;
}

void clear_inheritance() {
    for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) ::unsetenv(name);
}

Result<std::vector<ListenerGroup>, std::string> adopt_inherited(const config::Listen& settings,
                                                                InheritedSockets& sockets,
                                                                std::size_t workers) {
    std::vector<ListenerGroup> groups;
    for (InheritedSocket& one : sockets) {
        if (one.name != settings.address.inherited || !one.descriptor) continue;
        auto group = make_group(settings, std::move(one.descriptor), workers);
        if (!group) return group.error();
        groups.push_back(std::move(*group));
    }
    if (!groups.empty()) return groups;
    const std::string fault = "cannot listen on " + settings.address.to_string() + ": ";
    if (sockets.empty()) {
        return fault +
               "the service manager has passed no socket to this process: start its .socket unit, "
               "or write an address";
    }
    return fault + "the sockets passed to this process are " + names_text(sockets);
}

void add_offer(OfferedListeners& to, const std::string& address,
               std::vector<Descriptor>&& descriptors) {
    if (descriptors.empty()) return;
    // Port 0 is another port for each listener, and several sockets may be inherited by one name.
    const config::Address bound = bound_address(descriptors.front().get());
    auto same = std::find_if(to.begin(), to.end(), [&](const OfferedListener& one) {
        return one.address == address && bound_address(one.descriptors.front().get()) == bound;
    });
    if (same == to.end()) same = to.insert(to.end(), OfferedListener{address, {}});
    std::move(descriptors.begin(), descriptors.end(), std::back_inserter(same->descriptors));
}

std::optional<Result<std::vector<ListenerGroup>, std::string>> take_offered(
    const config::Listen& settings, OfferedListeners& offered, std::size_t workers) {
    const auto is_there = [&](const OfferedListener& one) {
        return one.address == settings.address.to_string();
    };
    const auto offer = std::find_if(offered.begin(), offered.end(), is_there);
    if (offer == offered.end()) return std::nullopt;
    if (settings.address.is_inherited()) {
        InheritedSockets inherited;
        for (OfferedListener& one : offered) {
            if (!is_there(one)) continue;
            inherited.push_back({settings.address.inherited, std::move(one.descriptors.front())});
        }
        std::erase_if(offered, is_there);
        return adopt_inherited(settings, inherited, workers);
    }
    auto group = take_listeners(settings, std::move(offer->descriptors), workers);
    offered.erase(offer);
    if (!group) return group.error();
    return std::vector<ListenerGroup>{std::move(*group)};
}

void discard(OfferedListeners& offered) {
    for (const OfferedListener& one : offered) {
        telemetry::log(telemetry::Level::info, "no longer listens on {}", one.address);
        if (one.address.starts_with(config::kInherited)) continue;
        const config::Address at = bound_address(one.descriptors.front().get());
        if (at.is_unix() && !at.unix_path.starts_with('@')) ::unlink(at.unix_path.c_str());
    }
    offered.clear();
}

Result<std::vector<ListenerGroup>, std::string> open_client_listeners(const config::Config& config,
                                                                      InheritedSockets& inherited,
                                                                      OfferedListeners& offered,
                                                                      std::size_t workers) {
    std::vector<ListenerGroup> groups;
    for (const config::Listen& listen : config.listen) {
        if (auto taken = take_offered(listen, offered, workers)) {
            if (!*taken) return taken->error();
            std::move((*taken)->begin(), (*taken)->end(), std::back_inserter(groups));
            continue;
        }
        if (listen.address.is_inherited()) {
            auto adopted = adopt_inherited(listen, inherited, workers);
            if (!adopted) return adopted.error();
            std::move(adopted->begin(), adopted->end(), std::back_inserter(groups));
            continue;
        }
        auto group = open_listeners(listen, workers);
        if (!group) return group.error();
        groups.push_back(std::move(*group));
    }
    for (const InheritedSocket& unused : inherited) {
        if (!unused.descriptor) continue;
        telemetry::log(telemetry::Level::warn,
                       "the service manager passes the socket {}, which `listen` does not name: "
                       "its clients get no answer",
                       quote(unused.name));
    }
    return groups;
}

}  // namespace tidegate::app
