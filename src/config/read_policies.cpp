// `policies` and `default_policies`: keys, lists of clients, and what a policy says of them.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "http/forwarding_fields.hpp"
#include "http/framing.hpp"
#include "identity/identifier.hpp"

namespace tidegate::config {

bool looks_secret(std::string_view name) {
    constexpr std::array<std::string_view, 9> kTelling{
        "auth", "cookie", "key", "passw", "secret", "session", "sig", "token", "credential"};
    const std::string lower = to_lower(std::string(name));
    return std::any_of(kTelling.begin(), kTelling.end(),
                       [&](std::string_view part) { return lower.find(part) != lower.npos; });
}

namespace {

using limit::Key;
using limit::KeyPart;
using limit::OnMissing;
using Kind = KeyPart::Kind;

constexpr std::size_t kChoicesMax = 8;
constexpr std::size_t kPartsMax = 8;
constexpr std::size_t kNameBytesMax = 48;  // what identity::append_secret_identifier() takes
constexpr std::string_view kParts =
    "`ip`, `user`, `route`, `method`, `host`, `constant:NAME`, `header:NAME`, `query:NAME`, "
    "`cookie:NAME`, `claim:NAME` or `path:NAME`, joined by `+`; `|` comes before an alternative "
    "for a missing value";

std::string_view cut(std::string_view& rest, char separator) {
    const std::size_t end = std::min(rest.find(separator), rest.size());
    const std::string_view first = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return first;
}

// Its value is a credential, whatever it is called.
bool holds_credential(std::string_view name, const Config& config) {
    return std::any_of(config.user_methods.begin(), config.user_methods.end(),
                       [&](const identity::UserMethod& method) {
                           return !method.how->traits().believes_peers &&
                                  method.how->place().field() == name;
                       });
}

// Fields in which a trusted peer names the user to Tidegate, or Tidegate to the upstream.
bool names_user(std::string_view name, const Config& config) {
    const auto same = [&](const std::string& other) {
        return http::equal_as_variable(name, other);
    };
    const ForwardAs& forwarded = config.forward_as;
    return same(forwarded.user) || same(forwarded.tier) || same(forwarded.client_ip) ||
           std::any_of(config.user_methods.begin(), config.user_methods.end(),
                       [&](const identity::UserMethod& method) {
                           const auto fields = method.how->trusted_fields();
                           return std::any_of(fields.begin(), fields.end(), same);
                       });
}

// Why the field cannot be counted by: the upstream does not get it as it came. Empty: it can.
std::string fault_of_field(const std::string& name, const Config& config) {
    const http::Field field{http::field_name(name), name, {}};
    if (field.id == http::FieldName::host) {
        return "clients can spell Host in many ways; write the key `host`, which has one spelling";
    }
    if (http::is_forwarding_field(field) ||
        http::equal_as_variable(name, config.client_ip.single_field)) {
        return "for the client's address, write the key `ip` and set identity.client_ip";
    }
    if (names_user(name, config)) {
        return "this field names the user; write the key `user`";
    }
    if (field.id == http::FieldName::x_request_id || http::looks_like_framing(name) ||
        http::is_hop_by_hop(field)) {
        return "Tidegate changes or removes this field before the upstream sees it";
    }
    return {};
}

bool is_query_name(std::string_view name) {
    return std::all_of(name.begin(), name.end(), [](char c) {
        return c > ' ' && c <= '~' &&
               std::string_view("\"#%&'+;<=>[]|").find(c) == std::string::npos;
    });
}

bool is_capture_name(std::string_view name) {
    return is_identifier(name) && name.find('.') == name.npos;
}

class KeyReader {
  public:
    KeyReader(const Value& value, Config& config) : value_(value), config_(config) {}

    // Nothing after a fault.
    std::optional<Key> read(std::string_view text) {
        Key key;
        for (std::size_t end = 0; end != text.npos;) {
            end = text.find('|');
            const std::string_view written = cut(text, '|');
            auto choice = read_choice(written);
            if (!choice) return std::nullopt;
            if (std::find(key.choices.begin(), key.choices.end(), *choice) != key.choices.end()) {
                return wrong("`|` lists " + quote(written) + " twice");
            }
            key.choices.push_back(std::move(*choice));
        }
        if (key.choices.size() > kChoicesMax) {
            return wrong("more than " + std::to_string(kChoicesMax) + " choices");
        }
        return key;
    }

  private:
    std::optional<std::vector<KeyPart>> read_choice(std::string_view text) {
        std::vector<KeyPart> parts;
        for (std::size_t end = 0; end != text.npos;) {
            end = text.find('+');
            const std::string_view written = cut(text, '+');
            auto part = read_part(written);
            if (!part) return std::nullopt;
            if (std::find(parts.begin(), parts.end(), *part) != parts.end()) {
                return wrong("`+` joins " + quote(written) + " twice");
            }
            parts.push_back(std::move(*part));
        }
        if (parts.size() > kPartsMax) {
            return wrong("more than " + std::to_string(kPartsMax) + " parts");
        }
        return parts;
    }

    std::optional<KeyPart> read_part(std::string_view text) {
        const std::string whole(text);
        if (text == "ip") return KeyPart{Kind::ip, {}};
        if (text == "user") return KeyPart{Kind::user, {}};
        if (text == "route") return KeyPart{Kind::route, {}};
        if (text == "method") return KeyPart{Kind::method, {}};
        if (text == "host") return KeyPart{Kind::host, {}};
        const bool has_name = text.find(':') != text.npos;
        const std::string_view kind = cut(text, ':');
        if (has_name && kind == "claim") return read_claim(text);
        std::string name(text);
        if (name.size() > kNameBytesMax) {
            return wrong("a name has at most " + std::to_string(kNameBytesMax) + " bytes");
        }
        if (has_name && kind == "constant" && is_identifier(name)) {
            return KeyPart{Kind::constant, std::move(name)};
        }
        if (has_name && kind == "path" && is_capture_name(name)) {
            return KeyPart{Kind::capture, std::move(name)};
        }
        if (has_name && kind == "query" && !name.empty() && is_query_name(name)) {
            const bool secret = looks_secret(name);
            return KeyPart{Kind::query, std::move(name), secret};
        }
        if (has_name && kind == "header" && is_token(name)) return read_field(std::move(name));
        if (has_name && kind == "cookie" && is_token(name)) {
            return KeyPart{Kind::cookie, std::move(name), true};
        }
        return wrong("unknown key " + quote(whole) + "; allowed here: " + std::string(kParts));
    }

    std::optional<KeyPart> read_field(std::string name) {
        name = to_lower(std::move(name));
        if (const std::string fault = fault_of_field(name, config_); !fault.empty()) {
            return wrong("`header:" + name + "` cannot be a key: " + fault);
        }
        const bool secret = looks_secret(name) || holds_credential(name, config_);
        return KeyPart{Kind::header, std::move(name), secret};
    }

    std::optional<KeyPart> read_claim(std::string_view written) {
        auto name = identity::parse_claim_name(written);
        if (!name) return wrong(quote("claim:" + std::string(written)) + ": " + name.error());
        warn_about_claim_name(value_, *name);
        auto& known = config_.claims;
        const auto found = std::find(known.begin(), known.end(), *name);
        const auto position = static_cast<std::uint16_t>(found - known.begin());
        if (found == known.end()) {
            if (known.size() == identity::kCountedClaimsMax) {
                return wrong("policies count by more than " +
                             std::to_string(identity::kCountedClaimsMax) + " different claims");
            }
            known.push_back(*name);
        }
        return KeyPart{Kind::claim, std::move(*name), false, position};
    }

    std::nullopt_t wrong(const std::string& what) const {
        value_.fault(what);
        return std::nullopt;
    }

    const Value& value_;
    Config& config_;
};

bool is_chosen_by_clients(const KeyPart& part) {
    return part.kind == Kind::header || part.kind == Kind::query || part.kind == Kind::capture ||
           part.kind == Kind::host || part.kind == Kind::cookie || part.reads_body();
}

// A client may have tokens with and without a claim, by the scopes that it asks its issuer for.
bool may_be_left_out(const KeyPart& part) {
    return is_chosen_by_clients(part) || part.kind == Kind::claim;
}

// Leaving a field out must not be a way around a limit; having no user is no such way.
OnMissing default_on_missing(const Key& key) {
    const bool reject = std::any_of(key.choices.begin(), key.choices.end(), [](const auto& choice) {
        return choice.size() > 1 || std::any_of(choice.begin(), choice.end(), may_be_left_out);
    });
    return reject ? OnMissing::reject : OnMissing::skip;
}

}  // namespace

std::vector<Key> read_key(const Value& value, const std::optional<OnMissing>& on_missing,
                          Config& config) {
    std::vector<Key> keys;
    constexpr ListRule kKeys{"a list of keys: `[ip, user]`", "keys", 16,
                             "the list is empty: a policy needs a key, `[ip, user]`"};
    for (const Value& item : value.one_or_more(kKeys)) {
        const auto text = item.text("a key such as `ip` or `header:x-tenant+route`");
        if (!text) continue;
        auto key = KeyReader(item, config).read(*text);
        if (!key) continue;
        const auto same = [&](const Key& other) { return other.choices == key->choices; };
        if (std::any_of(keys.begin(), keys.end(), same)) {
            item.fault(quote(*text) + " is listed twice");
            continue;
        }
        key->on_missing = on_missing.value_or(default_on_missing(*key));
        keys.push_back(std::move(*key));
    }
    return keys;
}

std::optional<Key> read_single_key(const Value& value, Config& config) {
    const auto text =
        value.text("one key such as `ip` or `user|ip`; `+` joins several, as in `ip+route`");
    return text ? KeyReader(value, config).read(*text) : std::nullopt;
}

std::string missing_capture(std::span<const Key> keys, const Route& route) {
    for (const Key& key : keys) {
        for (const auto& choice : key.choices) {
            for (const KeyPart& part : choice) {
                if (part.kind != Kind::capture) continue;
                if (std::find(route.captures.begin(), route.captures.end(), part.name) ==
                    route.captures.end()) {
                    return part.name;
                }
            }
        }
    }
    return {};
}

bool counts_by(const limit::Policy& policy, Kind kind) {
    const auto is_it = [&](const KeyPart& part) { return part.kind == kind; };
    return std::any_of(policy.key.begin(), policy.key.end(), [&](const Key& key) {
        return std::any_of(key.choices.begin(), key.choices.end(), [&](const auto& choice) {
            return std::any_of(choice.begin(), choice.end(), is_it);
        });
    });
}

bool clients_choose_users(const Config& config) {
    return std::any_of(config.user_methods.begin(), config.user_methods.end(),
                       [](const auto& method) { return !method.how->traits().authenticates; });
}

bool counts_only_what_clients_choose(const limit::Policy& policy, const Config& config,
                                     bool host_is_fixed) {
    const bool free_users = clients_choose_users(config);
    const auto is_chosen = [&](const KeyPart& part) {
        if (part.kind == Kind::host && host_is_fixed) return false;
        return is_chosen_by_clients(part) || (part.kind == Kind::user && free_users);
    };
    const auto is_free = [&](const std::vector<KeyPart>& choice) {
        const auto named = [&](const KeyPart& part) {
            return part.kind == Kind::ip || part.kind == Kind::claim ||
                   (part.kind == Kind::user && !free_users);
        };
        return std::any_of(choice.begin(), choice.end(), is_chosen) &&
               std::none_of(choice.begin(), choice.end(), named);
    };
    return std::all_of(policy.key.begin(), policy.key.end(), [&](const Key& key) {
        return std::any_of(key.choices.begin(), key.choices.end(), is_free);
    });
}

// `exempt` and `deny` of a policy: networks, users, tiers, `authenticated` and `anonymous`.

namespace {

constexpr std::string_view kUser = "user:";
constexpr std::string_view kTier = "tier:";
constexpr std::string_view kWantedClient =
    "a network such as `10.0.0.0/8`, `user:NAME`, `tier:NAME`, `authenticated` or `anonymous`";

bool is_pattern(std::string_view name) {
    return name.find_first_of("*?") != name.npos || name.starts_with("regex:");
}

// What to write instead of a pattern: names are compared whole. Empty: `text` is no pattern.
std::string advice_about_pattern(std::string_view text) {
    if (text == "user:*") return "for every user with a checked credential, write `authenticated`";
    if (text.starts_with(kUser) && is_pattern(text.substr(kUser.size()))) {
        return "users are compared by their whole name: list each as `user:NAME`, or give them a "
               "tier and write `tier:NAME`";
    }
    if (text.starts_with(kTier) && is_pattern(text.substr(kTier.size()))) {
        return "tiers are compared by their whole name: list each as `tier:NAME`";
    }
    if (text == "*" || text == "all" || text == "any") {
        return "for every client, write `authenticated` and `anonymous`; for every address, "
               "`0.0.0.0/0` and `::/0`";
    }
    if (text.find('*') != text.npos) return "write an address range as a network: `10.0.0.0/8`";
    return {};
}

// The words that people try for `authenticated` and `anonymous`; empty: none of these.
std::string_view word_meant(std::string_view text) {
    if (text == "user" || text == "users" || text == "authorized") return "authenticated";
    if (text == "anon" || text == "guest" || text == "unauthenticated") return "anonymous";
    return {};
}

class ClientListReader {
  public:
    explicit ClientListReader(identity::ClientList& list) : list_(list) {}

    void read(const Value& item, const std::string& text) {
        const std::string advice = advice_about_pattern(text);
        if (!advice.empty()) return item.fault(quote(text) + " is a pattern: " + advice);
        if (text == "authenticated") return add_word(item, text, list_.authenticated);
        if (text == "anonymous") return add_word(item, text, list_.anonymous);
        if (text.size() > kUser.size() && text.starts_with(kUser)) return add_user(item, text);
        if (text.size() > kTier.size() && text.starts_with(kTier)) return add_tier(item, text);
        if (const auto network = parse_network(text)) {
            networks_.push_back(*network);
            return;
        }
        const std::string right = advice_about_network(text);
        if (!right.empty()) return item.fault(quote(text) + " is not a network: " + right);
        std::string fault = quote(text) + " is not " + std::string(kWantedClient);
        const std::string_view meant = word_meant(text);
        if (!meant.empty()) fault += "; did you mean " + quote(meant) + "?";
        item.fault(fault);
    }

    void finish() {
        list_.networks = IpNetworks(std::move(networks_));
        std::sort(list_.users.begin(), list_.users.end());
        std::sort(list_.tiers.begin(), list_.tiers.end());
        list_.by_user =
            list_.authenticated || list_.anonymous || !list_.users.empty() || !list_.tiers.empty();
    }

  private:
    static void add_word(const Value& item, const std::string& text, bool& is_listed) {
        if (is_listed) return item.fault(quote(text) + " is listed twice");
        is_listed = true;
    }

    void add_user(const Value& item, const std::string& text) {
        std::string name = text.substr(kUser.size());
        if (!identity::is_plain_name(name)) {
            return item.fault(quote(text) + " is not a user: " + std::string(kPlainNames));
        }
        list_.users.push_back(std::move(name));
    }

    void add_tier(const Value& item, const std::string& text) {
        std::string name = text.substr(kTier.size());
        if (!identity::is_tier_name(name)) {
            return item.fault(quote(text) +
                              " is not a tier: names of tiers are letters, digits, `-`, `_` and "
                              "`.`, at most 64");
        }
        list_.tiers.push_back(std::move(name));
    }

    identity::ClientList& list_;
    std::vector<IpNetwork> networks_;
};

// `exempt` and `deny` of a policy.
void read_client_list(const Value& value, identity::ClientList& list) {
    constexpr ListRule kMembers{"a list of networks, users and tiers: `[10.0.0.0/8]`",
                                "networks, users and tiers", 10'000};
    ClientListReader reader(list);
    for (const Value& item : value.one_or_more(kMembers)) {
        if (const auto text = item.text(kWantedClient)) reader.read(item, *text);
    }
    reader.finish();
}

}  // namespace

// `policies` and `default_policies`.

namespace {

constexpr std::size_t kPoliciesMax = 10'000;

void read_tiers(const Value& value, PolicySettings& policy) {
    constexpr ListRule kTiers{
        "a map of tiers and their limits: `{pro: [200/s], internal: unlimited}`", "tiers", 64};
    for (const auto& [name, list] : value.named(kTiers)) {
        limit::Tier tier;
        tier.name = name;
        if (!list.is("unlimited")) {
            Limits limits = read_limits(list);
            agree_on_moment(list, limits.moment, policy.moment);
            tier.limits = std::move(limits.limits);
        }
        policy.tiers.push_back(std::move(tier));
    }
}

std::optional<limit::OnMissing> read_on_missing(Section& section) {
    using limit::OnMissing;
    const auto value = section.find("on_missing");
    if (!value) return std::nullopt;
    return value->choice<OnMissing>(
        {{"skip", OnMissing::skip}, {"shared", OnMissing::shared}, {"reject", OnMissing::reject}});
}

void read_who_and_what(Section& section, Config& config, PolicySettings& policy) {
    const auto key = section.need("key");
    if (const auto list = section.need("limits")) {
        Limits limits = read_limits(*list);
        policy.limits = std::move(limits.limits);
        policy.moment = std::move(limits.moment);
    }
    if (const auto tiers = section.find("tiers")) read_tiers(*tiers, policy);
    if (const auto exempt = section.find("exempt")) read_client_list(*exempt, policy.exempt);
    const auto deny = section.find("deny");
    if (deny) read_client_list(*deny, policy.deny);
    const auto on_missing = read_on_missing(section);
    policy.may_skip = on_missing == limit::OnMissing::skip;
    if (key) policy.key = read_key(*key, on_missing, config);
    section.choice<bool>("mode", policy.shadow, {{"enforce", false}, {"shadow", true}});
    if (deny && policy.shadow)
        deny->warn("has no effect: a policy with `mode: shadow` refuses no request");
}

// The answer of this policy to a refused request, in place of `response`.
void read_refusal(Section& section, PolicySettings& policy) {
    const auto status = section.find("status");
    if (status) policy.status = static_cast<int>(status->integer({400, 599}).value_or(0));
    const auto body = section.find("body");
    if (body) policy.body = read_answer_body(*body);
    if (!policy.shadow) return;
    for (const auto& unused : {status, body}) {
        if (unused) unused->warn("has no effect: a policy with `mode: shadow` refuses no request");
    }
}

}  // namespace

const Rows& policy_keys() {
    static const auto keys =
        Rows("a map: `{key: [ip, user], limits: [10/s]}`", "policy")
            .key("key", kind::one_or_more(kind::type("key"), {1, 16}),
                 {"what is counted, each for itself: [keys](#keys-of-policies)", "required",
                  "1 to 16; 31 of all policies of a route"})
            .required("`key: [ip, user]`")
            .key("limits", limits_kind(), {"the [limits](#limits)", "required", "1 to 32"})
            .required("`limits: [10/s]`")
            .key("tiers",
                 kind::named(
                     kind::any({kind::fixed({"unlimited"}), limits_kind(), kind::type("variable")}),
                     {0, 64}),
                 {"`{pro: [200/s], internal: unlimited}`: in place of `limits` for users of that "
                  "tier",
                  "none", "at most 64"})
            .key(
                "exempt", kind::one_or_more(kind::type("client"), {0, 10'000}),
                {"clients that this policy does not count: [members](#exemptions-tiers-and-shadow)",
                 "none"})
            .key("deny", kind::one_or_more(kind::type("client"), {0, 10'000}),
                 {"clients that it refuses with 403", "none"})
            .key("on_missing", kind::word({"skip", "shared", "reject"}),
                 {"what becomes of a request that has no value for a key: `skip`, `shared` or "
                  "`reject`",
                  "[by key](#when-a-key-has-no-value)"})
            .key("mode", kind::word({"enforce", "shadow"}),
                 {"`enforce`, or `shadow`: decide, count and log, never refuse", "`enforce`"})
            .key("on_store_failure", kind::type("on_store_failure"),
                 {"`local`, `allow` or `deny`", "the global one"})
            .key("status", kind::integer({400, 599}),
                 {"of its refusals; where several policies refuse, the first of the route decides",
                  "that of `response`", "400 to 599"})
            .key("body", answer_body_kind(),
                 {"of its refusals; where several policies refuse, the first of the route decides",
                  "that of `response`", "64 KiB"});
    return keys;
}

std::size_t add_policy(PolicySettings&& policy, Config& config) {
    std::uint32_t next = 0;
    if (!config.policies.empty()) {
        const PolicySettings& last = *config.policies.back();
        next = last.index + static_cast<std::uint32_t>(last.tiers.size()) + 1;
    }
    policy.index = next++;
    for (limit::Tier& tier : policy.tiers) tier.index = next++;
    config.policies.push_back(std::make_unique<const PolicySettings>(std::move(policy)));
    return config.policies.size() - 1;
}

std::optional<std::size_t> read_policy(const Value& value, const std::string& name, Config& config,
                                       const Declared& declared) {
    const std::size_t faults_before = value.context().faults.size();
    PolicySettings policy;
    policy.name = name;
    policy.on_store_failure = declared.on_store_failure;

    Section section(value, policy_keys());
    read_who_and_what(section, config, policy);
    if (const auto failure = section.find("on_store_failure")) {
        policy.on_store_failure = read_on_store_failure(*failure).value_or(policy.on_store_failure);
    }
    read_refusal(section, policy);
    section.refuse_others();

    if (!value.is_map() || value.context().faults.size() != faults_before) return std::nullopt;
    return add_policy(std::move(policy), config);
}

void read_policies(const Value& value, Config& config, Declared& declared) {
    constexpr ListRule kPolicies{"a map of policies: `per-client: {key: [ip], limits: [10/s]}`",
                                 "policies", kPoliciesMax};
    for (const auto& [name, policy] : value.named(kPolicies)) {
        Declared::Named& entry = declared.policies[name];
        entry.place = policy.place();
        if (name == kFailedCredentials) {
            policy.fault("identity.failed_credentials has this name: choose another");
            continue;
        }
        if (name == kPreflight) {
            policy.fault("the limit of preflights (`response.cors`) has this name: choose another");
            continue;
        }
        entry.position = read_policy(policy, name, config, declared);
    }
}

std::vector<std::string> read_default_policies(const Value& value, Declared& declared) {
    constexpr ListRule kNames{"a list of names of policies", "policies", kPoliciesMax};
    std::vector<std::string> names;
    for (const Value& item : value.one_or_more(kNames)) {
        const auto name = item.identifier();
        if (!name) continue;
        const auto found = declared.policies.find(*name);
        if (found == declared.policies.end()) {
            unknown_name(item, "policy", *name, declared.policies);
            continue;
        }
        add_once(item, "the policy " + quote(*name), *name, names);
    }
    return names;
}

// Clients, the log and reports know a limit by one name: no two may share it.

namespace {

struct NameOwner {
    const limit::Policy* policy;
    const limit::Limit* limit;
};

// `first` was read before `second`. One of them at least is an entry of `policies`: names of the
// others do not lead to the same name.
void report_same_name(const NameOwner& first, const NameOwner& second, const std::string& name,
                      const Declared& declared, Context& context) {
    const bool second_is_declared = declared.policies.contains(second.policy->name);
    const NameOwner& here = second_is_declared ? second : first;
    const NameOwner& other = second_is_declared ? first : second;
    const auto place = declared.policies.find(here.policy->name);
    context.faults.push_back({place == declared.policies.end() ? Place{} : place->second.place,
                              "policies." + here.policy->name + ": its limit " +
                                  quote(here.limit->name) + " would be called " + quote(name) +
                                  ", as the limit " + quote(other.limit->name) + " of the policy " +
                                  quote(other.policy->name) +
                                  ": give one of the two limits or policies another name"});
}

}  // namespace

void check_limit_names(const Config& config, const Declared& declared, Context& context) {
    std::unordered_map<std::string, NameOwner> owners;
    for (const LimitList& list : config.limit_lists) {
        for (const limit::Limit& limit : list.limits()) {
            const NameOwner owner{list.policy, &limit};
            const auto [entry, is_new] =
                owners.emplace(limit::full_name(*list.policy, limit), owner);
            // The tiers of a policy have the same limits with other quotas.
            if (is_new || entry->second.policy == list.policy) continue;
            report_same_name(entry->second, owner, entry->first, declared, context);
            entry->second = owner;  // its tiers are not reported again
        }
    }
}

}  // namespace tidegate::config
