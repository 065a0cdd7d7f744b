// `key` of a policy: what it counts, each for itself.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
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
#include "usage/json_reader.hpp"

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
constexpr std::size_t kPointerBytesMax = 256;
constexpr std::size_t kBodyPointersMax = 32;  // that all policies count by
constexpr std::string_view kParts =
    "`ip`, `user`, `route`, `method`, `host`, `constant:NAME`, `header:NAME`, `query:NAME`, "
    "`cookie:NAME`, `claim:NAME`, `path:NAME`, `body:/POINTER`, `body_lower:/POINTER` or "
    "`form:NAME`, joined by `+`; `|` comes before an alternative for a missing value";

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

// What the name in a key of this kind is of; empty: no name.
std::string_view what_is_named_by(std::string_view kind) {
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNamed{
        {{"header", "a field"},
         {"cookie", "a cookie"},
         {"query", "a parameter"},
         {"form", "a parameter"},
         {"path", "a capture"},
         {"constant", "a constant"}}};
    const auto found = std::find_if(kNamed.begin(), kNamed.end(),
                                    [&](const auto& entry) { return entry.first == kind; });
    return found != kNamed.end() ? found->second : std::string_view();
}

bool is_capture_name(std::string_view name) {
    return is_identifier(name) && name.find('.') == name.npos;
}

// Empty: it can be part of a key.
std::string fault_of_pointer(std::string_view pointer) {
    if (!usage::is_json_pointer(pointer)) {
        return "write a JSON pointer to a member of the body, such as `body:/model` (RFC 6901: "
               "`~1` stands for `/` in a name, `~0` for `~`)";
    }
    const bool is_visible = std::all_of(pointer.begin(), pointer.end(),
                                        [](char c) { return c > ' ' && c <= '~' && c != '='; });
    if (!is_visible) {
        return "a pointer in a key has visible ASCII characters but `=`, `+` and `|`, so this "
               "member cannot be counted by";
    }
    if (pointer.size() > kPointerBytesMax) {
        return "a pointer has at most " + std::to_string(kPointerBytesMax) + " bytes";
    }
    return {};
}

class KeyReader {
  public:
    KeyReader(const Value& value, Config& config) : value_(value), config_(config) {}

    // Nothing after a fault.
    std::optional<Key> read(std::string_view text) {
        text_ = text;
        Key key;
        for (std::size_t end = 0; end != text.npos;) {
            end = text.find('|');
            const std::string_view written = take_until(text, '|');
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
            const std::string_view written = take_until(text, '+');
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
        const std::string_view kind = take_until(text, ':');
        if (has_name && kind == "claim") return read_claim(text);
        if (has_name && kind == "body") return read_member(Kind::body, whole, text);
        if (has_name && kind == "body_lower") return read_member(Kind::body_lower, whole, text);
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
        if (has_name && kind == "form" && !name.empty() && is_query_name(name)) {
            const bool secret = looks_secret(name);
            return KeyPart{Kind::form, std::move(name), secret};
        }
        if (has_name && kind == "header" && is_token(name)) return read_field(std::move(name));
        if (has_name && kind == "cookie" && is_token(name)) {
            return KeyPart{Kind::cookie, std::move(name), true};
        }
        const std::string_view named = has_name && !name.empty() ? what_is_named_by(kind) : "";
        if (!named.empty())
            return wrong(quote(name) + " cannot be the name of " + std::string(named));
        return wrong("unknown key " + quote(whole) + "; allowed here: " + std::string(kParts) +
                     (text_.find("body") == text_.npos
                          ? ""
                          : ". A pointer in a key cannot have `=`, `+` or `|`"));
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
        const auto position = position_of_claim(value_, *name, config_);
        if (!position) return std::nullopt;
        return KeyPart{Kind::claim, std::move(*name), false, *position};
    }

    // `whole`: the part as it is written.
    std::optional<KeyPart> read_member(Kind kind, const std::string& whole,
                                       std::string_view pointer) {
        if (const std::string fault = fault_of_pointer(pointer); !fault.empty()) {
            return wrong(quote(whole) + ": " + fault);
        }
        const bool secret = looks_secret(pointer.substr(pointer.rfind('/')));
        if (secret && pointer.size() > kNameBytesMax) {
            return wrong(quote(whole) + ": a pointer to a secret has at most " +
                         std::to_string(kNameBytesMax) + " bytes");
        }
        auto& known = config_.body_pointers;
        const auto found = std::find(known.begin(), known.end(), pointer);
        const auto position = static_cast<std::uint16_t>(found - known.begin());
        if (found == known.end()) {
            if (known.size() == kBodyPointersMax) {
                return wrong("policies count by more than " + std::to_string(kBodyPointersMax) +
                             " different members of bodies");
            }
            known.emplace_back(pointer);
        }
        return KeyPart{kind, std::string(pointer), secret, position};
    }

    std::nullopt_t wrong(const std::string& what) const {
        value_.fault(what);
        return std::nullopt;
    }

    const Value& value_;
    Config& config_;
    std::string_view text_;  // the whole key
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

std::optional<std::uint16_t> position_of_claim(const Value& value, const std::string& name,
                                               Config& config) {
    auto& known = config.claims;
    const auto found = std::find(known.begin(), known.end(), name);
    const auto position = static_cast<std::uint16_t>(found - known.begin());
    if (found != known.end()) return position;
    if (known.size() == identity::kCountedClaimsMax) {
        value.fault("policies count by more than " + std::to_string(identity::kCountedClaimsMax) +
                    " different claims");
        return std::nullopt;
    }
    known.push_back(name);
    return position;
}

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
    auto key = text ? KeyReader(value, config).read(*text) : std::nullopt;
    if (!key || !limit::any_part({&*key, 1}, &KeyPart::reads_body)) return key;
    value.fault(
        "`body:`, `body_lower:` and `form:` are keys of policies only: Tidegate does not choose a "
        "server by the body");
    return std::nullopt;
}

std::string missing_capture(std::span<const Key> keys, const Route& route) {
    const KeyPart* const missing = limit::find_part(keys, [&](const KeyPart& part) {
        return part.kind == Kind::capture && std::find(route.captures.begin(), route.captures.end(),
                                                       part.name) == route.captures.end();
    });
    return missing != nullptr ? missing->name : std::string();
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

}  // namespace tidegate::config
