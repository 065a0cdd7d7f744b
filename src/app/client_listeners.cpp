#include "app/client_listeners.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
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
