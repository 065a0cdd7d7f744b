// The kind of a listener: `face` and what belongs to it.
#include <algorithm>
#include <utility>
#include <vector>

#include "base/quote.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

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

void read_from(const Value& value, Listen& listen) {
    constexpr ListRule kNetworks{"a network or a list of networks", "networks", 10'000,
                                 "the list is empty: no gateway could ask"};
    std::vector<IpNetwork> from;
    for (const Value& item : value.one_or_more(kNetworks)) {
        if (const auto network = read_network(item)) from.push_back(*network);
    }
    listen.from = IpNetworks(std::move(from));
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

}  // namespace

bool Listen::admits(const std::optional<IpAddress>& peer) const {
    if (!peer) return true;
    if (from.empty()) return !token.empty() || is_loopback(*peer);
    return from.contains(*peer);
}

bool Config::has_face(Face face) const {
    return std::any_of(listen.begin(), listen.end(),
                       [face](const Listen& one) { return one.face == face; });
}

void read_face(Section& section, const std::optional<Address>& address, Listen& listen) {
    section.choice("face", listen.face,
                   {{"proxy", Face::proxy},
                    {"forward_auth", Face::forward_auth},
                    {"check", Face::check},
                    {"envoy_grpc", Face::envoy_grpc}});
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
    if (from) read_from(*from, listen);
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
        section.choice("dialect", listen.dialect,
                       {{"nginx", Dialect::nginx},
                        {"ingress-nginx", Dialect::ingress_nginx},
                        {"forwarded", Dialect::forwarded},
                        {"envoy", Dialect::envoy}});
    }
    if (prefix) read_path_prefix(*prefix, listen);
    if (prefix && listen.dialect != Dialect::envoy) {
        prefix->fault("only with `dialect: envoy`: other gateways send the path in a field");
    }
    if (address) check_reach(section, from, listen, *address);
}

void read_check(const Value& value, Config& config) {
    constexpr std::size_t kSecretBytesMin = 16;
    Section section(value, "a map: `{secret: file:check.secret}`");
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

// Neither a gateway nor a client of the check API says how a request ended.
void check_faces(const Config& config, const Declared& declared, Context& context) {
    constexpr Face kAsked[] = {Face::forward_auth, Face::check, Face::envoy_grpc};
    const auto* const found_face = std::find_if(std::begin(kAsked), std::end(kAsked),
                                                [&](Face one) { return config.has_face(one); });
    if (found_face == std::end(kAsked)) return;
    const std::string face(to_string(*found_face));
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        for (const Policy* policy : config.routes[i].policies) {
            const auto needs_end = [](const limit::Limit& limit) { return limit.settles(); };
            const bool found =
                std::any_of(policy->limits.begin(), policy->limits.end(), needs_end) ||
                std::any_of(policy->tiers.begin(), policy->tiers.end(), [&](const auto& tier) {
                    return std::any_of(tier.limits.begin(), tier.limits.end(), needs_end);
                });
            if (!found) continue;
            context.faults.push_back(
                {i < declared.routes.size() ? declared.routes[i] : Place{1, 1},
                 "the policy " + quote(policy->name) +
                     " has a limit of concurrency, a leaky bucket or `count` by status, and a "
                     "listener has `face: " +
                     face +
                     "`: who asks there does not say when or how a "
                     "request ends, so Tidegate could give nothing back. Use another algorithm, "
                     "or a Tidegate of its own for this route"});
        }
    }
}

}  // namespace tidegate::config
