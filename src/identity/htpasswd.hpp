// A password file as Apache's htpasswd writes it. Immutable; any thread.
//
// Which hashes are taken: bcrypt ($2a$, $2b$, $2y$) and SHA-crypt ($5$, $6$), computed by the
// system's libcrypt. The others (MD5, SHA-1, DES, plain text) are so quick to guess that a file of
// them is refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/result.hpp"

namespace tidegate::identity {

struct HtpasswdFault {
    int line = 0;         // from 1
    std::string message;  // for a person; shows nothing of the line
};

class Htpasswd {
  public:
    // bcrypt of this cost takes about a second of a processor, and each step up doubles that.
    static constexpr int kBcryptCostMax = 14;
    // Of SHA-crypt: about as long, for a long password.
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
    struct NameHash {
        using is_transparent = void;
        std::size_t operator()(std::string_view name) const {
            return std::hash<std::string_view>{}(name);
        }
    };

    std::unordered_map<std::string, std::string, NameHash, std::equal_to<>> hashes_;
    std::string longest_;  // the hash that takes longest; empty: there is none
};

}  // namespace tidegate::identity
