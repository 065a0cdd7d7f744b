// `identity` and `forwarding`.
#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "identity/identifier.hpp"

namespace tidegate::config {

std::optional<IpNetwork> read_network(const Value& value) {
    const auto text = value.text("a network such as `10.0.0.0/8`");
    if (!text) return std::nullopt;
    auto network = parse_network(*text);
    if (!network) {
        const std::string advice = advice_about_network(*text);
        value.fault(quote(*text) + (advice.empty()
                                        ? " is not an address or a network such as `10.0.0.0/8` or "
                                          "`2001:db8::/32`"
                                        : " is not a network: " + advice));
    }
    return network;
}

namespace {

using identity::ClientIpSettings;

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

// `bits`: that an address has.
void read_prefixes(const Value& value, std::int64_t bits, std::vector<int>& out) {
    constexpr ListRule kPrefixes{"a prefix length or a list of them", "prefix lengths", 8,
                                 "at least one prefix length is needed"};
    std::vector<int> prefixes;
    for (const Value& item : value.one_or_more(kPrefixes)) {
        const auto prefix = item.integer({1, bits});
        if (prefix) add_once(item, std::to_string(*prefix), static_cast<int>(*prefix), prefixes);
    }
    if (!prefixes.empty()) out = std::move(prefixes);
}

const Rows& client_ip_keys() {
    static const auto keys =
        Rows()
            .key("trusted_proxies", kind::one_or_more(kind::type("network"), {0, 10'000}),
                 {"networks whose forwarding fields are believed", "none", "10,000 networks"})
            .key("header", kind::type("field_name"),
                 {"`x-forwarded-for`, `forwarded`, or a field with one address",
                  "`x-forwarded-for`"})
            .idle_unless(has_trusted_peers,
                         "Tidegate reads this field from `trusted_proxies` only, and there are "
                         "none")
            .key("ipv4_prefix", kind::one_or_more(kind::integer({1, 32}), {1, 8}),
                 {"what counts as one IPv4 client, such as `24`; a list counts each", "`32`",
                  "1 to 32, at most 8 of them"})
            .key("ipv6_prefix", kind::one_or_more(kind::integer({1, 128}), {1, 8}),
                 {"what counts as one IPv6 client; a list counts each", "`64`",
                  "1 to 128, at most 8 of them"});
    return keys;
}

void read_client_ip(const Value& value, Config& config) {
    ClientIpSettings& client_ip = config.client_ip;
    Section section(value, client_ip_keys());
    if (const auto proxies = section.find("trusted_proxies")) {
        client_ip.trusted_proxies = read_networks(
            *proxies, {},
            "this network contains every address, so any client may claim any address: list the "
            "addresses of your proxies");
    }
    if (const auto header = section.find("header")) read_source(*header, client_ip);
    if (const auto prefix = section.find("ipv4_prefix")) {
        read_prefixes(*prefix, 32, client_ip.prefixes.ipv4);
    }
    if (const auto prefix = section.find("ipv6_prefix")) {
        read_prefixes(*prefix, 128, client_ip.prefixes.ipv6);
    }
    section.refuse_others();
}

void limit_failed_credentials(std::vector<limit::Limit> limits, limit::OnStoreFailure on_failure,
                              Config& config) {
    PolicySettings policy;
    policy.name = kFailedCredentials;
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.limits = std::move(limits);
    policy.on_store_failure = on_failure;
    config.failed_credentials = config.policies[add_policy(std::move(policy), config)].get();
}

void read_failed_credentials(const Value& value, Config& config) {
    if (value.is_off()) return;
    const std::size_t faults_before = value.context().faults.size();
    std::vector<limit::Limit> limits = read_failure_limits(value);
    if (limits.empty() || value.context().faults.size() != faults_before) return;
    limit_failed_credentials(std::move(limits), limit::OnStoreFailure::local, config);
}

// Where checking a made-up credential costs a computation. An API key costs a look-up, less
// than the answer to it, and has too many bits to be guessed.
void limit_failed_credentials_by_default(Config& config) {
    const auto costs_effort = [](const identity::UserMethod& method) {
        return method.how->traits().costs_effort;
    };
    const auto& methods = config.user_methods;
    if (std::none_of(methods.begin(), methods.end(), costs_effort)) return;
    limit_failed_credentials({default_failure_limit()}, limit::OnStoreFailure::local_or_alone,
                             config);
}

// Why `forward_as` cannot use that field. Empty: it can.
std::string fault_of_forwarded_field(const std::string& name, bool is_address,
                                     const Config& config) {
    // Fields of HTTP or of browsers: their readers expect the client's value.
    constexpr std::array<std::string_view, 13> kTaken{
        "authorization", "cache-control", "cookie",    "from",     "max-forwards",
        "origin",        "pragma",        "prefer",    "priority", "range",
        "referer",       "set-cookie",    "user-agent"};
    constexpr std::array<std::string_view, 6> kTakenFamilies{
        "accept", "access-control-", "content-", "if-", "sec-", "x-forwarded-"};
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (is_address && name == "x-real-ip") return {};
    const bool taken =
        http::field_name(dashed) != http::FieldName::other ||
        std::find(kTaken.begin(), kTaken.end(), dashed) != kTaken.end() ||
        std::any_of(kTakenFamilies.begin(), kTakenFamilies.end(),
                    [&](std::string_view family) { return dashed.starts_with(family); });
    if (taken)
        return "HTTP gives this field a meaning of its own; choose one such as `x-auth-user`";
    for (const identity::UserMethod& method : config.user_methods) {
        if (!method.how->traits().believes_peers &&
            http::equal_as_variable(dashed, method.how->place().field())) {
            return "clients send a credential in this field; choose one such as `x-auth-user`";
        }
    }
    return {};
}

const Rows& forward_as_keys() {
    static const auto keys =
        Rows("a map: `{user: x-auth-user, tier: x-auth-tier}`")
            .key("user", kind::type("field_name"),
                 {"the field in which the upstream gets the user; clients cannot set it", "none"})
            .idle_unless([](const Config& config) { return !config.user_methods.empty(); },
                         "identity.user lists no method")
            .key("tier", kind::type("field_name"), {"the same of the user's tier", "none"})
            .idle({gives_tiers,
                   "nothing gives users a tier; add identity.users, `tier_claim` or "
                   "`tier_header`"})
            .key("client_ip", kind::type("field_name"),
                 {"the same of the client's address", "none"});
    return keys;
}

void read_forward_as(const Value& value, Config& config) {
    ForwardAs& forwarded = config.forward_as;
    Section section(value, forward_as_keys());
    std::vector<std::string> names;
    const auto read = [&](std::string_view key, std::string& out) {
        const auto field = section.find(key);
        if (!field) return;
        auto name = read_field_name(*field);
        if (!name) return;
        if (const std::string fault =
                fault_of_forwarded_field(*name, &out == &forwarded.client_ip, config);
            !fault.empty()) {
            field->fault(quote(*name) + " cannot be forwarded: " + fault);
            return;
        }
        if (std::any_of(names.begin(), names.end(), [&](const std::string& other) {
                return http::equal_as_variable(other, *name);
            })) {
            field->fault(quote(*name) + " is listed twice");
            return;
        }
        names.push_back(*name);
        out = std::move(*name);
    };
    read("user", forwarded.user);
    read("tier", forwarded.tier);
    read("client_ip", forwarded.client_ip);
    section.refuse_others();
}

// Methods whose credentials can be wrong.
bool checks_credentials(const Config& config) {
    return std::any_of(config.user_methods.begin(), config.user_methods.end(),
                       [](const auto& method) { return method.how->traits().checks_credentials; });
}

void read_on_invalid(Section& section, Config& config) {
    section.choice<bool>("on_invalid_credentials", config.anonymous_on_invalid,
                         {{"reject", false}, {"anonymous", true}});
    const auto failed = section.find("failed_credentials");
    if (failed) {
        read_failed_credentials(*failed, config);
    } else {
        limit_failed_credentials_by_default(config);
    }
    const std::vector<int>& prefixes = config.client_ip.prefixes.ipv6;
    if (config.failed_credentials == nullptr ||
        *std::min_element(prefixes.begin(), prefixes.end()) <= 64) {
        return;
    }
    // Without either key the prefix is 64.
    const auto place = failed ? failed : section.find("client_ip");
    place->warn(
        "identity.client_ip.ipv6_prefix is longer than 64: a client that has a /64 gets a new "
        "limit of failed_credentials with each address; add 64 to the list");
}

void read_require(Section& section, Config& config) {
    section.toggle("require", config.require_user);
    const Context& context = section.value().context();
    const bool reads_well = context.faults.empty() && context.other_errors.empty();
    if (config.require_user && config.user_methods.empty() && reads_well) {
        section.find("require")->fault(
            "Tidegate would refuse every request, as identity.user lists no method: add one, or "
            "write `off`");
    }
}

}  // namespace

bool has_trusted_peers(const Config& config) {
    return !config.client_ip.trusted_proxies.empty() ||
           std::any_of(config.listen.begin(), config.listen.end(),
                       [](const Listen& listen) { return listen.trusted; });
}

const Rows& identity_keys() {
    static const std::string limited =
        "`60/min` with " + methods_with(&identity::MethodTraits::costs_effort) + ", else none";
    static const std::string no_credentials =
        "no method of identity.user checks credentials; add " +
        methods_with(&identity::MethodTraits::checks_credentials) + ", or remove this key";
    static const auto keys =
        Rows()
            .key("client_ip", kind::map(client_ip_keys()),
                 {"how Tidegate finds the client's address"})
            .key("user", kind::list(kind::map(user_method_keys()), {0, 16}),
                 {"the [methods](#methods-that-name-a-user) that name a user, tried in order",
                  "none", "at most 16"})
            .key("users", kind::type("file"),
                 {"a file of users and tiers, `alice: {tier: pro}`; wins over what a credential "
                  "says",
                  "none", "16 MiB"})
            .key("on_invalid_credentials", kind::word({"reject", "anonymous"}),
                 {"`reject` (401), or `anonymous`: as if there were none", "`reject`"})
            .idle_unless(checks_credentials, no_credentials)
            .key("failed_credentials", kind::off_or(single_or_limits_kind()),
                 {"limits of credentials that are not valid, by address, or `off`: [invalid "
                  "credentials](identity.md#invalid-credentials)",
                  limited, "a quota of 1 or more"})
            .idle_unless(
                [](const Config& config) {
                    return checks_credentials(config) || config.failed_credentials == nullptr;
                },
                no_credentials)
            .key("require", kind::toggle(),
                 {"`on`: a request without a user gets 401; needs a method", "`off`"})
            .key("forward_as", kind::map(forward_as_keys()),
                 {"fields in which the upstream gets the user, the tier and the address"});
    return keys;
}

const Keys<Forwarding>& forwarding_keys() {
    static const auto keys =
        Keys<Forwarding>()
            .toggle("x_forwarded", &Forwarding::x_forwarded,
                    {"send `X-Forwarded-For`, `-Proto`, `-Host`, `-Port`, `X-Real-IP`"})
            .toggle("forwarded", &Forwarding::forwarded, {"send `Forwarded` (RFC 7239)"})
            .toggle("via", &Forwarding::via, {"send `Via`"})
            .toggle("client_certificate", &Forwarding::client_certificate,
                    {"send `X-Forwarded-Client-Cert`, which describes the certificate that the "
                     "client has shown; clients cannot set it"})
            .idle_unless(
                [](const Config& config) {
                    return !config.forwarding.client_certificate || config.asks_for_certificates();
                },
                "no listener asks clients for a certificate; see `tls.client_auth` of `listen`")
            .word<bool>("host", &Forwarding::preserve_host,
                        {{"preserve", true}, {"upstream", false}},
                        {"`preserve` the client's `Host`, or `upstream`: the server's own"});
    return keys;
}

void read_identity(const Value& value, Config& config, Declared& declared) {
    Section section(value, identity_keys());
    if (const auto client_ip = section.find("client_ip")) {
        read_client_ip(*client_ip, config);
    }
    if (const auto user = section.find("user")) read_user_methods(*user, config, declared);
    if (const auto users = section.find("users")) read_users(*users, config, declared);
    read_on_invalid(section, config);
    read_require(section, config);
    if (const auto forward_as = section.find("forward_as")) read_forward_as(*forward_as, config);
    section.refuse_others();
}

void read_forwarding(const Value& value, Config& config) {
    Forwarding& forwarding = config.forwarding;
    Section section = forwarding_keys().read(value, forwarding);
    forwarding.states_via = section.find("via").has_value();
}

namespace {

constexpr std::size_t kUserBytesMax = 1'024;

void read_one(const std::string& user, const Value& value, Config& config, Declared& declared) {
    Section section(value, "a map: `{tier: pro}`");
    std::optional<std::string> tier;
    if (const auto name = section.need("tier", "`tier: pro`")) tier = name->identifier();
    section.refuse_others();
    if (user.empty() || user.size() > kUserBytesMax) {
        value.fault("the name of a user has 1 to " + std::to_string(kUserBytesMax) + " bytes");
        return;
    }
    if (!identity::is_plain_name(user)) {
        value.fault("this is not a valid name: " + std::string(kPlainNames));
        return;
    }
    if (!tier) return;
    const Place place = section.find("tier")->place();
    declared.user_tiers.try_emplace(
        *tier, Diagnostic{value.context().file, place.line, place.column,
                          value.name() + ".tier: no policy has a tier " + quote(*tier)});
    config.user_tiers.insert_or_assign(user, std::move(*tier));
}

}  // namespace

void read_users(const Value& value, Config& config, Declared& declared) {
    const auto file = read_referenced_file(value, "users.yaml", kListBytesMax);
    if (!file) return;
    warn_if_world_writable(value, *file);
    Context context = context_of(*file, value.context());
    const TreeNode tree =
        parse_document(file->text, context.faults, {MapKeys::shown, kListBytesMax});
    if (tree.kind != TreeNode::Kind::null) {
        const Value root(context, tree, "", tree.place);
        constexpr ListRule kUsers{"a map of users: `alice: {tier: pro}`"};
        for (const auto& [user, entry] : root.named(kUsers, false)) {
            read_one(user, entry, config, declared);
        }
    }
    report_faults(std::move(context), value.context());
}

}  // namespace tidegate::config
