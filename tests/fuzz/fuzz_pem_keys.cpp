// Public keys as PEM: whatever the file holds, each key that is read makes a set whose keys are
// never secrets, and no fault shows the file's own bytes.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "fuzz_check.hpp"
#include "identity/jwk.hpp"
#include "identity/jwt.hpp"

using namespace tidegate::identity;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto keys = read_pem_keys(text, "a.pem");
    if (!keys) {
        FUZZ_CHECK(!keys.error().empty());
        FUZZ_CHECK(keys.error().size() < 1'024);
        return 0;
    }
    FUZZ_CHECK(!keys->empty());
    FUZZ_CHECK(keys->size() <= kJwkSetKeysMax);
    const auto set = JwkSet::of_public_keys(*keys);
    if (!set) return 0;
    for (const Jwk& key : (*set)->keys()) {
        FUZZ_CHECK(key.kind != JwkKind::secret);
        FUZZ_CHECK(!key.to_string().empty());
    }
    for (const JwsAlgorithm algorithm :
         {JwsAlgorithm::hs256, JwsAlgorithm::hs384, JwsAlgorithm::hs512}) {
        FUZZ_CHECK((*set)->candidates(std::nullopt, algorithm).keys().empty());
    }
    return 0;
}
