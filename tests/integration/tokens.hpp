// Credentials for the tests of identity, right and wrong, and what they are checked with.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "integration/process.hpp"
#include "integration/upstream.hpp"
#include "token_maker.hpp"

namespace tidegate::test {

// Made once, as some take long to make.
const SigningKey& curve_key();   // P-256
const SigningKey& other_key();   // P-256; in no key set that does not name it
const SigningKey& rsa_key();     // 2,048 bits
const SigningKey& secret_key();  // for HS256

// The text of a JWK set (RFC 7517 section 5) of keys written as such.
std::string key_set(const std::vector<std::string>& keys);

std::int64_t unix_seconds(std::chrono::seconds from_now = {});
// `{"sub":user,"exp":...}`; `more` begins with a comma.
std::string claims(const std::string& user, const std::string& more = "",
                   std::chrono::seconds lifetime = std::chrono::minutes(10));
std::string token(const SigningKey& key, std::string_view algorithm, std::string_view payload);
// Of curve_key(), with ES256.
std::string token_for(const std::string& user, const std::string& more = "",
                      std::chrono::seconds lifetime = std::chrono::minutes(10));

// A file of API keys: `key` is `user`'s.
struct ApiKey {
    std::string key;
    std::string user;
    std::string tier = {};
};
std::string api_key_file(const std::vector<ApiKey>& keys);

// alice and bob, whose password is `wonderland`, and carol's, `looking-glass`. Quick to check.
extern const char kPasswords[];
// slow, whose password is `slower-password`: a fifth of a second of bcrypt.
extern const char kSlowPasswords[];

// Lines of a request.
std::string line(const std::string& name, const std::string& value);
std::string bearer(const std::string& token);
std::string base64(std::string_view bytes);
std::string basic(const std::string& user, const std::string& password);

// A configuration: `identity` is the inside of a map, `policy` that of the one policy, `p`, of the
// one route. The upstream gets user, tier and address in x-auth-user, x-auth-tier and x-client.
std::string identified(const Upstream& upstream, const std::string& identity,
                       const std::string& policy = "key: [ip, user], limits: [1000/h]");

// The user that the upstream saw in its last request; `nobody` when no field named one.
std::string last_user(const Upstream& upstream);

}  // namespace tidegate::test
