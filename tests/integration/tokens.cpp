#include "integration/tokens.hpp"

#include <stdexcept>

#include "integration/limiter_world.hpp"

namespace tidegate::test {

const char kPasswords[] =
    "alice:$2b$04$WLeTx/qEfLnhI9kqubHlU.OJy5aA89ZYXxSDLUVZvZqs2HbmKU8OW\n"
    "bob:$2b$04$WLeTx/qEfLnhI9kqubHlU.OJy5aA89ZYXxSDLUVZvZqs2HbmKU8OW\n"
    "carol:$6$rounds=1000$dld.kV0oX4O8eutC$enMB.yqiPqGyKkeoLIKWwvVvFxECMLOB5DtNoSCAtEw."
    "yyslsYakUblgoOc79r2qRxHGxptBqWkrip0iODbBC/\n";
const char kSlowPasswords[] = "slow:$2b$12$j/Nv3li3Jxw2tpQMHcCLM.TuXyCySIzMlPuRCnrvXlrFr4Xco91Ka\n";

const SigningKey& curve_key() {
    static const SigningKey key = SigningKey::curve("P-256");
    return key;
}

const SigningKey& other_key() {
    static const SigningKey key = SigningKey::curve("P-256");
    return key;
}

const SigningKey& rsa_key() {
    static const SigningKey key = SigningKey::rsa(2048);
    return key;
}

const SigningKey& secret_key() {
    static const SigningKey key = SigningKey::secret("a secret of 32 bytes and some more");
    return key;
}

std::string key_set(const std::vector<std::string>& keys) {
    std::string text;
    for (const auto& key : keys) text += (text.empty() ? "" : ",") + key;
    return R"({"keys":[)" + text + "]}";
}

std::int64_t unix_seconds(std::chrono::seconds from_now) {
    using std::chrono::duration_cast;
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return (duration_cast<std::chrono::seconds>(now) + from_now).count();
}

std::string claims(const std::string& user, const std::string& more,
                   std::chrono::seconds lifetime) {
    return R"({"sub":")" + user + R"(","exp":)" + std::to_string(unix_seconds(lifetime)) + more +
           "}";
}

std::string token(const SigningKey& key, std::string_view algorithm, std::string_view payload) {
    return token_of(key, algorithm, R"({"alg":")" + std::string(algorithm) + "\"}", payload);
}

std::string token_for(const std::string& user, const std::string& more,
                      std::chrono::seconds lifetime) {
    return token(curve_key(), "ES256", claims(user, more, lifetime));
}

std::string api_key_file(const std::vector<ApiKey>& keys) {
    std::string text;
    for (const auto& [key, user, tier] : keys) {
        unsigned char digest[32];
        if (EVP_Digest(key.data(), key.size(), digest, nullptr, EVP_sha256(), nullptr) != 1)
            throw std::runtime_error("OpenSSL would not hash");
        for (const unsigned char byte : digest) {
            text += "0123456789abcdef"[byte >> 4];
            text += "0123456789abcdef"[byte & 0xf];
        }
        text += ": {user: \"" + user + "\"" + (tier.empty() ? "" : ", tier: " + tier) + "}\n";
    }
    return text;
}

std::string line(const std::string& name, const std::string& value) {
    return name + ": " + value + "\r\n";
}

std::string bearer(const std::string& token) {
    return line("Authorization", "Bearer " + token);
}

std::string base64(std::string_view bytes) {
    auto text = base64url(bytes);
    for (char& c : text) c = c == '-' ? '+' : c == '_' ? '/' : c;
    while (text.size() % 4 != 0) text += '=';
    return text;
}

std::string basic(const std::string& user, const std::string& password) {
    return line("Authorization", "Basic " + base64(user + ":" + password));
}

std::string identified(const Upstream& upstream, const std::string& identity,
                       const std::string& policy) {
    return "identity: {forward_as: {user: x-auth-user, tier: x-auth-tier, client_ip: x-client}, " +
           identity + "}\n" + one_policy(upstream, "{" + policy + "}");
}

std::string last_user(const Upstream& upstream) {
    const Message request = upstream.last();
    return request.has("x-auth-user") ? request.field("x-auth-user") : "nobody";
}

}  // namespace tidegate::test
