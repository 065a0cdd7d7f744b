// The files for checking credentials: keys of tokens, API keys, passwords. Messages never show what
// these files hold, but for the names of users and tiers.
#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/files.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "identity/api_keys.hpp"
#include "identity/htpasswd.hpp"
#include "identity/jwk.hpp"
#include "identity/key_source.hpp"

namespace tidegate::config {

namespace {

using identity::ApiKeys;
using identity::Htpasswd;
using identity::JwkSet;
using identity::JwsAlgorithm;
using identity::KeySource;

bool is_secret(JwsAlgorithm algorithm) {
    return identity::key_kind_of(algorithm) == identity::KeyKind::secret;
}

std::shared_ptr<KeySource> source_at(const Value& value, identity::KeyLocation location,
                                     std::span<const JwsAlgorithm> algorithms, Declared& declared) {
    const auto parsed =
        location.is_issuer ? parse_issuer_url(location.url) : parse_key_url(location.url);
    if (!parsed) {
        value.fault(parsed.error());
        return nullptr;
    }
    if (std::any_of(algorithms.begin(), algorithms.end(), is_secret)) {
        value.fault("name a file: a URL would show the shared secret (HS) to others");
        return nullptr;
    }
    // None of the parts has a line end, but the last one.
    std::string name = (location.is_issuer ? "issuer\n" : "url\n") + location.url;
    name.append("\n").append(location.ca);
    std::shared_ptr<KeySource>& source = declared.key_sources[name];
    if (source == nullptr) source = std::make_shared<KeySource>(std::move(location));
    return source;
}

// Null when it is broken, which has been reported.
std::shared_ptr<KeySource> source_of_file(const Value& value, Declared& declared) {
    const auto file = read_referenced_file(value, "keys.json");
    if (!file) return nullptr;
    const auto [known, is_new] = declared.key_sources.try_emplace(file->path);
    if (!is_new) return known->second;
    warn_if_world_writable(value, *file);
    const auto keys = JwkSet::parse(file->text, JwkSet::Origin::file);
    if (!keys) {
        value.context().other_errors.push_back({file->path, 0, 0, keys.error()});
        return nullptr;
    }
    for (const std::string& warning : (*keys)->warnings()) value.warn(warning);
    known->second = std::make_shared<KeySource>(*keys);
    return known->second;
}

constexpr std::string_view kKeyLine = "`<SHA-256 of the key, 64 digits>: {user: alice}`";

// Not Section::refuse_others(), which would speak of keys: API keys are meant here.
void refuse_other_entries(const TreeNode& owner, Context& context) {
    constexpr std::array<std::string_view, 2> kEntries{"user", "tier"};
    for (const Entry& entry : owner.entries) {
        if (std::find(kEntries.begin(), kEntries.end(), entry.key) != kEntries.end()) continue;
        const std::string_view meant = nearest(entry.key, {kEntries.begin(), kEntries.end()});
        context.faults.push_back(
            {entry.place, "unknown entry " + quote(entry.key) + ": write " +
                              (meant.empty() ? "`user` and `tier` only" : quote(meant))});
    }
}

// `entry` has the digest of a key as its own. No message repeats it: an operator who mistook the
// file wrote the key itself there.
void read_api_key(const Entry& entry, Context& context, ApiKeys& keys, Declared& declared) {
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

bool has_key_for(const JwkSet& keys, JwsAlgorithm algorithm) {
    return !keys.candidates(std::nullopt, algorithm).keys().empty();
}

}  // namespace

std::shared_ptr<KeySource> read_discovery(const Value& value, const std::string& ca,
                                          std::span<const JwsAlgorithm> algorithms,
                                          Declared& declared) {
    const auto issuer = value.text("the URL of an issuer such as `https://idp.example`");
    if (!issuer) return nullptr;
    return source_at(value, {*issuer, true, ca}, algorithms, declared);
}

std::shared_ptr<KeySource> read_jwks(const Value& value, const std::string& ca,
                                     std::span<const JwsAlgorithm> algorithms, Declared& declared) {
    const auto text = value.text("a file such as `keys.json`, or an https:// URL");
    if (!text) return nullptr;
    if (text->find("://") != text->npos) {
        return source_at(value, {*text, false, ca}, algorithms, declared);
    }
    std::shared_ptr<KeySource> source = source_of_file(value, declared);
    if (source == nullptr || algorithms.empty()) return source;
    const auto keys = source->keys();
    std::string unused;
    for (const JwsAlgorithm algorithm : algorithms) {
        if (has_key_for(*keys, algorithm)) continue;
        unused += unused.empty() ? "" : ", ";
        unused += to_string(algorithm);
    }
    if (std::none_of(algorithms.begin(), algorithms.end(),
                     [&](JwsAlgorithm algorithm) { return has_key_for(*keys, algorithm); })) {
        value.fault("the file has no key for " + unused + ": Tidegate would refuse every token");
        return nullptr;
    }
    if (!unused.empty()) value.warn("the file has no key for " + unused);
    return source;
}

std::shared_ptr<const ApiKeys> read_api_keys(const Value& value, Declared& declared) {
    const auto file = read_referenced_file(value, "api-keys.yaml", kListBytesMax);
    if (!file) return nullptr;
    const auto [known, is_new] = declared.api_keys.try_emplace(file->path);
    if (!is_new) return known->second;
    warn_if_world_writable(value, *file);
    Context context = context_of(*file, value.context());
    const TreeNode tree =
        parse_document(file->text, context.faults, {MapKeys::secret, kListBytesMax});
    auto keys = std::make_shared<ApiKeys>();
    if (tree.kind == TreeNode::Kind::map) {
        for (const Entry& entry : tree.entries) read_api_key(entry, context, *keys, declared);
    } else if (tree.kind != TreeNode::Kind::null) {
        Value(context, tree, "", tree.place).wrong_kind("a map of keys: " + std::string(kKeyLine));
    }
    const bool right = context.faults.empty();
    report_faults(std::move(context), value.context());
    if (!right) return nullptr;
    if (keys->size() == 0) value.warn("the file has no keys: Tidegate refuses every API key");
    known->second = std::move(keys);
    return known->second;
}

std::shared_ptr<const Htpasswd> read_htpasswd(const Value& value, Declared& declared) {
    const auto file = read_referenced_file(value, "users.htpasswd", kListBytesMax);
    if (!file) return nullptr;
    const auto [known, is_new] = declared.htpasswds.try_emplace(file->path);
    if (!is_new) return known->second;
    warn_if_world_writable(value, *file);
    auto users = Htpasswd::parse(file->text);
    if (!users) {
        const identity::HtpasswdFault& fault = users.error();
        value.context().other_errors.push_back({file->path, fault.line, 1, fault.message});
        return nullptr;
    }
    if (users->size() == 0) value.warn("the file has no users: Tidegate refuses every password");
    known->second = std::make_shared<const Htpasswd>(std::move(*users));
    return known->second;
}

}  // namespace tidegate::config
