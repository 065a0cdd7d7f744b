// `listen`, `check` and `admin`: addresses, what a balancer in front says, and how Tidegate is
// asked.
#include <grp.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "base/file_work.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::uint16_t kDefaultAdminPort = 9901;
constexpr std::string_view kEveryIpv4 = "0.0.0.0";
constexpr const char* kModeSchema = R"({"type":"string","pattern":"^0?[0-7]{3}$|\\$\\{"})";

// A socket that systemd does not pass. Where it passes none, the program may be there to check the
// configuration only; run() of the proxy reports that.
void check_inherited(const Value& value, const std::string& name) {
    const auto listed = value.context().environment("LISTEN_FDNAMES");
    if (!listed) return;
    std::string shown;
    for (std::string_view rest = *listed; !rest.empty();) {
        const std::string_view one = take_until(rest, ':');
        if (one == name) return;
        shown += (shown.empty() ? "" : ", ") + quote(one);
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

void check_half_close(Section& section, const Listen& listen) {
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

const Rows& proxy_protocol_keys() {
    static const auto keys =
        Rows().key("from", kind::one_or_more(kind::type("network"), {1, 10'000}),
                   {"the networks of the balancers that send it; Tidegate "
                    "closes connections of other peers",
                    "required", "1 to 10,000 networks; not for a Unix socket"});
    return keys;
}

constexpr std::string_view kNoSenders =
    "the networks of your balancers are missing: write `proxy_protocol: {from: [10.0.0.0/8]}`. "
    "Tidegate closes connections from any other address";

void read_protocol(const Value& value, bool is_unix, Listen& listen) {
    ProxyProtocol proxy_protocol;
    if (value.is_map()) {
        Section section(value, proxy_protocol_keys());
        const auto from = section.find("from");
        if (from && is_unix) {
            from->fault(
                "peers of a Unix socket have no address: write `proxy_protocol: on`, and let the "
                "file permissions of the socket admit only your balancer");
        } else if (from) {
            proxy_protocol.from = read_networks(
                *from, "the list is empty: Tidegate would close every connection",
                "this network contains every address, so any machine that can connect may claim "
                "any address: list the networks of your balancers");
        }
        section.refuse_others();
        if (!from && !is_unix) value.fault(std::string(kNoSenders));
    } else if (value.is_off() || (is_unix && !value.toggle())) {
        return;
    } else if (!is_unix) {
        return value.fault(std::string(kNoSenders));
    }
    listen.proxy_protocol = std::move(proxy_protocol);
}

bool is_loopback(const IpAddress& ip) {
    constexpr std::uint8_t kLoopbackNet = 127;
    if (ip.v4) return ip.bytes[0] == kLoopbackNet;
    return std::all_of(ip.bytes.begin(), ip.bytes.end() - 1, [](auto byte) { return byte == 0; }) &&
           ip.bytes.back() == 1;
}

void read_path_prefix(const Value& value, Listen& listen) {
    auto prefix = value.text("a path such as `/check`");
    if (!prefix) return;
    if (!prefix->starts_with('/') || prefix->ends_with('/')) {
        value.fault(quote(*prefix) +
                    " must begin with `/` and end without it, as `path_prefix` of Envoy: `/check`");
        return;
    }
    listen.path_prefix = std::move(*prefix);
}

bool others_can_connect(const Address& address) {
    if (address.is_unix()) return false;
    const auto ip = parse_scoped_ip(address.host);
    return !ip || !is_loopback(*ip);
}

// A `from` that lists every network admits every machine, but a token keeps others out.
void warn_about_strangers(const Value& from, const Listen& listen) {
    const auto is_everyone = [](const IpNetwork& network) { return network.prefix == 0; };
    const auto everyone = std::find_if(listen.from.begin(), listen.from.end(), is_everyone);
    if (everyone == listen.from.end() || !listen.token.empty()) return;
    const std::string shown = quote(everyone->address.to_string() + "/0");
    if (listen.face == Face::check) {
        from.warn(shown +
                  " lets every machine that can connect spend any client's units: list the "
                  "networks of the programs that ask, or add `token: file:check.token`");
    } else {
        from.warn(shown +
                  " lets every machine that can connect ask, and a question can name any client: "
                  "list the networks of your gateways, such as `10.0.0.0/8`");
    }
}

// A peer that reaches such a listener speaks for every client.
void check_reach(const Section& section, const std::optional<Value>& from, const Listen& listen,
                 const Address& address) {
    // A balancer on this machine forwards requests of others.
    if (!others_can_connect(address) && !listen.proxy_protocol) return;
    if (from) warn_about_strangers(*from, listen);
    if (!listen.from.empty() || !listen.token.empty()) return;
    if (listen.face == Face::check) {
        section.value().fault(
            "who may ask here? A call can spend anybody's units, and this address can be reached "
            "from other machines: add `token: file:check.token`, or `from: [10.0.0.0/8]` with the "
            "networks of those who ask, or listen on 127.0.0.1");
        return;
    }
    section.value().fault(
        "who may ask here? A gateway's question can name any client, and this address can be "
        "reached from other machines: add `from: [10.0.0.0/8]` with the networks of your "
        "gateways, or listen on 127.0.0.1");
}

void read_face(Section& section, const std::optional<Address>& address, Listen& listen) {
    const auto dialect = section.find("dialect");
    const auto prefix = section.find("path_prefix");
    const auto from = section.find("from");
    const auto token = section.find("token");
    const auto refuse = [](const std::optional<Value>& value, const char* why) {
        if (value) value->fault(why);
    };
    if (listen.face != Face::check) refuse(token, "only with `face: check`");
    if (listen.face != Face::proxy) {
        refuse(section.find("forwarded_proto"),
               "only with `face: proxy`: no request is forwarded from here");
    }
    if (listen.face == Face::proxy) {
        for (const auto& value : {dialect, prefix, from}) {
            refuse(value, "only with `face: forward_auth`: clients ask a proxy themselves");
        }
        return;
    }
    if (from) {
        listen.from = read_networks(*from, "the list is empty: no gateway could ask");
    }
    if (listen.face == Face::check) {
        refuse(dialect, "only with `face: forward_auth`");
        refuse(prefix, "only with `face: forward_auth`");
        if (token) listen.token = read_bearer_token(*token).value_or("");
        if (address) check_reach(section, from, listen, *address);
        return;
    }
    if (listen.face == Face::envoy_grpc) {
        refuse(dialect, "only with `face: forward_auth`");
        refuse(prefix, "only with `face: forward_auth`");
        if (address) check_reach(section, from, listen, *address);
        return;
    }
    if (section.need("dialect",
                     "`dialect: nginx` (auth_request), `ingress-nginx` (auth-url), `forwarded` "
                     "(Traefik, Caddy) or `envoy` (ext_authz over HTTP)")) {
        const auto chosen = dialect->choice<Dialect>({{"nginx", Dialect::nginx},
                                                      {"ingress-nginx", Dialect::ingress_nginx},
                                                      {"forwarded", Dialect::forwarded},
                                                      {"envoy", Dialect::envoy}});
        listen.dialect = chosen.value_or(listen.dialect);
    }
    if (prefix) read_path_prefix(*prefix, listen);
    if (prefix && listen.dialect != Dialect::envoy) {
        prefix->fault("only with `dialect: envoy`: other gateways send the path in a field");
    }
    if (address) check_reach(section, from, listen, *address);
}

// What a reload cannot change of a listener. New certificates and all else of `tls`, `http` and
// `half_close` are for connections that clients open from then on; a redirect's port is for the
// next request. The file of a Unix socket gets its permissions when the configuration is put in
// force.
Listen lasting(Listen listen) {
    if (listen.tls) listen.is_https = false;  // the row of `tls` says whether it is on
    listen.tls.reset();
    listen.takes_http1 = listen.takes_http2 = true;
    listen.half_close = false;
    listen.hsts = {};
    listen.redirect_port = {};
    listen.socket_file = {};
    return listen;
}

std::string why_listeners_need_restart(const ConfigChange& change) {
    if (!why_tls_needs_restart(change).empty()) return {};  // that is said already
    const auto& running = change.running.listen;
    const auto& next = change.next.listen;
    const bool is_same = std::is_permutation(
        running.begin(), running.end(), next.begin(), next.end(),
        [](const Listen& one, const Listen& other) { return lasting(one) == lasting(other); });
    return is_same ? "" : "`listen` cannot change";
}

std::string why_admin_needs_restart(const ConfigChange& change) {
    const auto address = [](const Config& config) {
        return config.admin ? std::optional(config.admin->address) : std::nullopt;
    };
    const bool is_same = address(change.running) == address(change.next);
    return is_same ? "" : "the address of `admin` cannot change";
}

// By the positions of their listeners.
using Redirects = std::vector<std::pair<std::size_t, Value>>;

void read_listener(const Value& value, Config& config, Redirects& redirects) {
    Listen listen;
    std::optional<Address> address;
    std::optional<Value> redirect;
    if (value.is_map()) {
        Section section = listener_keys().read(value, listen);
        if (const auto at = section.need("address")) address = read_listener_address(*at);
        read_socket_file(section, address, listen.socket_file);
        if (address && listen.trusted && !address->is_unix() && !address->is_inherited()) {
            section.find("trusted")->fault(
                "only a Unix socket can be `trusted`; list proxies that connect over TCP in "
                "identity.client_ip.trusted_proxies");
        }
        if (const auto protocol = section.find("proxy_protocol")) {
            read_protocol(*protocol, address && address->is_unix(), listen);
        }
        read_face(section, address, listen);
        redirect = read_listener_tls(section, address, listen);
        check_half_close(section, listen);
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

const Keys<Listen>& listener_keys() {
    static const auto keys =
        Keys<Listen>()
            .key("address",
                 kind::any({kind::type("listen_address"), kind::type("inherited_socket")}),
                 {"`8080` or `:8080` (IPv6 and IPv4), `127.0.0.1:8080`, `[::1]:8080`, "
                  "`unix:/path`; or `systemd:NAME`",
                  "required"})
            .required("`address: 8080`")
            .restart(why_listeners_need_restart)
            .key("mode", kind::written(kModeSchema),
                 {"of a Unix socket: the permissions of its file, such as `\"0660\"`; a program "
                  "that may write to the file may connect",
                  "what the umask leaves", "three octal digits"})
            .live(Live::next_request)
            .key("group", kind::type("text"),
                 {"of a Unix socket: the group of its file, a name or a number",
                  "that of the process", "one that the process may give"})
            .live(Live::next_request)
            .toggle("trusted", &Listen::trusted,
                    {"for a Unix socket: believe its peers about their clients"})
            .key("proxy_protocol", kind::any({kind::toggle(), kind::map(proxy_protocol_keys())}),
                 {"each connection begins with a [PROXY "
                  "header](#behind-a-balancer-that-does-not-speak-http), version 1 or 2: `{from}`, "
                  "`on` for a Unix socket, or `off`",
                  "`off`"})
            .word<bool>(
                "forwarded_proto", &Listen::is_https, {{"http", false}, {"https", true}},
                {"what clients speak to the balancer in front, `http` or `https`: Tidegate tells "
                 "upstreams so in `X-Forwarded-Proto` and `Forwarded`",
                 "`http`", "only of `proxy`, without `tls`"})
            .word<Face>(
                "face", &Listen::face,
                {{"proxy", Face::proxy},
                 {"forward_auth", Face::forward_auth},
                 {"check", Face::check},
                 {"envoy_grpc", Face::envoy_grpc}},
                {"how Tidegate is asked: `proxy` forwards requests, `forward_auth` answers the "
                 "[questions of a gateway](faces.md), `check` those of [programs](check-api.md), "
                 "`envoy_grpc` those of [Envoy by gRPC](envoy-grpc.md)"})
            .key(
                "dialect", kind::word({"nginx", "ingress-nginx", "forwarded", "envoy"}),
                {"of `forward_auth`: [how the gateway says](faces.md#the-dialects) which request "
                 "it asks about, `nginx`, `ingress-nginx`, `forwarded` (Traefik, Caddy) or `envoy`",
                 "required"})
            .key("path_prefix", kind::type("path"),
                 {"of `dialect: envoy`: what Envoy puts before each path, as its `path_prefix`",
                  "none", "begins with `/`, ends without it"})
            .key("from", kind::one_or_more(kind::type("network"), {1, 10'000}),
                 {"of `forward_auth`, `check` and `envoy_grpc`: the networks of [those who may "
                  "ask](faces.md#who-may-ask)",
                  "this machine",
                  "1 to 10,000 networks; required where other machines can connect, or `token`"})
            .key("token", kind::secret(),
                 {"of `check`: what every call must bring", "none",
                  "no space at its ends, no controls"})
            .key("tls", kind::off_or(kind::map(listener_tls_keys())),
                 {"clients speak [TLS with Tidegate](#tls-of-a-listener): a map of the keys below, "
                  "or `off`. Turning it on or off needs a restart, all else is for new connections",
                  "`off`", "not for a Unix socket"})
            .restart(why_tls_needs_restart)
            .live(Live::next_connection)
            .key("redirect", redirect_kind(),
                 {"`https`: Tidegate answers each request with [a redirect to "
                  "https](#from-http-to-https); or `{to, port}`",
                  "none", "only of `proxy`, without `tls`"})
            .key("http", kind::one_or_more(kind::word({"h2", "http1"}), {1, 0}),
                 {"[which versions of HTTP](#http2-of-a-listener) clients may speak: `h2`, `http1` "
                  "(1.1 and 1.0) or a list of both; `http1` alone turns HTTP/2 off",
                  "`[h2, http1]` with `tls`, else `[http1]`; of `envoy_grpc` `[h2]`",
                  "at least one"})
            .live(Live::next_connection)
            .toggle("half_close", &Listen::half_close,
                    {"`on`: a client of HTTP/1 that closes only its sending side still gets its "
                     "answers. `off`: it [has left](timeouts.md#clients-that-leave)",
                     "`off`", "only where `http` has `http1`"})
            .live(Live::next_connection);
    return keys;
}

const Rows& admin_keys() {
    static const auto keys =
        Rows()
            .key("address", kind::type("listen_address"),
                 {"`127.0.0.1:9901`, or `unix:/path`", "required"})
            .required("`address: 127.0.0.1:9901`")
            .restart(why_admin_needs_restart)
            .key("mode", kind::written(kModeSchema),
                 {"of a Unix socket: the permissions of its file, such as `\"0660\"`",
                  "what the umask leaves", "three octal digits"})
            .live(Live::next_request)
            .key("group", kind::type("text"),
                 {"of a Unix socket: the group of its file, a name or a number",
                  "that of the process", "one that the process may give"})
            .live(Live::next_request)
            .key("token", kind::secret(),
                 {"what every request but metrics and health must bring",
                  "none: only this machine may ask", "no space at its ends, no controls"})
            .live(Live::next_request);
    return keys;
}

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

IpNetworks read_networks(const Value& value, std::string_view if_empty,
                         const std::string& about_every) {
    const ListRule networks{"a network or a list of networks", "networks", 10'000, if_empty};
    std::vector<IpNetwork> read;
    for (const Value& item : value.one_or_more(networks)) {
        const auto network = read_network(item);
        if (!network) continue;
        if (network->prefix == 0 && !about_every.empty()) item.warn(about_every);
        read.push_back(*network);
    }
    return IpNetworks(std::move(read));
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
        Section section(value, admin_keys());
        if (const auto at = section.need("address")) {
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

bool ProxyProtocol::admits(const std::optional<IpAddress>& peer) const {
    return !peer || from.contains(*peer);
}

bool Listen::admits(const std::optional<IpAddress>& peer) const {
    if (!peer) return true;
    if (from.empty()) return !token.empty() || is_loopback(*peer);
    return from.contains(*peer);
}

bool Config::has_face(Face face) const {
    return std::any_of(listen.begin(), listen.end(),
                       [face](const Listen& one) { return one.face == face; });
}

bool Config::has_shares() const {
    return std::holds_alternative<RedisSettings>(store) &&
           std::any_of(policies.begin(), policies.end(), [](const auto& policy) {
               return policy->on_store_failure == limit::OnStoreFailure::local;
           });
}

const Rows& check_keys() {
    static const auto keys = Rows("a map: `{secret: file:check.secret}`")
                                 .key("secret", kind::secret(),
                                      {"with which [reservations](check-api.md#reserve-and-settle) "
                                       "are sealed; the same for all replicas",
                                       "drawn at the start", "at least 16 bytes"})
                                 .restart([](const ConfigChange& change) -> std::string {
                                     const bool is_same =
                                         change.running.check_secret == change.next.check_secret;
                                     return is_same ? "" : "`check.secret` cannot change";
                                 });
    return keys;
}

void read_check(const Value& value, Config& config) {
    constexpr std::size_t kSecretBytesMin = 16;
    Section section(value, check_keys());
    if (const auto secret = section.find("secret")) {
        auto text = secret->secret();
        if (text && text->size() < kSecretBytesMin) {
            secret->fault("a secret has at least 16 bytes: write one with `openssl rand -hex 32`");
        } else if (text) {
            config.check_secret = std::move(*text);
        }
    }
    section.refuse_others();
    if (!config.has_face(Face::check)) {
        value.fault("has no effect: no listener has `face: check`");
    }
}

namespace {

// Why requests that are asked about at `face` cannot meet the policy. Empty: they can.
std::string fault_at_face(const PolicySettings& policy, Face face) {
    const std::string of_face = "a listener has `face: " + std::string(to_string(face)) + "`: ";
    // The check API refuses only the calls that meet such a limit.
    const auto settles = [](const limit::Limit& limit) { return limit.settles(); };
    if (face != Face::check && limit::find_limit(policy, settles) != nullptr) {
        return "has a limit of concurrency, a leaky bucket or `count` by status, and " + of_face +
               "the caller does not say when or how a request ends, so Tidegate could give "
               "nothing back. Use another algorithm, or a Tidegate of its own for this route";
    }
    if (needs_body(policy)) {
        return "has a key or a cost that needs the body of a request, and " + of_face +
               "Tidegate gets no bodies there. Use another key, a fixed `reserve` in units, or a "
               "Tidegate of its own for this route";
    }
    // Programs that use the check API can settle what they have reserved.
    if (face != Face::check && policy.cost != nullptr && policy.cost->settles()) {
        return "has a cost that the answer settles, and " + of_face +
               "Tidegate sees no answers there. Remove `settle`, or use a Tidegate of its own for "
               "this route";
    }
    return {};
}

}  // namespace

// Neither a gateway nor a client of the check API says how a request ended, or has its body.
void check_faces(const Config& config, const Declared& declared, Context& context) {
    constexpr Face kAsked[] = {Face::forward_auth, Face::check, Face::envoy_grpc};
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        for (const PolicySettings* policy : config.routes[i].policies) {
            std::string fault;
            for (const Face face : kAsked) {
                if (fault.empty() && config.has_face(face)) fault = fault_at_face(*policy, face);
            }
            if (fault.empty()) continue;
            context.faults.push_back({i < declared.routes.size() ? declared.routes[i] : Place{1, 1},
                                      "the policy " + quote(policy->name) + " " + fault});
        }
    }
}

}  // namespace tidegate::config
