// What tokens cost: weights, prices, and the sums of both in whole units. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::usage {

// Tokens of one request by the four kinds that providers charge apart. Each is 0 or more.
struct Tokens {
    std::int64_t input = 0;   // those of the prompt that no cache had
    std::int64_t cached = 0;  // those that the provider's cache had
    std::int64_t cache_write = 0;
    std::int64_t output = 0;  // with those of reasoning

    bool operator==(const Tokens&) const = default;
};

// No provider counts as many; a larger number is not a count of tokens.
inline constexpr std::int64_t kTokensMax = std::int64_t{1} << 31;

// What a token of each kind costs, in millionths of a unit. A weight of 1 is 1,000,000. With money
// the unit is a millionth of a dollar, so a price of 1.25 dollars a million tokens is 1,250,000.
struct Rates {
    static constexpr std::int64_t kUnit = 1'000'000;
    // A million units a token.
    static constexpr std::int64_t kMax = kUnit * 1'000'000;

    std::int64_t input = kUnit;
    std::int64_t cached = kUnit;
    std::int64_t cache_write = kUnit;
    std::int64_t output = kUnit;

    bool operator==(const Rates&) const = default;
};

// The sum, rounded up once. Requires counts of at most kTokensMax and rates of at most Rates::kMax.
// Sums above 2^62 are 2^62.
std::int64_t cost_of(const Tokens& tokens, const Rates& rates);

// Millionths of a dollar as dollars with six places: `1.250000`. Requires 0 or more.
std::string dollars_of(std::int64_t micros);

// What models cost.
class PriceList {
  public:
    // `pattern` is a model's name in which each `*` stands for any text. Earlier patterns win.
    void add(std::string pattern, Rates rates);
    // For models that no pattern matches.
    void set_unknown(Rates rates) { unknown_ = rates; }

    // Null: the list has no price for this model.
    const Rates* rates_of(std::string_view model) const;
    // A pattern names this model, whatever set_unknown() says.
    bool names(std::string_view model) const { return find(model) != nullptr; }

  private:
    struct Price {
        std::string pattern;
        Rates rates;
    };

    const Rates* find(std::string_view model) const;

    std::vector<Price> prices_;
    std::optional<Rates> unknown_;
};

}  // namespace tidegate::usage
