// `listen` and `admin`.
#include <grp.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "base/ascii.hpp"
#include "base/file_work.hpp"
#include "base/numbers.hpp"
#include "base/quote.hpp"
#include "config/address.hpp"
#include "config/error_message.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::uint16_t kDefaultAdminPort = 9901;
constexpr std::string_view kEveryIpv4 = "0.0.0.0";

// A socket that systemd does not pass. Where it passes none, the program may be there to check the
// configuration only; run() of the proxy reports that.
void check_inherited(const Value& value, const std::string& name) {
    const auto listed = value.context().environment("LISTEN_FDNAMES");
    if (!listed) return;
    std::string shown;
    for (std::string_view rest = *listed; !rest.empty();) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        const std::string_view one = rest.substr(0, end);
        if (one == name) return;
        shown += (shown.empty() ? "" : ", ") + quote(one);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    value.fault("systemd passes no socket of the name " + quote(name) + ", but " + shown +
                ": write one of these, or `FileDescriptorName=" + name + "` in the .socket unit");
}

std::optional<Address> read_listener_address(const Value& value) {
    auto address = value.parsed("an address such as `8080` or `127.0.0.1:8080`, or `systemd:NAME`",
                                parse_listener);
    if (address && !resolve_socket(value, *address)) return std::nullopt;
    if (address && address->is_inherited()) check_inherited(value, address->inherited);
    return address;
}

std::optional<Address> read_address(const Value& value) {
    auto address =
        value.parsed("an address such as `8080` or `127.0.0.1:8080`", parse_listen_address);
    if (address && !resolve_socket(value, *address)) return std::nullopt;
    return address;
}

std::string named(const Address& address) {
    return quote(address.to_string()) +
           (address.host == kEveryAddress ? " (every address of the machine)" : "");
}

bool is_pair(const Address& one, const Address& other) {
    return one.port == other.port && one.host == kEveryAddress && other.host == kEveryIpv4;
}

// Whether one has every IPv4 address and the other one's socket works without them.
bool can_share(const Address& one, const Address& other) {
    return is_pair(one, other) || is_pair(other, one);
}

// Why nothing more can listen at `address`: the kernel would refuse it, or share one address,
// silently, between two listeners. `sharing`: one of a pair that can share is no objection. Empty:
// it is free.
std::string objection_to(const Address& address, const Config& config, bool sharing) {
    for (const Listen& other : config.listen) {
        if (!address.overlaps(other.address)) continue;
        if (sharing && can_share(address, other.address)) continue;
        if (address == other.address) return named(address) + " is in `listen` already";
        return named(address) + " and " + named(other.address) +
               ", which is in `listen` already, share addresses";
    }
    return {};
}

void read_half_close(Section& section, Listen& listen) {
    section.toggle("half_close", listen.half_close);
    if (!listen.half_close || listen.takes_http1) return;
    section.find("half_close")
        ->fault(
            "only where `http` has `http1`: over HTTP/2 a client ends a request with END_STREAM, "
            "and waits for the answer in any case");
}

Result<unsigned, std::string> parse_mode(std::string_view text) {
    const std::string_view digits = text.size() == 4 && text.front() == '0' ? text.substr(1) : text;
    unsigned mode = 0;
    for (const char c : digits) {
        if (c < '0' || c > '7' || digits.size() != 3) {
            return ErrorMessage{quote(text) +
                                " is not a mode such as `0660`: write an octal digit each for the "
                                "owner, the group and all others"};
        }
        mode = mode * 8 + static_cast<unsigned>(c - '0');
    }
    return mode;
}

// `mode` and `group`.
void read_socket_file(Section& section, const std::optional<Address>& address, SocketFile& file) {
    const auto mode = section.find("mode");
    const auto group = section.find("group");
    if (mode) {
        file.mode = mode->parsed("a mode such as `\"0660\"`", parse_mode);
    }
    if (group) file.group = group->text("a group such as `www-data`, or its number").value_or("");
    if (!address || address->is_unix()) {
        if (!file.group.empty() && !find_group(file.group)) {
            group->fault("there is no group " + quote(file.group) + " on this system");
        }
        return;
    }
    for (const auto& [value, setting] : {std::pair(mode, "SocketMode="), {group, "SocketGroup="}}) {
        if (!value) continue;
        value->fault(address->is_inherited()
                         ? "systemd opens this socket: write " + quote(setting) +
                               " in its .socket unit"
                         : std::string("only a Unix socket has a file with permissions: remove "
                                       "this"));
    }
}

// By the positions of their listeners.
using Redirects = std::vector<std::pair<std::size_t, Value>>;

void read_listener(const Value& value, Config& config, Redirects& redirects) {
    Listen listen;
    std::optional<Address> address;
    std::optional<Value> redirect;
    if (value.is_map()) {
        Section section(value);
        if (const auto at = section.need("address", "`address: 8080`")) {
            address = read_listener_address(*at);
        }
        read_socket_file(section, address, listen.socket_file);
        section.toggle("trusted", listen.trusted);
        if (address && listen.trusted && !address->is_unix() && !address->is_inherited()) {
            section.find("trusted")->fault(
                "only a Unix socket can be `trusted`; list proxies that connect over TCP in "
                "identity.client_ip.trusted_proxies");
        }
        read_balancer(section, address, listen);
        read_face(section, address, listen);
        redirect = read_listener_tls(section, address, listen);
        read_half_close(section, listen);
        section.refuse_others();
    } else {
        address = read_listener_address(value);
    }
    if (!address) return;
    const std::string objection = objection_to(*address, config, true);
    if (!objection.empty()) {
        value.fault(objection + ": keep one of them");
        return;
    }
    for (Listen& other : config.listen) {
        if (!can_share(*address, other.address)) continue;
        (address->host == kEveryAddress ? listen : other).ipv6_only = true;
    }
    listen.address = std::move(*address);
    if (redirect) redirects.emplace_back(config.listen.size(), *redirect);
    config.listen.push_back(std::move(listen));
}

}  // namespace

std::optional<std::uint32_t> find_group(const std::string& group) {
    if (std::all_of(group.begin(), group.end(), is_digit)) {
        const auto number = parse_number<gid_t>(group);
        // The largest one means "leave it" to chown().
        return number == std::numeric_limits<gid_t>::max() ? std::nullopt : number;
    }
    constexpr std::size_t kBytes = 65'536;  // of its members' names
    std::vector<char> memory(kBytes);
    struct group entry {};
    struct group* found = nullptr;
    const FileWait wait("/etc/group");
    ::getgrnam_r(group.c_str(), &entry, memory.data(), memory.size(), &found);
    return found == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry.gr_gid);
}

bool resolve_socket(const Value& value, Address& address) {
    if (!address.is_unix()) return true;
    address.unix_path = value.context().resolve(address.unix_path, value.place());
    if (address.unix_path.size() <= kUnixPathBytesMax) return true;
    value.fault(quote(address.unix_path) + " is too long for a Unix socket: at most " +
                std::to_string(kUnixPathBytesMax) + " bytes");
    return false;
}

void read_listen(const Value& value, Config& config) {
    constexpr ListRule kListeners{"an address or a list of addresses", "addresses", 64,
                                  "the list is empty: clients need an address to connect to"};
    Redirects redirects;
    for (const Value& listener : value.one_or_more(kListeners)) {
        read_listener(listener, config, redirects);
    }
    for (const auto& [position, redirect] : redirects) {
        settle_redirect(redirect, config, config.listen[position]);
    }
}

// Compared with the value of a field of HTTP, which has no controls and neither begins nor ends
// with spaces.
std::optional<std::string> read_bearer_token(const Value& value) {
    std::optional<std::string> token = value.secret();
    if (!token) return token;
    const bool is_sendable = token->front() != ' ' && token->back() != ' ' &&
                             std::none_of(token->begin(), token->end(), [](char c) {
                                 return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
                             });
    if (is_sendable) return token;
    value.fault(
        "a token must not begin or end with a space or contain control characters: no client can "
        "send them");
    return std::nullopt;
}

Admin default_admin() {
    Admin admin;
    admin.address = {"127.0.0.1", kDefaultAdminPort, ""};
    return admin;
}

void read_admin(const Value& value, Config& config) {
    config.admin.reset();
    if (value.is_off()) return;
    Admin admin;
    std::optional<Address> address;
    if (value.is_map()) {
        Section section(value);
        if (const auto at = section.need("address", "`address: 127.0.0.1:9901`")) {
            address = read_address(*at);
        }
        read_socket_file(section, address, admin.socket_file);
        if (const auto token = section.find("token")) {
            if (auto text = read_bearer_token(*token)) admin.token = std::move(*text);
        }
        section.refuse_others();
    } else {
        address = read_address(value);
    }
    if (!address) return;
    if (const std::string objection = objection_to(*address, config, false); !objection.empty()) {
        value.fault(objection + ": choose another address");
        return;
    }
    admin.address = std::move(*address);
    config.admin = std::move(admin);
}

}  // namespace tidegate::config
