#include "app/inherited_sockets.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

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
        const std::size_t end = std::min(names.find(':'), names.size());
        std::string name(listed ? names.substr(0, end) : kUnnamed);
        names.remove_prefix(std::min(end + 1, names.size()));
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

}  // namespace tidegate::app
