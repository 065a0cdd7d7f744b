// `user` of `identity`: the methods that name a user, in the order Tidegate tries them, and what
// policies need of them.
#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "identity/api_key.hpp"
#include "identity/basic.hpp"

namespace tidegate::config {

namespace {

constexpr std::string_view kWantedMethod =
    "a map of one method: `header: {name: x-user-id, from: trusted_proxies}`";

using identity::ApiKeys;
using identity::CredentialPlace;
using identity::Htpasswd;
using identity::IdentityMethod;
using In = CredentialPlace::In;
using Say = MethodRow::Say;
using Subject = identity::CertificateMethod::Subject;

// Why a field can name no user. Empty: it can.
std::string fault_of_field(const std::string& name) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (dashed == "cookie") return "to read a cookie, write `cookie: NAME`";
    if (http::field_name(dashed) == http::FieldName::other && dashed != "set-cookie") return {};
    return "HTTP gives this field a meaning of its own";
}

}  // namespace

std::optional<std::string> read_credential_field(const Value& value, bool if_secret) {
    auto name = read_field_name(value);
    if (!name) return std::nullopt;
    std::string fault = fault_of_field(*name);
    if (*name == "authorization" && !if_secret) {
        fault = "use `jwt`, `api_key` or `basic`, which check the credential in it";
    }
    if (!fault.empty()) {
        value.fault(quote(*name) + " cannot name a user: " + fault);
        return std::nullopt;
    }
    return name;
}

std::optional<std::string> read_cookie_name(const Value& value) {
    constexpr std::size_t kCookieNameBytesMax = 128;
    auto name = value.text("the name of a cookie such as `session`");
    if (!name) return std::nullopt;
    if (!is_token(*name) || name->size() > kCookieNameBytesMax) {
        value.fault(quote(*name) + " is not the name of a cookie such as `session`");
        return std::nullopt;
    }
    return name;
}

namespace {

// `api_key`

const Rows& api_key_keys() {
    static const auto keys =
        Rows(kMethodWanted)
            .key("header", kind::type("field_name"),
                 {"`authorization`: after `Bearer`; any other field: alone", "`x-api-key`"})
            .key("keys", kind::type("file"),
                 {"the [key file](identity.md#api_key)", "required", "16 MiB"})
            .required("`keys: api-keys.yaml`")
            .key(kNamespace, kind::type("name"), kNamespaceText);
    return keys;
}

constexpr std::string_view kKeyLine = "`<SHA-256 of the key, 64 digits>: {user: alice}`";

// Not Section::refuse_others(), which would speak of keys: API keys are meant here.
void refuse_other_entries(const TreeNode& owner, Context& context) {
    constexpr std::array<std::string_view, 2> kEntries{"user", "tier"};
    for (const TreeEntry& entry : owner.entries) {
        if (std::find(kEntries.begin(), kEntries.end(), entry.key) != kEntries.end()) continue;
        const std::string_view meant = nearest(entry.key, {kEntries.begin(), kEntries.end()});
        context.faults.push_back(
            {entry.place, "unknown entry " + quote(entry.key) + ": write " +
                              (meant.empty() ? "`user` and `tier` only" : quote(meant))});
    }
}

// `entry` has the digest of a key as its own. No message repeats it: an operator who mistook the
// file wrote the key itself there.
void read_key_entry(const TreeEntry& entry, Context& context, ApiKeys& keys, Declared& declared) {
    const bool missing = entry.value.kind == TreeNode::Kind::null;
    const Value owner(context, entry.value, "key", missing ? entry.place : entry.value.place);
    Section section(owner, "a map: `{user: alice, tier: pro}`");
    std::optional<std::string> user;
    std::optional<std::string> tier;
    if (const auto name = section.need("user", "`user: alice`")) user = name->text("a user");
    const auto tier_value = section.find("tier");
    if (tier_value) tier = tier_value->identifier();
    refuse_other_entries(entry.value, context);
    if (!user || (tier_value && !tier)) return;
    const std::string_view wrong = keys.add(entry.key, *user, tier.value_or(""));
    if (!wrong.empty()) {
        Value(context, entry.value, "key", entry.place).fault(std::string(wrong));
        return;
    }
    if (!tier) return;
    const Place place = tier_value->place();
    declared.user_tiers.try_emplace(
        *tier, Diagnostic{context.file, place.line, place.column,
                          tier_value->name() + ": no policy has a tier " + quote(*tier)});
}

std::shared_ptr<const ApiKeys> read_api_keys(const Value& value, Declared& declared) {
    const auto file = read_referenced_file(value, "api-keys.yaml", kListBytesMax);
    if (!file) return nullptr;
    const auto [known, is_new] = declared.credentials.try_emplace("api_key\n" + file->path);
    if (!is_new) return std::static_pointer_cast<const ApiKeys>(known->second);
    warn_if_world_writable(value, *file);
    Context context = context_of(*file, value.context());
    const TreeNode tree =
        parse_document(file->text, context.faults, {MapKeys::secret, kListBytesMax});
    auto keys = std::make_shared<ApiKeys>();
    if (tree.kind == TreeNode::Kind::map) {
        for (const TreeEntry& entry : tree.entries) read_key_entry(entry, context, *keys, declared);
    } else if (tree.kind != TreeNode::Kind::null) {
        Value(context, tree, "", tree.place).wrong_kind("a map of keys: " + std::string(kKeyLine));
    }
    const bool right = context.faults.empty();
    report_faults(std::move(context), value.context());
    if (!right) return nullptr;
    if (keys->size() == 0) value.warn("the file has no keys: Tidegate refuses every API key");
    known->second = keys;
    return keys;
}

FoundMethod read_api_key(Section& section, Declared& declared) {
    identity::ApiKeyMethod method;
    FoundMethod found;
    found.place = method.place();
    if (const auto header = section.find("header")) {
        auto field = read_credential_field(*header, true);
        found.place.reset();
        if (field) {
            method.field = std::move(*field);
            found.place = method.place();
        }
    }
    if (const auto keys = section.need("keys")) {
        method.keys = read_api_keys(*keys, declared);
    }
    found.complete = method.keys != nullptr;
    found.how = std::make_shared<const identity::ApiKeyMethod>(std::move(method));
    return found;
}

// `basic`

const Rows& basic_keys() {
    static const auto keys =
        Rows(kMethodWanted)
            .key("htpasswd", kind::type("file"),
                 {"the [password file](identity.md#basic)", "required", "16 MiB"})
            .required("`htpasswd: users.htpasswd`")
            .key(kNamespace, kind::type("name"), kNamespaceText);
    return keys;
}

std::shared_ptr<const Htpasswd> read_htpasswd(const Value& value, Declared& declared) {
    const auto file = read_referenced_file(value, "users.htpasswd", kListBytesMax);
    if (!file) return nullptr;
    const auto [known, is_new] = declared.credentials.try_emplace("basic\n" + file->path);
    if (!is_new) return std::static_pointer_cast<const Htpasswd>(known->second);
    warn_if_world_writable(value, *file);
    auto users = Htpasswd::parse(file->text);
    if (!users) {
        const identity::HtpasswdFault& fault = users.error();
        value.context().other_errors.push_back({file->path, fault.line, 1, fault.message});
        return nullptr;
    }
    if (users->size() == 0) value.warn("the file has no users: Tidegate refuses every password");
    auto found = std::make_shared<Htpasswd>(std::move(*users));
    known->second = found;
    return found;
}

FoundMethod read_basic(Section& section, Declared& declared) {
    identity::BasicMethod method;
    FoundMethod found;
    found.place = method.place();
    if (const auto file = section.need("htpasswd")) {
        method.users = read_htpasswd(*file, declared);
    }
    found.complete = method.users != nullptr;
    found.how = std::make_shared<const identity::BasicMethod>(std::move(method));
    return found;
}

void warn_about_basic(const IdentityMethod&, const Config& config, const Say& say) {
    if (config.failed_credentials != nullptr) return;
    say("clients can try passwords without a limit, as `failed_credentials` is `off`: remove it "
        "(the default is 60/min), or write a limit such as `20/min`");
}

// `client_certificate`

using Subjects = std::vector<std::pair<std::string_view, Subject>>;

const Subjects& subjects() {
    static const Subjects kAll = [] {
        Subjects all;
        for (const Subject subject : kEnumerators<Subject>)
            all.emplace_back(identity::to_string(subject), subject);
        return all;
    }();
    return kAll;
}

std::vector<std::string_view> subject_names() {
    std::vector<std::string_view> names;
    for (const auto& [name, subject] : subjects()) names.push_back(name);
    return names;
}

const Rows& certificate_method_keys() {
    static const auto keys =
        Rows(kMethodWanted)
            .key("subject", kind::word(subject_names()),
                 {"which name of the client's [certificate](#tls-of-a-listener) is the user's: "
                  "`CN`, `san_uri`, `san_dns`, `san_email` or `sha256`, the hash of the "
                  "certificate in lower-case hex",
                  "`CN`", "needs a listener with `client_auth`"})
            .key("prefix", kind::type("text"),
                 {"what the name begins with. Exactly one name of the certificate must; otherwise "
                  "the credential is invalid",
                  "any",
                  "not with `sha256`. Of URIs, end it behind the host: `spiffe://example.org/`"})
            .key(kNamespace, kind::type("name"), kNamespaceText);
    return keys;
}

// `spiffe://example.org` begins `spiffe://example.org.attacker.example`, too.
void warn_about_open_end(const Value& value, const std::string& prefix) {
    constexpr std::string_view kBeforeHost = "://";
    const std::size_t scheme = prefix.find(kBeforeHost);
    if (scheme == prefix.npos || prefix.ends_with(kBeforeHost)) return;  // any host is meant
    if (prefix.find_first_of("/?#", scheme + kBeforeHost.size()) != prefix.npos) return;
    value.warn(quote(prefix) + " does not end behind the host, so that of " +
               quote(prefix + ".example") + " fits as well: write " + quote(prefix + "/"));
}

FoundMethod read_certificate(Section& section, Declared&) {
    identity::CertificateMethod method;
    section.choice<Subject>("subject", method.subject, subjects());
    if (const auto prefix = section.find("prefix")) {
        method.prefix = prefix->text("what a subject begins with").value_or("");
        if (method.subject == Subject::sha256) {
            prefix->fault(
                "not with `subject: sha256`: a hash has no beginning that means anything");
        } else if (method.subject == Subject::uri) {
            warn_about_open_end(*prefix, method.prefix);
        }
    }
    FoundMethod found;
    found.place = method.place();
    found.complete = true;
    found.how = std::make_shared<const identity::CertificateMethod>(std::move(method));
    return found;
}

void warn_about_certificate(const IdentityMethod&, const Config& config, const Say& say) {
    if (config.asks_for_certificates()) return;
    say("has no effect: no listener asks clients for a certificate; see `tls.client_auth` of "
        "`listen`");
}

// `cookie`

const Rows& cookie_keys() {
    static const auto keys =
        Rows(kMethodWanted)
            .key(
                "name", kind::type("text"),
                {"an opaque cookie, which Tidegate hashes and [does not check](identity.md#cookie)",
                 "required"})
            .required("`name: session`")
            .key(kNamespace, kind::type("name"), kNamespaceText);
    return keys;
}

FoundMethod read_cookie(Section& section, Declared&) {
    FoundMethod found;
    const auto value = section.need("name");
    if (!value) return found;
    auto name = read_cookie_name(*value);
    if (!name) return found;
    found.how = std::make_shared<const identity::CookieMethod>(std::move(*name));
    found.place = found.how->place();
    found.complete = true;
    return found;
}

// `header`

const Rows& header_keys() {
    static const auto keys =
        Rows(kMethodWanted)
            .key("name", kind::type("field_name"),
                 {"the field in which a trusted proxy names the user", "required"})
            .required("`name: x-user-id`")
            .key("from", kind::word({"trusted_proxies"}),
                 {"which peers may send it", "`trusted_proxies`", "the only choice"})
            .key("tier_header", kind::type("field_name"),
                 {"the field in which it names the tier", "none"})
            .key(kNamespace, kind::type("name"), kNamespaceText);
    return keys;
}

FoundMethod read_header(Section& section, Declared&) {
    identity::HeaderMethod method;
    FoundMethod found;
    if (const auto name = section.need("name")) {
        if (auto field = read_credential_field(*name, false)) method.field = std::move(*field);
    }
    if (const auto from = section.find("from")) from->choice<bool>({{"trusted_proxies", true}});
    if (const auto tier = section.find("tier_header")) {
        method.tier_field = read_credential_field(*tier, false).value_or("");
        found.tier_field = method.tier_field;
        if (!found.tier_field.empty()) found.tier_header = tier;
    }
    if (method.field.empty()) return found;
    found.place = method.place();
    found.complete = true;
    found.how = std::make_shared<const identity::HeaderMethod>(std::move(method));
    return found;
}

void warn_about_header(const IdentityMethod&, const Config& config, const Say& say) {
    if (has_trusted_peers(config)) return;
    say("has no effect: only trusted peers may name a user, and there are none; see "
        "identity.client_ip.trusted_proxies");
}

// The methods, and the only place that lists them: in the order of messages and the reference.
std::span<const MethodRow> methods() {
    static const std::array kMethods{
        MethodRow{identity::JwtMethod::kTraits, jwt_keys(),
                  "a signed token (RFC 7519) names the user", read_jwt, warn_about_jwt},
        MethodRow{identity::ApiKeyMethod::kTraits, api_key_keys(), "an API key names the user",
                  read_api_key},
        MethodRow{identity::BasicMethod::kTraits, basic_keys(),
                  "a name and a password (RFC 7617) name the user", read_basic, warn_about_basic},
        MethodRow{identity::CertificateMethod::kTraits, certificate_method_keys(),
                  "the certificate that the client has shown names the user", read_certificate,
                  warn_about_certificate},
        MethodRow{identity::CookieMethod::kTraits, cookie_keys(),
                  "an opaque cookie, which Tidegate hashes and does not check, is the user",
                  read_cookie},
        MethodRow{identity::HeaderMethod::kTraits, header_keys(),
                  "a trusted proxy names the user in a field", read_header, warn_about_header}};
    return kMethods;
}

// Takes the methods one by one, and knows which fields those before read.
class MethodsReader {
  public:
    MethodsReader(Config& config, Declared& declared) : config_(config), declared_(declared) {}

    void read(const Value& item) {
        Section one(item, user_method_keys());
        std::size_t count = 0;
        for (const MethodRow& known : methods()) {
            const auto method = one.find(known.traits.name);
            if (!method) continue;
            ++count;
            read_method(*method, known);
        }
        if (count > 1) item.fault("found several methods: write each as a list item of its own");
        one.refuse_others();
        if (item.is_map() && item.is_empty()) {
            item.fault("found an empty map; expected " + std::string(kWantedMethod));
        }
    }

  private:
    struct Seen {
        CredentialPlace place;
        bool is_tier = false;  // names no user, so several methods may read it
        std::string method{};
    };

    void read_method(const Value& value, const MethodRow& known) {
        Section section(value, known.keys);
        FoundMethod found = known.read(section, declared_);
        std::string space;
        if (const auto name = section.find(kNamespace)) {
            space = name->identifier().value_or("");
        }
        section.refuse_others();
        if (!found.place || !claim_place(value, *found.place)) return;
        if (found.tier_header) {
            claim_tier(*found.tier_header, value.name(), found.tier_field);
        }
        if (!found.complete) return;
        config_.user_methods.emplace_back(std::move(space), std::move(found.how));
        declared_.user_methods.push_back({value.place(), value.name()});
    }

    const Seen* reader_of(const CredentialPlace& place, bool is_tier) const {
        const auto found = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& other) {
            return other.place == place && !(other.is_tier && is_tier);
        });
        return found != seen_.end() ? &*found : nullptr;
    }

    // Two methods that read the same field: the second never sees what the first refuses.
    bool claim_place(const Value& method, const CredentialPlace& place) {
        if (const Seen* other = reader_of(place, false)) {
            const bool is_certificate = place.in == In::certificate;
            method.fault(place.to_string() + " is read by " + other->method +
                         ", too, and Tidegate does not try a second method on a refused "
                         "credential: " +
                         (is_certificate ? "keep one method" : "choose another header or cookie"));
            return false;
        }
        seen_.push_back({place, false, method.name()});
        return true;
    }

    void claim_tier(const Value& value, const std::string& method, const std::string& field) {
        const CredentialPlace place{In::field, field};
        if (const Seen* other = reader_of(place, true)) {
            value.fault(place.to_string() + " is read by " + other->method +
                        ", too: choose another field for the tier");
            return;
        }
        seen_.push_back({place, true, method});
    }

    Config& config_;
    Declared& declared_;
    std::vector<Seen> seen_;
};

}  // namespace

const Rows& user_method_keys() {
    static const auto keys = [] {
        Rows rows(kWantedMethod, "user_method");
        for (const MethodRow& method : methods()) {
            rows.append(method.traits.name, kind::map(method.keys), {method.what});
        }
        return std::move(rows).one_of_them();
    }();
    return keys;
}

void read_user_methods(const Value& value, Config& config, Declared& declared) {
    constexpr ListRule kMethods{"a list: `- header: {name: x-user-id, from: trusted_proxies}`",
                                "methods", 16};
    MethodsReader reader(config, declared);
    for (const Value& item : value.items(kMethods)) reader.read(item);
}

// What routes and policies need of users and their credentials, and where requests have these.

void read_route_identity(const Value& value, const Config& config, Route& route) {
    const auto chosen = value.choice<bool>({{"required", true}, {"optional", false}});
    route.needs_user = chosen.value_or(route.needs_user);
    route.states_identity = true;
    const Context& context = value.context();
    const bool reads_well = context.faults.empty() && context.other_errors.empty();
    if (chosen == true && config.user_methods.empty() && reads_well) {
        value.fault(
            "no request has a user, as identity.user lists no method: add one, or remove "
            "this key");
    }
}

void tell_methods_what_counts(Config& config) {
    std::set<std::string_view> tiers;
    for (const auto& policy : config.policies) {
        for (const limit::Tier& tier : policy->tiers) tiers.insert(tier.name);
        tiers.insert(policy->exempt.tiers.begin(), policy->exempt.tiers.end());
        tiers.insert(policy->deny.tiers.begin(), policy->deny.tiers.end());
    }
    const std::vector<std::string> names(tiers.begin(), tiers.end());
    for (identity::UserMethod& method : config.user_methods) {
        if (auto keeping = method.how->keeping(config.claims, names)) {
            method.how = std::move(keeping);
        }
    }
}

void list_credential_fields(Config& config) {
    std::vector<std::string>& fields = config.credential_fields;
    for (const identity::UserMethod& method : config.user_methods) {
        std::string field = method.how->place().field();
        if (!field.empty()) fields.push_back(std::move(field));
    }
    for (const auto& policy : config.policies) {
        limit::for_each_part(policy->key, [&](const limit::KeyPart& part) {
            const bool is_field = part.kind == limit::KeyPart::Kind::header;
            if (is_field && part.secret) fields.push_back(part.name);
        });
    }
    std::sort(fields.begin(), fields.end());
    fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
}

// Settings that are valid but probably a mistake.

std::string methods_with(bool identity::MethodTraits::*trait) {
    std::vector<std::string_view> names;
    for (const MethodRow& method : methods()) {
        if (method.traits.*trait) names.push_back(method.traits.name);
    }
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i != 0) text += i + 1 == names.size() ? " or " : ", ";
        text += quote(names[i]);
    }
    return text;
}

namespace {

void warn_at(const Declared::Method& method, const std::string& what, Context& context) {
    context.warnings.push_back({method.place, method.name + ": " + what});
}

void warn_about_names(const Config& config, const Declared& declared, Context& context) {
    const auto& configured = config.user_methods;
    for (std::size_t i = 1; i < configured.size(); ++i) {
        for (std::size_t earlier = 0; earlier < i; ++earlier) {
            if (configured[i].space != configured[earlier].space ||
                configured[i].how->is_same_authority(*configured[earlier].how)) {
                continue;
            }
            warn_at(declared.user_methods[i],
                    "can name the same user as " + declared.user_methods[earlier].name +
                        ", and Tidegate cannot tell them apart: give one method a `namespace`",
                    context);
            break;
        }
    }
}

}  // namespace

bool takes_any_tier(const Config& config) {
    return std::any_of(config.user_methods.begin(), config.user_methods.end(),
                       [](const auto& method) { return method.how->gives_tiers(); });
}

bool gives_tiers(const Config& config, const Declared& declared) {
    return !declared.user_tiers.empty() || takes_any_tier(config);
}

void warn_about_identity(const Config& config, const Declared& declared, Context& context) {
    for (std::size_t i = 0; i < config.user_methods.size(); ++i) {
        const IdentityMethod& method = *config.user_methods[i].how;
        const auto row = std::find_if(methods().begin(), methods().end(), [&](const auto& one) {
            return &one.traits == &method.traits();
        });
        if (row == methods().end() || row->warn == nullptr) continue;
        row->warn(method, config, [&](const std::string& warning) {
            warn_at(declared.user_methods[i], warning, context);
        });
    }
    warn_about_names(config, declared, context);
}

}  // namespace tidegate::config
