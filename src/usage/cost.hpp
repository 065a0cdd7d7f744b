// What tokens cost: weights, prices, and the sums of both in whole units. Pure.
#pragma once

#include <cstddef>
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
    // Of `cache_write`, those that the cache keeps for an hour.
    std::int64_t cache_write_1h = 0;
    // Of `output`, those whose kind the answer does not say: each costs as much as the dearest.
    std::int64_t of_any = 0;

    std::int64_t sum() const { return input + cached + cache_write + output; }
    bool operator==(const Tokens&) const = default;
};

// No provider counts as many; a larger number is not a count of tokens.
inline constexpr std::int64_t kTokensMax = std::int64_t{1} << 31;

// Of each kind at most kTokensMax.
Tokens sum_of(const Tokens& message, const Tokens& beside);

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
    // Of a token that the provider's cache keeps for an hour; nothing: what `cache_write` is.
    std::optional<std::int64_t> cache_write_1h = std::nullopt;

    std::int64_t of_cache_write_1h() const { return cache_write_1h.value_or(cache_write); }
    // Of the kind of input that costs most.
    std::int64_t dearest_input() const;
    // Of the kind that costs most.
    std::int64_t dearest() const;

    bool operator==(const Rates&) const = default;
};

// The sum, rounded up once. Requires counts of at most kTokensMax and rates of at most Rates::kMax.
// Sums above 2^62 are 2^62.
std::int64_t cost_of(const Tokens& tokens, const Rates& rates);

// What models cost.
class PriceList {
  public:
    // `pattern` is a model's name in which each `*` stands for any text. Earlier patterns win.
    void add(std::string pattern, Rates rates);
    // For models that no pattern matches.
    void set_unknown(Rates rates) { unknown_ = rates; }

    // The row of the first pattern that matches, from 0 on; kNoRow: none does. Takes as long as the
    // list.
    static constexpr std::size_t kNoRow = SIZE_MAX;
    std::size_t row_of(std::string_view model) const;
    // What a model of this row costs; of kNoRow, an unknown one. Null: the list has no price.
    const Rates* rates_at(std::size_t row) const;
    const Rates* rates_of(std::string_view model) const { return rates_at(row_of(model)); }
    // A pattern names this model, whatever set_unknown() says.
    bool names(std::string_view model) const { return row_of(model) != kNoRow; }

    std::size_t size() const { return prices_.size(); }
    const std::string& pattern(std::size_t row) const { return prices_[row].pattern; }

  private:
    struct Price {
        std::string pattern;
        Rates rates;
    };

    std::vector<Price> prices_;
    std::optional<Rates> unknown_;
};

}  // namespace tidegate::usage
