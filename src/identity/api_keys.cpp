#include "identity/api_keys.hpp"

#include <cstring>
#include <memory>
#include <new>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "identity/names.hpp"

namespace tidegate::identity {
namespace {

constexpr std::size_t kSlotsMin = 16;

int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

struct ReleaseContext {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, ReleaseContext>;

Context make_context() {
    Context context(EVP_MD_CTX_new());
    if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
        throw std::bad_alloc();
    return context;
}

void sha256(std::string_view text, unsigned char* out) {
    // To look for the algorithm takes longer than a short digest: once a thread.
    thread_local const Context context = make_context();
    unsigned size = 0;
    // Fails only for want of memory.
    if (EVP_DigestInit_ex(context.get(), nullptr, nullptr) != 1 ||
        EVP_DigestUpdate(context.get(), text.data(), text.size()) != 1 ||
        EVP_DigestFinal_ex(context.get(), out, &size) != 1) {
        throw std::bad_alloc();
    }
}

}  // namespace

std::string_view ApiKeys::add(std::string_view digest, std::string_view user,
                              std::string_view tier) {
    const auto read = read_digest(digest);
    if (!read) return "the SHA-256 of a key is 64 hexadecimal digits";
    if (!is_safe_user(user)) return kSafeUserRule;
    if (!tier.empty() && !is_tier_name(tier))
        return "the name of a tier has letters, digits, `-`, `_` and `.`, 64 at most";
    const std::uint32_t tag = tag_of(*read);
    if (find_entry(*read, tag) != nullptr) return "this key stands here twice";
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
    Digest digest;
    sha256(key, digest.data());
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
        const int high = digit_of(hex[2 * i]);
        const int low = digit_of(hex[2 * i + 1]);
        if (high < 0 || low < 0) return std::nullopt;
        digest[i] = static_cast<std::uint8_t>(high << 4 | low);
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

}  // namespace tidegate::identity
