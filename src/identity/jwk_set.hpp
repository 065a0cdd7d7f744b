// The keys that tokens are checked with: a JWK Set (RFC 7517 section 5). Immutable; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "identity/jwk.hpp"

namespace tidegate::identity {

inline constexpr std::size_t kJwkSetBytesMax = std::size_t{1} << 20;
inline constexpr std::size_t kJwkSetKeysMax = 100;

class JwkSet {
  public:
    // An operator edits a file, so each mistake is worth refusing; a fetched set is not ours to
    // mend, and one bad key must not cost the others.
    enum class Origin : std::uint8_t { file, fetched };

    // `{"keys": [...]}`. Keys that are not for checking tokens (an unknown `kty`, `crv` or `alg`,
    // `use` other than `sig`, `key_ops` without `verify`) are left out, with a warning. In a file
    // refused, else left out with a warning: a key that is malformed; a `kid` that an earlier key
    // of the same kind has (both stay in a fetched set). In a file refused: no key that is left.
    // An error is a sentence that says which key and what is wrong; none shows a key.
    static Result<std::shared_ptr<const JwkSet>, std::string> parse(std::string_view json,
                                                                    Origin origin);

    // Keys of use; a fetched set may have none.
    std::size_t size() const { return keys_.size(); }
    // Sentences for the one who runs this.
    const std::vector<std::string>& warnings() const { return warnings_; }

    // Keys that may have signed a token.
    class Candidates {
      public:
        static constexpr std::size_t kMax = 4;  // signatures tried for one token

        std::span<const Jwk* const> keys() const { return {keys_.data(), count_}; }
        // Whether the set has a key of that `kid`, if it does not fit; false without a `kid`.
        bool kid_is_known() const { return kid_is_known_; }

      private:
        friend class JwkSet;
        std::array<const Jwk*, kMax> keys_{};
        std::size_t count_ = 0;
        bool kid_is_known_ = false;
    };
    // The first that have exactly this `kid`, or any if there is none, and fit the algorithm.
    // Pointers are valid as long as the set.
    Candidates candidates(const std::optional<std::string>& kid, JwsAlgorithm algorithm) const;

    // Whether both check the same tokens: the same keys in the same order.
    bool operator==(const JwkSet& other) const;

  private:
    JwkSet() = default;

    // An error if the set is to be refused for this member.
    std::optional<std::string> take(const JsonValue& member, std::size_t number, Origin origin);

    std::vector<Jwk> keys_;
    std::vector<std::string> warnings_;
};

}  // namespace tidegate::identity
