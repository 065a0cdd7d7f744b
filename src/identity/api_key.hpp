// `api_key`: the table of API keys. It holds their SHA-256 and their owners, and no key.
//
// Filled once, then immutable: find() from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "identity/digest.hpp"

namespace tidegate::identity {

class ApiKeys {
  public:
    static constexpr std::size_t kKeysMax = 1'000'000;

    // Views into the table.
    struct Owner {
        std::string_view user;
        std::string_view tier;  // empty: none
    };

    // Takes the key of which `digest` is the SHA-256, in hexadecimal of either case. Empty when it
    // was taken, else what is wrong, for a person: not 64 digits, a digest that is there already, a
    // name that is_safe_user() or is_tier_name() refuses, more than kKeysMax keys.
    std::string_view add(std::string_view digest, std::string_view user, std::string_view tier);

    // Returns the owner of the key, or nothing. How long it takes depends on the length of `key`
    // and on nothing else that could be used: where a digest is kept is decided by a secret, and
    // digests are compared in constant time.
    std::optional<Owner> find(std::string_view key) const;

    std::size_t size() const { return entries_.size(); }

  private:
    using Digest = Sha256;

    struct Entry {
        Digest digest;
        std::uint32_t names;  // where the user begins in names_; the tier comes after it
        std::uint16_t user_bytes;
        std::uint8_t tier_bytes;
    };
    struct Slot {
        std::uint32_t tag = 0;       // of the secret hash
        std::uint32_t position = 0;  // of the entry, from 1; 0: free
    };

    static std::optional<Digest> read_digest(std::string_view hex);
    std::uint32_t tag_of(const Digest& digest) const;
    const Entry* find_entry(const Digest& digest, std::uint32_t tag) const;
    void widen();
    void place(Slot slot);

    KeyedDigest keyed_;
    std::vector<Entry> entries_;
    std::vector<Slot> slots_;  // linear probing; a power of two, at most 3/4 full
    std::string names_;
};

}  // namespace tidegate::identity
