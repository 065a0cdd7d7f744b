#include "ask/identifiers.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/case_folding.hpp"
#include "base/utf8.hpp"
#include "http/query_and_method_override.hpp"
#include "identity/credentials.hpp"
#include "identity/identifier.hpp"
#include "routing/router.hpp"

namespace tidegate::ask {

namespace {

using http::RequestValue;
using Kind = limit::KeyPart::Kind;

// The first name of a JSON pointer (RFC 6901).
std::string first_name(std::string_view pointer) {
    std::string name(pointer.substr(1, pointer.find('/', 1) - 1));
    for (std::size_t at = name.find('~'); at != name.npos; at = name.find('~', at + 1)) {
        name.replace(at, 2, name.substr(at, 2) == "~0" ? "~" : "/");
    }
    return name;
}

// Whether a server that goes by the type finds the member in a form, and another one in JSON.
bool is_in_form_too(const InspectedBody& body, std::string_view pointer) {
    return body.is_form && body.json.is_json &&
           http::could_have_parameter(body.text, first_name(pointer));
}

}  // namespace

std::string counted_query_value(std::string value) {
    std::replace(value.begin(), value.end(), '+', ' ');
    return std::string(without_outer_blanks(value));
}

std::string_view counted_method(std::string_view method, const config::Config& config) {
    if (method == "GET" || method == "HEAD") return "GET";
    if (http::registered_method(method) == method || config.router.names_method(method)) {
        return method;
    }
    return "other";
}

std::string counted_host(std::string_view host) {
    return std::string(routing::HostName(host).view());
}

std::string_view kind_name(Kind kind) {
    return kind == Kind::capture ? "path" : to_string(kind);
}

std::string part_text(const limit::KeyPart& part) {
    std::string out(kind_name(part.kind));
    if (part.name.empty()) return out;
    out += ':';
    if (part.kind == Kind::claim) {
        identity::append_claim_name(part.name, out);
    } else {
        out += part.name;
    }
    return out;
}

bool is_part_text(std::string_view text, const limit::KeyPart& part) {
    if (part.kind == Kind::claim) return text == part_text(part);
    const std::string_view kind = kind_name(part.kind);
    if (part.name.empty()) return text == kind;
    return text.size() == kind.size() + 1 + part.name.size() && text.starts_with(kind) &&
           text[kind.size()] == ':' && text.ends_with(part.name);
}

std::string key_text(const limit::Key& key) {
    std::string out;
    for (const auto& choice : key.choices) {
        if (!out.empty()) out += '|';
        bool first = true;
        for (const limit::KeyPart& part : choice) {
            if (!first) out += '+';
            first = false;
            out += part_text(part);
        }
    }
    return out;
}

IdentifierMaker::Made IdentifierMaker::make(const limit::Key& key) {
    for (const Choice& choice : key.choices) {
        const Made made = choice.size() == 1 ? make_part(choice.front()) : make_joined(choice);
        if (made == Made::missing) continue;
        is_of_client_ = std::any_of(choice.begin(), choice.end(),
                                    [](const Part& part) { return part.names_client(); });
        return made;
    }
    return Made::missing;
}

void IdentifierMaker::make_shared(const limit::Key& key) {
    is_of_client_ = false;
    keep(write(
        [&](std::string& out) { identity::append_identifier("shared", key_text(key), out); }));
}

IdentifierMaker::Made IdentifierMaker::make_part(const Part& part) {
    switch (part.kind) {
        case Kind::ip:
            return write_addresses() ? Made::some : Made::missing;
        case Kind::user:
            return write_user() ? Made::some : Made::missing;
        case Kind::route:
        case Kind::constant:
            keep(write([&](std::string& out) {
                identity::append_identifier(
                    kind_name(part.kind),
                    part.kind == Kind::route ? decision_.route->name : part.name, out);
            }));
            return Made::some;
        case Kind::header:
        case Kind::query:
            return make_stated(part);
        case Kind::capture:
            return make_capture(part);
        case Kind::method:
            keep(write([&](std::string& out) {
                identity::append_identifier("method", counted_method(facts_.head.method, config_),
                                            out);
            }));
            return Made::some;
        case Kind::host:
            return make_host();
        case Kind::claim:
            return make_claim(part);
        case Kind::cookie:
            return make_cookie(part);
        case Kind::body:
        case Kind::body_lower:
            return make_member(part);
        case Kind::form:
            return make_form_field(part);
    }
    return Made::missing;
}

IdentifierMaker::Made IdentifierMaker::make_stated(const Part& part) {
    const http::RequestHead& request = facts_.head;
    RequestValue stated = part.kind == Kind::header
                              ? http::value_in_fields(request.fields, part.name)
                              : http::value_in_query(request.query, part.name);
    if (stated.how == RequestValue::How::absent) return Made::missing;
    if (stated.how == RequestValue::How::unclear) return Made::unclear;
    if (part.kind == Kind::query) stated.value = counted_query_value(std::move(stated.value));
    if (without_outer_blanks(stated.value).empty()) return Made::missing;
    keep_named(part, stated.value);
    return Made::some;
}

void IdentifierMaker::keep_named(const Part& part, std::string_view value) {
    keep(write([&](std::string& out) {
        if (part.secret) {
            identity::append_secret_identifier(kind_name(part.kind), part.name, value, out);
        } else {
            identity::append_named_identifier(kind_name(part.kind), part.name, value, out);
        }
    }));
}

IdentifierMaker::Made IdentifierMaker::make_capture(const Part& part) {
    if (!captures_) {
        // A face that asks for a policy alone has no route, and states the values.
        const bool has_route = decision_.route_index != telemetry::kNoRoute;
        captures_ = has_route ? config_.router.captures(decision_.route_index, facts_.head.path)
                              : facts_.captures;
    }
    const auto& names = decision_.route->captures;
    const auto name = std::find(names.begin(), names.end(), part.name);
    const auto position = static_cast<std::size_t>(name - names.begin());
    if (position >= captures_->size() || without_outer_blanks((*captures_)[position]).empty()) {
        return Made::missing;
    }
    keep(write([&](std::string& out) {
        identity::append_named_identifier("path", part.name, (*captures_)[position], out);
    }));
    return Made::some;
}

IdentifierMaker::Made IdentifierMaker::make_host() {
    if (facts_.host.empty()) return Made::missing;  // of HTTP/1.0
    const routing::HostName host(facts_.host);
    if (host.view().empty()) return Made::unclear;
    keep(write([&](std::string& out) { identity::append_identifier("host", host.view(), out); }));
    return Made::some;
}

// The authenticator has made the identifiers when it checked the token.
IdentifierMaker::Made IdentifierMaker::make_claim(const Part& part) {
    const auto claim = identity::claim_identifier(decision_.authentication->claims, part.claim);
    if (claim.empty()) return Made::missing;
    keep(write([&](std::string& out) { out += claim; }));
    return Made::some;
}

IdentifierMaker::Made IdentifierMaker::make_cookie(const Part& part) {
    using State = identity::Credential::State;
    const identity::Credential cookie = identity::find_cookie(facts_.head.fields, part.name);
    if (cookie.state == State::absent) return Made::missing;
    if (cookie.state != State::present) return Made::unclear;
    std::string room;
    const std::string_view value = identity::counted_cookie_value(cookie.text, room);
    if (value.empty()) return Made::missing;
    keep(write([&](std::string& out) {
        identity::append_secret_identifier("cookie", part.name, value, out);
    }));
    return Made::some;
}

// A body that is not read, or too long to be read, is refused before this where a key needs it.
IdentifierMaker::Made IdentifierMaker::make_member(const Part& part) {
    if (facts_.body == nullptr || part.claim >= facts_.body->json.members.size()) {
        return Made::missing;
    }
    const usage::JsonMember& member = facts_.body->json.members[part.claim];
    if (member.ambiguous || is_in_form_too(*facts_.body, part.name)) return unclear_in_body(part);
    if (!member.is_scalar() || without_outer_blanks(member.text).empty()) return Made::missing;
    std::string room;
    if (part.kind == Kind::body_lower) room = fold_case(member.text);
    keep_named(part, part.kind == Kind::body_lower ? room : member.text);
    return Made::some;
}

IdentifierMaker::Made IdentifierMaker::make_form_field(const Part& part) {
    if (facts_.body == nullptr || !facts_.body->is_form) return Made::missing;
    RequestValue stated = http::value_in_query(facts_.body->text, part.name);
    if (stated.how == RequestValue::How::absent) return Made::missing;
    // A server that does not go by the type reads JSON, and no form. Servlets take the parameter of
    // the query first.
    if (stated.how == RequestValue::How::unclear || facts_.body->json.is_json ||
        http::could_have_parameter(facts_.head.query, part.name)) {
        return unclear_in_body(part);
    }
    stated.value = counted_query_value(std::move(stated.value));
    if (stated.value.empty()) return Made::missing;
    keep_named(part, stated.value);
    return Made::some;
}

// Only an address makes several identifiers: then each of them is joined with the other parts.
IdentifierMaker::Made IdentifierMaker::make_joined(const Choice& choice) {
    struct Piece {
        std::array<IdentifierSpan, kMadeMax> spans;
        std::size_t count;
    };
    std::vector<Piece> pieces;
    std::size_t count = 1;
    for (const Part& part : choice) {
        const Made made = make_part(part);
        if (made != Made::some) return made;
        pieces.push_back({made_, made_count_});
        count = std::max(count, made_count_);
    }
    std::vector<std::string_view> parts(pieces.size());
    std::string joined;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t k = 0; k < pieces.size(); ++k) {
            const IdentifierSpan span = pieces[k].spans[std::min(i, pieces[k].count - 1)];
            parts[k] = std::string_view(text_).substr(span.begin, span.size);
        }
        joined.clear();
        identity::append_joined_identifier(parts, joined);
        made_[i] = write([&](std::string& out) { out += joined; });
    }
    made_count_ = count;
    return Made::some;
}

bool IdentifierMaker::write_addresses() {
    if (!decision_.client) return false;
    if (address_count_ == 0) {
        for (const int prefix : config_.client_ip.prefixes.of(*decision_.client)) {
            if (address_count_ == kMadeMax) break;
            addresses_[address_count_++] = write([&](std::string& out) {
                identity::append_ip_identifier(*decision_.client, prefix, out);
            });
        }
    }
    made_ = addresses_;
    made_count_ = address_count_;
    return true;
}

bool IdentifierMaker::write_user() {
    if (!decision_.user) return false;
    if (!user_) {
        user_ = write(
            [&](std::string& out) { identity::append_user_identifier(*decision_.user, out); });
    }
    keep(*user_);
    return true;
}

template <class Append>
IdentifierSpan IdentifierMaker::write(Append append) {
    const std::size_t begin = text_.size();
    append(text_);
    return {begin, text_.size() - begin};
}

// FNV-1a, whose high bits are mixed in: similar identifiers have hashes that differ all over.
std::optional<std::uint64_t> hash_of(const limit::Key& key, const config::Config& config,
                                     const Facts& facts, const Decision& decision,
                                     std::string& text) {
    text.clear();
    IdentifierMaker maker(config, facts, decision, text);
    if (maker.make(key) != IdentifierMaker::Made::some) return std::nullopt;
    const IdentifierSpan span = maker.made().front();
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : std::string_view(text).substr(span.begin, span.size)) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    hash ^= hash >> 32U;
    hash *= 0xd6e8feb86659fd93;
    return hash ^ (hash >> 32U);
}

std::string descriptor_identifier(const std::vector<std::pair<std::string, std::string>>& entries,
                                  const std::vector<std::string_view>& values) {
    constexpr std::size_t kNameBytesMax = 48;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const std::string& key = entries[i].first;
        std::string& part = parts.emplace_back();
        if (key.size() <= kNameBytesMax && key.find('=') == std::string::npos) {
            identity::append_named_identifier("descriptor", key, values[i], part);
        } else {
            std::string pair = std::to_string(key.size());
            pair.append(":").append(key).append(without_outer_blanks(values[i]));
            identity::append_identifier("pair", pair, part);
        }
    }
    if (parts.size() == 1) return std::move(parts.front());
    const std::vector<std::string_view> views(parts.begin(), parts.end());
    std::string joined;
    identity::append_joined_identifier(views, joined);
    return joined;
}

std::string override_identifier(std::string_view domain,
                                const std::vector<std::pair<std::string, std::string>>& entries,
                                const std::vector<std::string_view>& values) {
    std::string shared;
    identity::append_identifier("domain", domain, shared);
    const std::string rest = descriptor_identifier(entries, values);
    std::string joined;
    identity::append_joined_identifier(std::vector<std::string_view>{shared, rest}, joined);
    return joined;
}

}  // namespace tidegate::ask
