// `user` of `identity`: the methods that name a user, in the order Tidegate tries them.
#include <algorithm>
#include <array>
#include <utility>

#include "base/quote.hpp"
#include "config/read_sections.hpp"
#include "config/user_method.hpp"

namespace tidegate::config {

namespace {

constexpr std::string_view kWantedMethod =
    "a map of one method: `header: {name: x-user-id, from: trusted_proxies}`";

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
    if (const auto keys = section.need("keys", "`keys: api-keys.yaml`")) {
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
    if (const auto file = section.need("htpasswd", "`htpasswd: users.htpasswd`")) {
        method.users = read_htpasswd(*file, declared);
    }
    found.complete = method.users != nullptr;
    found.how = std::move(method);
    return found;
}

FoundMethod read_cookie(Section& section, Declared&) {
    FoundMethod found;
    const auto value = section.need("name", "`name: session`");
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
    using Subject = identity::CertificateMethod::Subject;
    identity::CertificateMethod method;
    section.choice<Subject>("subject", method.subject,
                            {{"CN", Subject::common_name},
                             {"san_uri", Subject::uri},
                             {"san_dns", Subject::dns},
                             {"san_email", Subject::email},
                             {"sha256", Subject::sha256}});
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
    if (const auto name = section.need("name", "`name: x-user-id`")) {
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

// Takes the methods one by one, and knows which fields those before read.
class MethodsReader {
  public:
    MethodsReader(Config& config, Declared& declared) : config_(config), declared_(declared) {}

    void read(const Value& item) {
        constexpr std::array<std::pair<std::string_view, Reading>, 6> kMethods{
            {{"jwt", read_jwt},
             {"api_key", read_api_key},
             {"basic", read_basic},
             {"client_certificate", read_certificate},
             {"cookie", read_cookie},
             {"header", read_header}}};
        Section one(item, kWantedMethod);
        std::size_t count = 0;
        for (const auto& [key, reading] : kMethods) {
            const auto method = one.find(key);
            if (!method) continue;
            ++count;
            read_method(*method, reading);
        }
        if (count > 1) item.fault("found several methods: write each as a list item of its own");
        one.refuse_others();
        if (item.is_map() && item.is_empty()) {
            item.fault("found an empty map; expected " + std::string(kWantedMethod));
        }
    }

  private:
    using Reading = FoundMethod (*)(Section&, Declared&);

    struct Seen {
        CredentialPlace place;
        bool is_tier = false;  // names no user, so several methods may read it
        std::string method{};
    };

    void read_method(const Value& value, Reading reading) {
        Section section(value, "a map of the method's settings");
        FoundMethod found = reading(section, declared_);
        std::string space;
        if (const auto name = section.find("namespace")) {
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

void read_user_methods(const Value& value, Config& config, Declared& declared) {
    constexpr ListRule kMethods{"a list: `- header: {name: x-user-id, from: trusted_proxies}`",
                                "methods", 16};
    MethodsReader reader(config, declared);
    for (const Value& item : value.items(kMethods)) reader.read(item);
}

}  // namespace tidegate::config
