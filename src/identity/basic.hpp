// `basic`: passwords (RFC 7617). A password file as Apache's htpasswd writes it. Immutable; any
// thread.
//
// Which hashes are taken: bcrypt ($2a$, $2b$, $2y$) and SHA-crypt ($5$, $6$), computed by the
// system's libcrypt. The others (MD5, SHA-1, DES, plain text) are so quick to guess that a file of
// them is refused.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.hpp"
#include "base/text.hpp"
#include "identity/credentials.hpp"
#include "identity/identifier.hpp"

namespace tidegate::identity {

struct HtpasswdFault {
    int line = 0;         // from 1
    std::string message;  // for a person; shows nothing of the line
};

class Htpasswd {
  public:
    // bcrypt of this cost takes about a second of a processor, and each step up doubles that.
    static constexpr int kBcryptCostMax = 14;
    // So many rounds of SHA-crypt take about as long, for a long password.
    static constexpr long kShaRoundsMax = 1'000'000;
    // bcrypt looks at no more of a password, so a longer one is never right: its rest would not
    // matter. Apache's tools cut it off.
    static constexpr std::size_t kBcryptPasswordBytesMax = 72;

    // `user:hash` a line; what follows a second colon is a comment. Blank lines, and those that
    // begin with `#`, are skipped. A user who stands there twice is refused.
    static Result<Htpasswd, HtpasswdFault> parse(std::string_view text);

    // Whether this is the user's password. Blocks for as long as the hash takes, up to seconds:
    // never on an event loop. A user who is not there takes as long as the one of the file whose
    // hash takes longest: only in a file of different kinds of hash, or costs, does the time tell
    // who is there.
    bool verify(std::string_view user, std::string_view password) const;

    std::size_t size() const { return hashes_.size(); }

  private:
    std::unordered_map<std::string, std::string, TextHash, std::equal_to<>> hashes_;
    std::string longest_;  // the hash that takes longest; empty: there is none
};

inline constexpr std::size_t kPasswordBytesMax = 1'024;

// User and password of Basic credentials. Wiped when it goes.
class BasicLogin {
  public:
    BasicLogin() = default;
    ~BasicLogin();
    BasicLogin(const BasicLogin&) = delete;
    BasicLogin& operator=(const BasicLogin&) = delete;

    // Reads the text that find_basic() found. `none`, or `malformed`: not the one way to write it
    // in base64 (RFC 4648 sections 3.5 and 4), no colon, a control character in the password, too
    // long; or `unsafe_user`. A password need not be UTF-8: a hash tells.
    CredentialFault read(std::string_view base64);

    // After a read() without fault.
    std::string_view user() const { return {bytes_.data(), user_bytes_}; }
    std::string_view password() const { return {bytes_.data() + user_bytes_ + 1, password_bytes_}; }

  private:
    static constexpr std::size_t kBytesMax = kUserBytesMax + 1 + kPasswordBytesMax;

    // base64 comes in groups of three bytes.
    std::array<char, (kBytesMax + 2) / 3 * 3> bytes_;
    std::size_t user_bytes_ = 0;
    std::size_t password_bytes_ = 0;
};

}  // namespace tidegate::identity
