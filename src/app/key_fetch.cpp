#include "app/key_fetch.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "config/address.hpp"
#include "config/error_message.hpp"
#include "identity/issuer_metadata.hpp"
#include "net/deadline.hpp"

namespace tidegate::app {

namespace {

using config::ErrorMessage;
using config::HttpsUrl;
using Fetched = Result<HttpsBody, std::string>;
using UrlOrFault = Result<HttpsUrl, std::string>;

// The types that requests for keys accept (RFC 7517 section 8.5); many servers know only the other.
constexpr const char* kAcceptKeys = "application/jwk-set+json, application/json";
constexpr const char* kAcceptMetadata = "application/json";

ErrorMessage of_metadata(const std::string& fault) {
    return ErrorMessage{"the metadata of the issuer: " + fault};
}

// The URL of the key set of an issuer.
Task<UrlOrFault> discover(Executor executor, const identity::KeyLocation& location,
                          const HttpsBounds& bounds) {
    const auto url = config::parse_key_url(identity::metadata_url(location.url));
    if (!url) co_return of_metadata(url.error());
    const auto answer = co_await https_get(executor, *url, bounds, kAcceptMetadata, location.ca);
    if (!answer) co_return of_metadata(answer.error());
    const auto named = identity::key_set_url(answer->text, location.url);
    if (!named) co_return of_metadata(named.error());
    auto keys = config::parse_key_url(*named);
    if (!keys) co_return of_metadata("its `jwks_uri`: " + keys.error());
    if (url->is_tls && !keys->is_tls) {
        co_return of_metadata("its `jwks_uri` is an http:// URL, and the issuer an https:// URL");
    }
    co_return std::move(*keys);
}

}  // namespace

Task<Fetched> fetch_key_set(Executor executor, identity::KeyLocation location, HttpsBounds bounds) {
    const SteadyTime begin = std::chrono::steady_clock::now();
    // Not one expression with `?`: GCC 12 destroys what a coroutine in it returns twice.
    UrlOrFault url = config::parse_key_url(location.url);
    if (location.is_issuer) url = co_await discover(executor, location, bounds);
    if (!url) co_return ErrorMessage{url.error()};
    const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    bounds.patience = std::max(bounds.patience - taken, std::chrono::milliseconds{1});
    co_return co_await https_get(executor, *url, bounds, kAcceptKeys, location.ca);
}

std::string shown(const identity::KeyLocation& location) {
    if (location.is_issuer) return location.url;
    const auto url = config::parse_key_url(location.url);
    return url ? url->shown() : "(not an https URL)";
}

}  // namespace tidegate::app
