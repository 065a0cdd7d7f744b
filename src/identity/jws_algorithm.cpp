#include "identity/jws_algorithm.hpp"

#include <algorithm>
#include <array>

namespace tidegate::identity {
namespace {

struct Row {
    JwsAlgorithm algorithm;
    std::string_view name;
    KeyKind kind;
    std::size_t hash_bytes;
};

// In the order of the enumeration.
constexpr std::array<Row, 13> kRows{{
    {JwsAlgorithm::hs256, "HS256", KeyKind::secret, 32},
    {JwsAlgorithm::hs384, "HS384", KeyKind::secret, 48},
    {JwsAlgorithm::hs512, "HS512", KeyKind::secret, 64},
    {JwsAlgorithm::rs256, "RS256", KeyKind::rsa, 32},
    {JwsAlgorithm::rs384, "RS384", KeyKind::rsa, 48},
    {JwsAlgorithm::rs512, "RS512", KeyKind::rsa, 64},
    {JwsAlgorithm::ps256, "PS256", KeyKind::rsa, 32},
    {JwsAlgorithm::ps384, "PS384", KeyKind::rsa, 48},
    {JwsAlgorithm::ps512, "PS512", KeyKind::rsa, 64},
    {JwsAlgorithm::es256, "ES256", KeyKind::p256, 32},
    {JwsAlgorithm::es384, "ES384", KeyKind::p384, 48},
    {JwsAlgorithm::es512, "ES512", KeyKind::p521, 64},
    {JwsAlgorithm::eddsa, "EdDSA", KeyKind::ed25519, 64},
}};

constexpr bool in_order() {
    for (std::size_t i = 0; i < kRows.size(); ++i)
        if (static_cast<std::size_t>(kRows[i].algorithm) != i) return false;
    return true;
}
static_assert(in_order());

const Row& row_of(JwsAlgorithm algorithm) {
    return kRows[static_cast<std::size_t>(algorithm)];
}

}  // namespace

std::optional<JwsAlgorithm> parse_jws_algorithm(std::string_view name) {
    const auto* found =
        std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.name == name; });
    if (found == kRows.end()) return std::nullopt;
    return found->algorithm;
}

std::string_view to_string(JwsAlgorithm algorithm) {
    return row_of(algorithm).name;
}

KeyKind key_kind_of(JwsAlgorithm algorithm) {
    return row_of(algorithm).kind;
}

std::size_t hash_bytes_of(JwsAlgorithm algorithm) {
    return row_of(algorithm).hash_bytes;
}

}  // namespace tidegate::identity
