// The identifiers of a request: what its policies count.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "limit/policy.hpp"
#include "proxy/exchange.hpp"

namespace tidegate::proxy {

// A key as it is written in the configuration: `user|ip`, `header:x-tenant+route`.
std::string key_text(const limit::Key& key);

// The value of a query parameter as it is counted: `+` as a space, none at either end. Not every
// server takes `+` for a space, and some cut off white space: counted as one, they cannot be many.
std::string counted_query_value(std::string value);

// Makes them. Lives as long as one request is being listed, on its thread.
class IdentifierMaker {
  public:
    // Writes into exchange.identifiers.
    explicit IdentifierMaker(Exchange& exchange)
        : exchange_(exchange), text_(exchange.identifiers) {}

    enum class Made : std::uint8_t {
        some,
        missing,  // the request has not what any choice of the key needs
        unclear,  // it says it in a way that could be read as something else: 400 whatever holds
    };
    // Finds the identifiers of `key`: one, or one for each prefix of an IPv6 address. They are in
    // made() until the next call. Allocates nothing for `ip` and `user` once there was room.
    Made make(const limit::Key& key);
    // The identifier that all share for whom `key` makes none.
    void make_shared(const limit::Key& key);

    std::span<const IdentifierSpan> made() const { return {made_.data(), made_count_}; }

  private:
    static constexpr std::size_t kMadeMax = 8;  // prefixes there may be
    using Part = limit::KeyPart;
    using Choice = std::vector<Part>;

    Made make_choice(const Choice& choice);
    Made make_part(const Part& part);
    Made make_stated(const Part& part);
    Made make_capture(const Part& part);
    Made make_joined(const Choice& choice);
    bool write_addresses();
    bool write_user();
    template <class Append>
    IdentifierSpan write(Append append);
    void keep(IdentifierSpan span) {
        made_[0] = span;
        made_count_ = 1;
    }

    Exchange& exchange_;
    std::string& text_;
    std::array<IdentifierSpan, kMadeMax> made_{};
    std::size_t made_count_ = 0;
    // Written once, however many policies count them.
    std::array<IdentifierSpan, kMadeMax> addresses_{};
    std::size_t address_count_ = 0;
    std::optional<IdentifierSpan> user_;
    std::optional<std::vector<std::string>> captures_;
};

}  // namespace tidegate::proxy
