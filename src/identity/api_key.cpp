#include "identity/api_key.hpp"

#include <cstring>

#include <openssl/crypto.h>

#include "base/text.hpp"
#include "identity/authenticator.hpp"
#include "identity/credentials.hpp"
#include "identity/digest.hpp"
#include "identity/identifier.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::identity {
namespace {

constexpr std::size_t kSlotsMin = 16;

}  // namespace

std::string_view ApiKeys::add(std::string_view digest, std::string_view user,
                              std::string_view tier) {
    const auto read = read_digest(digest);
    if (!read) {
        return "a line begins with the SHA-256 of an API key, 64 hexadecimal digits: make one with "
               "`tidegate keys new USER`";
    }
    if (!is_safe_user(user)) return kSafeUserRule;
    if (!tier.empty() && !is_tier_name(tier))
        return "the name of a tier has letters, digits, `-`, `_` and `.`, 64 at most";
    const std::uint32_t tag = tag_of(*read);
    if (find_entry(*read, tag) != nullptr) return "the file has this key twice";
    if (entries_.size() >= kKeysMax) return "there are more than 1,000,000 keys";
    if ((entries_.size() + 1) * 4 > slots_.size() * 3) widen();
    entries_.push_back({*read, static_cast<std::uint32_t>(names_.size()),
                        static_cast<std::uint16_t>(user.size()),
                        static_cast<std::uint8_t>(tier.size())});
    names_.append(user).append(tier);
    place({tag, static_cast<std::uint32_t>(entries_.size())});
    return {};
}

std::optional<ApiKeys::Owner> ApiKeys::find(std::string_view key) const {
    if (entries_.empty()) return std::nullopt;
    const Digest digest = sha256(key);
    const Entry* const entry = find_entry(digest, tag_of(digest));
    if (entry == nullptr) return std::nullopt;
    const std::string_view names(names_);
    return Owner{names.substr(entry->names, entry->user_bytes),
                 names.substr(entry->names + entry->user_bytes, entry->tier_bytes)};
}

std::optional<ApiKeys::Digest> ApiKeys::read_digest(std::string_view hex) {
    Digest digest;
    if (hex.size() != 2 * digest.size()) return std::nullopt;
    for (std::size_t i = 0; i < digest.size(); ++i) {
        const int byte = hex_byte(hex[2 * i], hex[2 * i + 1]);
        if (byte < 0) return std::nullopt;
        digest[i] = static_cast<std::uint8_t>(byte);
    }
    return digest;
}

std::uint32_t ApiKeys::tag_of(const Digest& digest) const {
    const auto value = keyed_.of({{reinterpret_cast<const char*>(digest.data()), digest.size()}});
    std::uint32_t tag = 0;
    std::memcpy(&tag, value.data(), sizeof tag);
    return tag;
}

const ApiKeys::Entry* ApiKeys::find_entry(const Digest& digest, std::uint32_t tag) const {
    if (slots_.empty()) return nullptr;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = tag & mask; slots_[at].position != 0; at = (at + 1) & mask) {
        if (slots_[at].tag != tag) continue;
        const Entry& entry = entries_[slots_[at].position - 1];
        if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) return &entry;
    }
    return nullptr;
}

void ApiKeys::widen() {
    const std::vector<Slot> old = std::move(slots_);
    slots_ = std::vector<Slot>(old.empty() ? kSlotsMin : 2 * old.size());
    for (const Slot& slot : old) {
        if (slot.position != 0) place(slot);
    }
}

void ApiKeys::place(Slot slot) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = slot.tag & mask;
    while (slots_[at].position != 0) at = (at + 1) & mask;
    slots_[at] = slot;
}

CredentialPlace ApiKeyMethod::place() const {
    return CredentialPlace::of_secret(field);
}

std::string ApiKeyMethod::to_string() const {
    return "api_key in " + field;
}

void ApiKeyMethod::look(const Presented& request, Authentication& found) const {
    const Credential key = find_secret(request.fields, field);
    if (!found.take(key)) return;
    const auto owner = keys->find(key.text);
    if (owner) {
        found.name(owner->user, owner->tier);
    } else {
        found.refuse(CredentialFault::unknown_secret);
    }
}

void ApiKeyMethod::append_challenge(std::string_view detail, std::string& out) const {
    if (place().in == CredentialPlace::In::bearer) {
        append_bearer_challenge(detail, out);
    } else {
        identity::append_challenge("ApiKey", "header", field, out);
    }
}

bool ApiKeyMethod::is_same_authority(const IdentityMethod& other) const {
    const auto* const method = dynamic_cast<const ApiKeyMethod*>(&other);
    return method != nullptr && method->keys == keys;
}

}  // namespace tidegate::identity
