#include "identity/jwk_set.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>
#include <openssl/err.h>

#include "base/quote.hpp"

namespace tidegate::identity {
namespace {

// `key 3 (kid `2026-a`)`: how a sentence calls a member of the set.
std::string name_of(const JsonValue& member, std::size_t number) {
    std::string name = "key " + std::to_string(number);
    if (!member.is_object()) return name;
    if (const auto kid = string_member(member, "kid")) name += " (kid " + quote(*kid) + ")";
    return name;
}

}  // namespace

Result<std::shared_ptr<const JwkSet>, std::string> JwkSet::parse(std::string_view json,
                                                                 Origin origin) {
    if (json.size() > kJwkSetBytesMax) return std::string("more than 1 MiB");
    auto document = parse_json_object(json);
    if (!document) return document.error();
    const JsonValue* keys = find_member(*document, "keys");
    if (keys == nullptr || !keys->is_array())
        return std::string("no `keys`, or no list: `{\"keys\": [...]}`");
    const std::size_t count = keys->size();
    if (count > kJwkSetKeysMax)
        return "more than " + std::to_string(kJwkSetKeysMax) + " keys: " + std::to_string(count);

    // A key that cannot be made leaves its reason with OpenSSL, where TLS would find it.
    ERR_set_mark();
    std::shared_ptr<JwkSet> set(new JwkSet);
    std::optional<std::string> fault;
    for (std::size_t i = 0; i < count && !fault; ++i) fault = set->take((*keys)[i], i + 1, origin);
    ERR_pop_to_mark();
    if (fault) return *std::move(fault);
    if (set->keys_.empty() && origin == Origin::file)
        return std::string("no key in it can check a token");
    return std::shared_ptr<const JwkSet>(std::move(set));
}

std::optional<std::string> JwkSet::take(const JsonValue& member, std::size_t number,
                                        Origin origin) {
    JwkReading reading = read_jwk(member);
    const std::string name = name_of(member, number);
    if (!reading.key) {
        if (reading.malformed && origin == Origin::file) return name + ": " + reading.remark;
        warnings_.push_back(name + " is left out: " + reading.remark);
        return std::nullopt;
    }
    const bool twice = std::any_of(keys_.begin(), keys_.end(), [&](const Jwk& other) {
        return other.kid && other.kid == reading.key->kid && other.kind == reading.key->kind;
    });
    if (twice) {
        // RFC 7517 section 4.5: only keys of different kinds may share one.
        if (origin == Origin::file) return name + ": another key of its kind has the same `kid`";
        warnings_.push_back(name + ": another key of its kind has the same `kid`");
    }
    if (reading.key->kind == KeyKind::secret && origin == Origin::fetched)
        warnings_.push_back(name + " is a secret: everyone who can fetch it can sign tokens");
    if (!reading.remark.empty()) warnings_.push_back(name + ": " + reading.remark);
    keys_.push_back(*std::move(reading.key));
    return std::nullopt;
}

bool JwkSet::operator==(const JwkSet& other) const {
    return std::equal(keys_.begin(), keys_.end(), other.keys_.begin(), other.keys_.end(),
                      [](const Jwk& a, const Jwk& b) { return a.digest == b.digest; });
}

JwkSet::Candidates JwkSet::candidates(const std::optional<std::string>& kid,
                                      JwsAlgorithm algorithm) const {
    Candidates found;
    for (const Jwk& key : keys_) {
        if (kid && key.kid != kid) continue;
        found.kid_is_known_ = found.kid_is_known_ || kid.has_value();
        if (found.count_ < Candidates::kMax && key.fits(algorithm))
            found.keys_[found.count_++] = &key;
    }
    return found;
}

}  // namespace tidegate::identity
