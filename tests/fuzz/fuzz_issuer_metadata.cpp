// The metadata of an issuer of tokens: only those that are the issuer's own name a URL of keys, and
// no URL is taken that could be asked elsewhere than it says.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/address.hpp"
#include "fuzz_check.hpp"
#include "identity/key_source.hpp"

namespace {

using namespace tidegate;

constexpr std::string_view kIssuer = "https://idp.example";

void check_url(std::string_view text) {
    const auto url = config::parse_key_url(text);
    if (!url) return;
    FUZZ_CHECK(config::is_host(url->address.host));
    FUZZ_CHECK(url->target.starts_with('/'));
    FUZZ_CHECK(url->target.find_first_of(" \r\n#") == std::string::npos);
    FUZZ_CHECK(url->authority.find_first_of(" \r\n@/") == std::string::npos);
    FUZZ_CHECK(url->shown().find('?') == std::string::npos);
    // What is shown is a URL of the same place.
    const auto again = config::parse_key_url(url->shown());
    FUZZ_CHECK(again && again->is_tls == url->is_tls && again->authority == url->authority);
    const auto issuer = config::parse_issuer_url(text);
    if (!issuer) return;
    const auto metadata = config::parse_key_url(identity::metadata_url(text));
    FUZZ_CHECK(metadata && metadata->authority == url->authority);
    FUZZ_CHECK(metadata->target.ends_with("/.well-known/openid-configuration"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    check_url(text);
    const auto keys = identity::key_set_url(text, kIssuer);
    if (!keys) return 0;
    FUZZ_CHECK(!keys->empty());
    FUZZ_CHECK(text.find("issuer") != text.npos || text.find("\\u") != text.npos);
    check_url(*keys);
    return 0;
}
