// `identity` and `forwarding`.
#include <algorithm>

#include "base/quote.hpp"
#include "config/field_text.hpp"
#include "config/sections.hpp"

namespace tidegate::config {

namespace {

using identity::ClientIpSettings;

constexpr std::size_t kNetworksMax = 10'000;
constexpr std::size_t kPrefixesMax = 8;

void read_trusted_proxies(const Value& value, ClientIpSettings& client_ip) {
    const auto networks = value.one_or_more("a network or a list of networks");
    if (networks.size() > kNetworksMax) {
        value.fault("more than " + std::to_string(kNetworksMax) + " networks");
        return;
    }
    for (const Value& item : networks) {
        const auto text = item.text("a network such as `10.0.0.0/8`");
        if (!text) continue;
        const auto network = parse_network(*text);
        if (!network) {
            item.fault(quote(*text) +
                       " is not an address or a network such as `10.0.0.0/8` or "
                       "`2001:db8::/32` (bits after the prefix are zero)");
            continue;
        }
        if (network->prefix == 0) {
            item.warn("everybody is trusted: any client may claim any address");
        }
        client_ip.trusted_proxies.push_back(*network);
    }
}

void read_source(const Value& value, ClientIpSettings& client_ip) {
    const auto name = read_field_name(value);
    if (!name) return;
    if (*name == "x-forwarded-for") {
        client_ip.source = ClientIpSettings::Source::x_forwarded_for;
    } else if (*name == "forwarded") {
        client_ip.source = ClientIpSettings::Source::forwarded;
    } else {
        client_ip.source = ClientIpSettings::Source::single;
        client_ip.single_field = *name;
    }
}

void read_prefixes(const Value& value, ClientIpSettings& client_ip) {
    std::vector<int> prefixes;
    for (const Value& item : value.one_or_more("a prefix length or a list of them")) {
        const auto prefix = item.integer({1, 128});
        if (!prefix) continue;
        if (std::find(prefixes.begin(), prefixes.end(), *prefix) != prefixes.end()) {
            item.fault(std::to_string(*prefix) + " is there already");
            continue;
        }
        prefixes.push_back(static_cast<int>(*prefix));
    }
    if (prefixes.size() > kPrefixesMax) {
        value.fault("more than " + std::to_string(kPrefixesMax) + " prefix lengths");
        return;
    }
    if (value.is_sequence() && prefixes.empty())
        value.fault("at least one prefix length is needed");
    if (!prefixes.empty()) client_ip.ipv6_prefixes = std::move(prefixes);
}

bool trusts_anybody(const Config& config) {
    return !config.client_ip.trusted_proxies.empty() ||
           std::any_of(config.listen.begin(), config.listen.end(),
                       [](const Listen& listen) { return listen.trusted; });
}

void read_client_ip(const Value& value, Config& config) {
    ClientIpSettings& client_ip = config.client_ip;
    Section section(value);
    if (const auto proxies = section.find("trusted_proxies")) {
        read_trusted_proxies(*proxies, client_ip);
    }
    if (const auto header = section.find("header")) {
        read_source(*header, client_ip);
        if (!trusts_anybody(config)) header->warn("never believed: there are no trusted_proxies");
    }
    if (const auto prefix = section.find("ipv6_prefix")) read_prefixes(*prefix, client_ip);
    section.refuse_others();
}

void read_user_header(const Value& value, Config& config) {
    Section section(value, "a map: `header: {name: x-user-id, from: trusted_proxies}`");
    std::optional<std::string> field;
    if (const auto name = section.need("name", "`name: x-user-id`")) field = read_field_name(*name);
    if (const auto from = section.find("from")) {
        from->choice<bool>({{"trusted_proxies", true}});
    }
    section.refuse_others();
    if (!field) return;
    const auto same = [&](const identity::UserHeader& other) { return other.name == *field; };
    if (std::any_of(config.user.begin(), config.user.end(), same)) {
        section.value().fault(quote(*field) + " is tried already");
        return;
    }
    config.user.push_back({std::move(*field)});
}

void read_user(const Value& value, Config& config) {
    constexpr std::size_t kMethodsMax = 16;
    const auto methods =
        value.items("a list: `- header: {name: x-user-id, from: trusted_proxies}`");
    if (methods.size() > kMethodsMax) {
        value.fault("more than " + std::to_string(kMethodsMax) + " ways to name a user");
        return;
    }
    for (const Value& item : methods) {
        Section method(item, "a map: `header: {name: x-user-id, from: trusted_proxies}`");
        const auto header = method.find("header");
        method.not_available({"jwt", "api_key", "basic", "client_certificate", "cookie"});
        method.refuse_others();
        if (header) read_user_header(*header, config);
    }
    if (!config.user.empty() && !trusts_anybody(config)) {
        value.warn(
            "never believed: nobody is trusted to name a user, see "
            "identity.client_ip.trusted_proxies");
    }
}

}  // namespace

void read_identity(const Value& value, Config& config, Declared& declared) {
    Section section(value);
    if (const auto client_ip = section.find("client_ip")) {
        read_client_ip(*client_ip, config);
    }
    if (const auto user = section.find("user")) read_user(*user, config);
    if (const auto users = section.find("users")) read_users(*users, config, declared);
    section.not_available({"on_invalid_credentials", "failed_credentials", "forward_as"});
    section.refuse_others();
}

void read_forwarding(const Value& value, Config& config) {
    Section section(value);
    section.toggle("x_forwarded", config.forwarding.x_forwarded);
    section.toggle("forwarded", config.forwarding.forwarded);
    section.toggle("via", config.forwarding.via);
    section.choice<bool>("host", config.forwarding.preserve_host,
                         {{"preserve", true}, {"upstream", false}});
    section.refuse_others();
}

}  // namespace tidegate::config
