// `user` of `identity`: the methods that name a user, in the order Tidegate tries them, and what
// policies need of them.
#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/user_method.hpp"
#include "config/value.hpp"

namespace tidegate::config {

namespace {

constexpr std::string_view kWantedMethod =
    "a map of one method: `header: {name: x-user-id, from: trusted_proxies}`";

using Subject = identity::CertificateMethod::Subject;
constexpr std::array<std::pair<std::string_view, Subject>, 5> kSubjects{
    {{"CN", Subject::common_name},
     {"san_uri", Subject::uri},
     {"san_dns", Subject::dns},
     {"san_email", Subject::email},
     {"sha256", Subject::sha256}}};

std::vector<std::string_view> subject_names() {
    std::vector<std::string_view> names;
    names.reserve(kSubjects.size());
    for (const auto& [name, subject] : kSubjects) names.push_back(name);
    return names;
}

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

const Rows& basic_keys() {
    static const auto keys =
        Rows(kMethodWanted)
            .key("htpasswd", kind::type("file"),
                 {"the [password file](identity.md#basic)", "required", "16 MiB"})
            .required("`htpasswd: users.htpasswd`")
            .key(kNamespace, kind::type("name"), kNamespaceText);
    return keys;
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

FoundMethod read_api_key(Section& section, Declared& declared) {
    identity::ApiKeyMethod method;
    FoundMethod found;
    found.place = place_of_secret(method.field);
    if (const auto header = section.find("header")) {
        auto field = read_credential_field(*header, true);
        found.place.reset();
        if (field) found.place = place_of_secret(*field);
        if (field) method.field = std::move(*field);
    }
    if (const auto keys = section.need("keys")) {
        method.keys = read_api_keys(*keys, declared);
    }
    found.complete = method.keys != nullptr;
    found.how = std::move(method);
    return found;
}

FoundMethod read_basic(Section& section, Declared& declared) {
    identity::BasicMethod method;
    FoundMethod found;
    found.place = CredentialPlace{CredentialPlace::In::basic};
    if (const auto file = section.need("htpasswd")) {
        method.users = read_htpasswd(*file, declared);
    }
    found.complete = method.users != nullptr;
    found.how = std::move(method);
    return found;
}

FoundMethod read_cookie(Section& section, Declared&) {
    FoundMethod found;
    const auto value = section.need("name");
    if (!value) return found;
    auto name = read_cookie_name(*value);
    if (!name) return found;
    found.place = CredentialPlace{CredentialPlace::In::cookie, *name};
    found.complete = true;
    found.how = identity::CookieMethod{std::move(*name)};
    return found;
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
    section.choice<Subject>("subject", method.subject, kSubjects);
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
    found.place = CredentialPlace{CredentialPlace::In::certificate};
    found.complete = true;
    found.how = std::move(method);
    return found;
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
        if (!method.tier_field.empty()) found.tier_header = tier;
    }
    if (method.field.empty()) return found;
    found.place = CredentialPlace{CredentialPlace::In::field, method.field};
    found.complete = true;
    found.how = std::move(method);
    return found;
}

// A method, and the only place that lists it.
struct Method {
    std::string_view key;
    const KeyRows& keys;
    std::string_view what;
    FoundMethod (*read)(Section&, Declared&);
};

std::span<const Method> methods() {
    static const std::array kMethods{
        Method{"jwt", jwt_keys(), "a signed token (RFC 7519) names the user", read_jwt},
        Method{"api_key", api_key_keys(), "an API key names the user", read_api_key},
        Method{"basic", basic_keys(), "a name and a password (RFC 7617) name the user", read_basic},
        Method{"client_certificate", certificate_method_keys(),
               "the certificate that the client has shown names the user", read_certificate},
        Method{"cookie", cookie_keys(),
               "an opaque cookie, which Tidegate hashes and does not check, is the user",
               read_cookie},
        Method{"header", header_keys(), "a trusted proxy names the user in a field", read_header}};
    return kMethods;
}

// Takes the methods one by one, and knows which fields those before read.
class MethodsReader {
  public:
    MethodsReader(Config& config, Declared& declared) : config_(config), declared_(declared) {}

    void read(const Value& item) {
        Section one(item, user_method_keys());
        std::size_t count = 0;
        for (const Method& known : methods()) {
            const auto method = one.find(known.key);
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

    void read_method(const Value& value, const Method& known) {
        Section section(value, known.keys);
        FoundMethod found = known.read(section, declared_);
        std::string space;
        if (const auto name = section.find(kNamespace)) {
            space = name->identifier().value_or("");
        }
        section.refuse_others();
        if (!found.place || !claim_place(value, *found.place)) return;
        if (found.tier_header) {
            claim_tier(*found.tier_header, value.name(),
                       std::get<identity::HeaderMethod>(found.how).tier_field);
        }
        if (!found.complete) return;
        config_.user_methods.push_back({std::move(space), std::move(found.how)});
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
            const bool is_certificate = place.in == CredentialPlace::In::certificate;
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
        const CredentialPlace place{CredentialPlace::In::field, field};
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
        for (const Method& method : methods()) {
            rows.append(method.key, kind::map(method.keys), {method.what});
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

namespace {

// Why a field can name no user. Empty: it can.
std::string fault_of_field(const std::string& name) {
    std::string dashed = name;
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    if (dashed == "cookie") return "to read a cookie, write `cookie: NAME`";
    if (http::field_name(dashed) == http::FieldName::other && dashed != "set-cookie") return {};
    return "HTTP gives this field a meaning of its own";
}

}  // namespace

bool CredentialPlace::operator==(const CredentialPlace& other) const {
    if (in != other.in) return false;
    return in == In::cookie ? name == other.name : http::equal_as_variable(name, other.name);
}

std::string CredentialPlace::to_string() const {
    switch (in) {
        case In::bearer:
            return "`Authorization: Bearer`";
        case In::basic:
            return "`Authorization: Basic`";
        case In::field:
            return "the field " + quote(name);
        case In::certificate:
            return "the client's certificate";
        case In::cookie:
            break;
    }
    return "the cookie " + quote(name);
}

CredentialPlace place_of_secret(const std::string& field) {
    if (field == "authorization") return {CredentialPlace::In::bearer};
    return {CredentialPlace::In::field, field};
}

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
    for (identity::UserMethod& method : config.user_methods) {
        auto* const jwt = std::get_if<identity::JwtMethod>(&method.how);
        if (jwt == nullptr) continue;
        jwt->claims = config.claims;
        jwt->known_tiers.assign(tiers.begin(), tiers.end());
    }
}

void list_credential_fields(Config& config) {
    std::vector<std::string>& fields = config.credential_fields;
    for (const identity::UserMethod& method : config.user_methods) {
        if (const auto* jwt = std::get_if<identity::JwtMethod>(&method.how)) {
            if (jwt->cookie.empty()) fields.push_back(jwt->field);
        } else if (const auto* key = std::get_if<identity::ApiKeyMethod>(&method.how)) {
            fields.push_back(key->field);
        } else if (const auto* header = std::get_if<identity::HeaderMethod>(&method.how)) {
            fields.push_back(header->field);
        }
    }
    for (const auto& policy : config.policies) {
        for (const limit::Key& key : policy->key) {
            for (const auto& choice : key.choices) {
                for (const limit::KeyPart& part : choice) {
                    const bool is_field = part.kind == limit::KeyPart::Kind::header;
                    if (is_field && part.secret) fields.push_back(part.name);
                }
            }
        }
    }
    std::sort(fields.begin(), fields.end());
    fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
}

}  // namespace tidegate::config
