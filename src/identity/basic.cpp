#include "identity/basic.hpp"

#include <crypt.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include <openssl/crypto.h>

#include "base/base64.hpp"
#include "base/secrets.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "identity/authenticator.hpp"
#include "identity/identifier.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::identity {
namespace {

// libcrypt has a bound on passwords: a longer one is an error to it.
constexpr std::size_t kCryptPasswordBytesMax = CRYPT_MAX_PASSPHRASE_SIZE - 1;

constexpr long kShaRoundsMin = 1'000;
constexpr long kShaRoundsDefault = 5'000;
// So many rounds of SHA-crypt take about as long as one of the 2^cost of bcrypt.
constexpr double kBcryptStep = 200;

constexpr std::string_view kAdvice = "create it again with `htpasswd -B`";

bool is_crypt_text(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return c == '.' || c == '/' || is_alphanumeric(c); });
}

// The facts about a hash, as far as it can be used.
struct HashKind {
    double effort = 0;  // what it takes to compute; to compare by
    std::string fault;  // not empty: it cannot be taken
};

bool is_bcrypt(std::string_view hash) {
    return hash.starts_with("$2a$") || hash.starts_with("$2b$") || hash.starts_with("$2y$");
}

// `$2y$10$`, 22 characters of salt and 31 of digest.
HashKind bcrypt_kind(std::string_view hash) {
    const bool shaped = hash.size() == 60 && is_digit(hash[4]) && is_digit(hash[5]) &&
                        hash[6] == '$' && is_crypt_text(hash.substr(7));
    if (!shaped) return {0, "is not a complete bcrypt hash"};
    const int cost = (hash[4] - '0') * 10 + (hash[5] - '0');
    if (cost < 4 || cost > Htpasswd::kBcryptCostMax) {
        return {0, "is a bcrypt hash of cost " + std::to_string(cost) + ": 4 to " +
                       std::to_string(Htpasswd::kBcryptCostMax) +
                       " are accepted, as a higher cost takes seconds for each check"};
    }
    return {kBcryptStep * static_cast<double>(1U << static_cast<unsigned>(cost)), {}};
}

// `$6$`, perhaps `rounds=N$`, up to 16 characters of salt, `$`, the digest.
HashKind sha_kind(std::string_view hash) {
    const std::size_t digest_chars = hash[1] == '5' ? 43 : 86;
    std::string_view rest = hash.substr(3);
    std::int64_t rounds = kShaRoundsDefault;
    if (constexpr std::string_view kRounds = "rounds="; rest.starts_with(kRounds)) {
        const auto end = rest.find('$');
        if (end == rest.npos) return {0, "is not a complete SHA-crypt hash"};
        // libcrypt takes no leading zero, and neither does this.
        const auto written = parse_decimal(rest.substr(kRounds.size(), end - kRounds.size()));
        if (!written || *written < kShaRoundsMin || *written > Htpasswd::kShaRoundsMax) {
            return {0, "is a SHA-crypt hash whose number of rounds is out of range: 1000 to " +
                           std::to_string(Htpasswd::kShaRoundsMax) + " are"};
        }
        rounds = *written;
        rest.remove_prefix(end + 1);
    }
    const std::string_view salt = rest.substr(0, rest.find('$'));
    const bool shaped = salt.size() <= 16 && is_crypt_text(salt) &&
                        rest.size() == salt.size() + 1 + digest_chars &&
                        is_crypt_text(rest.substr(salt.size() + 1));
    if (!shaped) return {0, "is not a complete SHA-crypt hash"};
    return {static_cast<double>(rounds), {}};
}

// Why a hash is not one of the kinds that Tidegate reads: the message names its kind.
std::string refusal(std::string_view hash) {
    std::string_view what = "is not a supported hash, or is a password in plain text";
    if (hash.empty()) {
        what = "is missing";
    } else if (hash.starts_with("$apr1$") || hash.starts_with("$1$")) {
        what = "is an MD5 hash, too quick to guess";
    } else if (hash.starts_with("{SHA}") || hash.starts_with("{SSHA}")) {
        what = "is a SHA-1 hash, too quick to guess";
    } else if (hash.starts_with("$2x$")) {
        what = "was made by a faulty program that loses characters";
    } else if (hash.starts_with('$')) {
        what = "is not supported: use bcrypt or SHA-crypt ($5$, $6$)";
    } else if (hash.size() == 13 && is_crypt_text(hash)) {
        what = "is a hash of the old crypt (DES), which sees eight characters, or plain text";
    }
    return std::string(what) + ": " + std::string(kAdvice);
}

HashKind kind_of(const std::string& hash) {
    if (is_bcrypt(hash)) return bcrypt_kind(hash);
    if (hash.starts_with("$5$") || hash.starts_with("$6$")) return sha_kind(hash);
    return {0, refusal(hash)};
}

// Apache reads a line without the white space around it.
std::string_view trimmed_line(std::string_view line) {
    constexpr std::string_view kWhiteSpace = " \t\r\f\v";
    const auto first = line.find_first_not_of(kWhiteSpace);
    if (first == line.npos) return {};
    return line.substr(first, line.find_last_not_of(kWhiteSpace) - first + 1);
}

// Whether the password hashes to `hash`. Takes as long for a password that can not be right.
bool matches(std::string_view password, const std::string& hash) {
    const std::size_t bytes_max =
        is_bcrypt(hash) ? Htpasswd::kBcryptPasswordBytesMax : kCryptPasswordBytesMax;
    // libcrypt ends a password at a zero byte.
    const bool possible =
        password.size() <= bytes_max && password.find('\0') == std::string_view::npos;
    std::array<char, kCryptPasswordBytesMax + 1> text{};
    password.copy(text.data(), bytes_max);

    const auto work = std::make_unique<crypt_data>();
    const char* const computed =
        ::crypt_rn(text.data(), hash.c_str(), work.get(), static_cast<int>(sizeof *work));
    const bool equal = computed != nullptr && equal_in_constant_time(computed, hash);
    OPENSSL_cleanse(work.get(), sizeof *work);
    OPENSSL_cleanse(text.data(), text.size());
    return possible && equal;
}

}  // namespace

Result<Htpasswd, HtpasswdFault> Htpasswd::parse(std::string_view text) {
    Htpasswd read;
    double longest = 0;
    for (int number = 1; !text.empty(); ++number) {
        const std::string_view line = trimmed_line(take_until(text, '\n'));
        if (line.empty() || line.front() == '#') continue;
        const auto fault = [&](std::string message) {
            return HtpasswdFault{number, std::move(message)};
        };

        const auto colon = line.find(':');
        if (colon == line.npos) return fault("there is no colon: `user:hash`");
        const std::string_view user = line.substr(0, colon);
        if (!is_safe_user(user)) return fault(std::string(kSafeUserRule));
        const std::string_view after = line.substr(colon + 1);
        std::string hash(after.substr(0, after.find(':')));
        const HashKind kind = kind_of(hash);
        if (!kind.fault.empty()) return fault("the hash " + kind.fault);
        if (kind.effort > longest) {
            longest = kind.effort;
            read.longest_ = hash;
        }
        if (!read.hashes_.emplace(user, std::move(hash)).second)
            return fault("the file has this user twice");
    }
    return read;
}

bool Htpasswd::verify(std::string_view user, std::string_view password) const {
    if (hashes_.empty()) return false;
    const auto known = hashes_.find(user);
    const bool is_known = known != hashes_.end();
    // Another user's hash in place of one that is not there: the answer is no all the same.
    return matches(password, is_known ? known->second : longest_) && is_known;
}

BasicLogin::~BasicLogin() {
    OPENSSL_cleanse(bytes_.data(), bytes_.size());
}

CredentialFault BasicLogin::read(std::string_view base64) {
    user_bytes_ = password_bytes_ = 0;
    if (base64.size() > bytes_.size() / 3 * 4) return CredentialFault::malformed;
    const auto size = decode_base64(base64, bytes_.data());
    if (!size) return CredentialFault::malformed;
    const std::string_view both(bytes_.data(), *size);
    const auto colon = both.find(':');
    if (colon == both.npos) return CredentialFault::malformed;
    const std::string_view password = both.substr(colon + 1);
    // RFC 7617 section 2: no control characters in either.
    if (password.size() > kPasswordBytesMax || has_control(password))
        return CredentialFault::malformed;
    if (!is_safe_user(both.substr(0, colon))) return CredentialFault::unsafe_user;
    user_bytes_ = colon;
    password_bytes_ = password.size();
    return CredentialFault::none;
}

CredentialPlace BasicMethod::place() const {
    return {CredentialPlace::In::basic};
}

std::string BasicMethod::to_string() const {
    return "basic in authorization";
}

void BasicMethod::look(const Presented& request, Authentication& found) const {
    const Credential login = find_basic(request.fields);
    if (found.take(login)) found.present(login.text);
}

void BasicMethod::append_challenge(std::string_view, std::string& out) const {
    identity::append_challenge("Basic", "charset", "UTF-8", out);
}

}  // namespace tidegate::identity
