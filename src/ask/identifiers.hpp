// The identifiers of a request: what its policies count.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/decision.hpp"
#include "limit/limit.hpp"

namespace tidegate::ask {

// Returns a key as it is written in the configuration: `user|ip`, `header:x-tenant+route`.
std::string key_text(const limit::Key& key);
// Returns a part of a key as it is written in the configuration: `user`, `header:x-tenant`.
std::string part_text(const limit::KeyPart& part);
std::string_view kind_name(limit::KeyPart::Kind kind);
// Whether part_text(part) is `text`.
bool is_part_text(std::string_view text, const limit::KeyPart& part);

// The value of a query parameter as it is counted: `+` as a space, and no white space at either
// end. Some servers take `+` for a space and some cut off white space; a client gains nothing by
// either.
std::string counted_query_value(std::string value);

// The method as it is counted: HEAD as GET, and one that is neither registered nor named by a route
// as `other`, so that a client cannot make up methods that have counts of their own.
std::string_view counted_method(std::string_view method, const config::Config& config);

// A host as it is counted: in lower case, without port and the dot at its end. Empty: it is none.
std::string counted_host(std::string_view host);

// A hash of what `key` makes of the request, the same in every process; none if it makes nothing.
// `text` is scratch.
std::optional<std::uint64_t> hash_of(const limit::Key& key, const config::Config& config,
                                     const Facts& facts, const Decision& decision,
                                     std::string& text);

// Makes the identifiers of one request. Lives in the frame of the function that lists its charges.
class IdentifierMaker {
  public:
    // Writes into decision.identifiers.
    IdentifierMaker(const config::Config& config, const Facts& facts, Decision& decision)
        : IdentifierMaker(config, facts, decision, decision.identifiers) {}
    IdentifierMaker(const config::Config& config, const Facts& facts, const Decision& decision,
                    std::string& text)
        : config_(config), facts_(facts), decision_(decision), text_(text) {}

    enum class Made : std::uint8_t {
        some,
        missing,  // the request lacks what every choice of the key needs
        unclear,  // the request says it in more than one way: 400, whatever `on_missing` says
    };
    // Finds the identifiers of `key`: one, or one for each prefix of an IPv6 address. They are in
    // made() until the next call. Allocates nothing for `ip` and `user` once there was room.
    Made make(const limit::Key& key);
    // Makes the identifier that all requests share for which `key` makes none.
    void make_shared(const limit::Key& key);

    std::span<const IdentifierSpan> made() const { return {made_.data(), made_count_}; }
    // Whether they are of one client: of its address, its user or its credential.
    bool is_of_client() const { return is_of_client_; }
    // What the body says in more than one way, if that is why a key was unclear; else null.
    const limit::KeyPart* unclear_body_part() const { return unclear_body_part_; }

  private:
    static constexpr std::size_t kMadeMax = 8;  // prefixes there may be
    using Part = limit::KeyPart;
    using Choice = std::vector<Part>;

    Made make_part(const Part& part);
    Made make_stated(const Part& part);
    Made make_capture(const Part& part);
    Made make_host();
    Made make_claim(const Part& part);
    Made make_cookie(const Part& part);
    Made make_member(const Part& part);
    Made make_form_field(const Part& part);
    Made unclear_in_body(const Part& part) {
        unclear_body_part_ = &part;
        return Made::unclear;
    }
    Made make_joined(const Choice& choice);
    bool write_addresses();
    bool write_user();
    template <class Append>
    IdentifierSpan write(Append append);
    void keep_named(const Part& part, std::string_view value);
    void keep(IdentifierSpan span) {
        made_[0] = span;
        made_count_ = 1;
    }

    const config::Config& config_;
    const Facts& facts_;
    const Decision& decision_;
    std::string& text_;
    std::array<IdentifierSpan, kMadeMax> made_{};
    std::size_t made_count_ = 0;
    bool is_of_client_ = false;
    const Part* unclear_body_part_ = nullptr;
    // These are written once for a request, however many policies count them.
    std::array<IdentifierSpan, kMadeMax> addresses_{};
    std::size_t address_count_ = 0;
    std::optional<IdentifierSpan> user_;
    std::optional<std::vector<std::string>> captures_;
};

// The identifier that a descriptor of Envoy's rate limit service with these keys and values is
// counted under by a rule of its domain: `descriptor:remote_address=203.0.113.7`; several pairs
// joined. `values` are those of rls::find_rule(), one a pair.
std::string descriptor_identifier(const std::vector<std::pair<std::string, std::string>>& entries,
                                  const std::vector<std::string_view>& values);
// The same by a limit that the call brings, whose policy all domains share.
std::string override_identifier(std::string_view domain,
                                const std::vector<std::pair<std::string, std::string>>& entries,
                                const std::vector<std::string_view>& values);

}  // namespace tidegate::ask
