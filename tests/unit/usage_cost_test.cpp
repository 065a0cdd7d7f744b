#include <string>

#include <doctest/doctest.h>

#include "usage/cost.hpp"

namespace tidegate::usage::cost_test {

TEST_CASE("cost: the weighed sum of the kinds, rounded up once") {
    CHECK(cost_of({10, 20, 30, 40}, {}) == 100);
    CHECK(cost_of({1, 1, 1, 1}, {1'000'000, 100'000, 1'250'000, 4'000'000}) == 7);  // 6.35
    CHECK(cost_of({0, 10, 0, 0}, {1'000'000, 100'000, 0, 0}) == 1);
    CHECK(cost_of({0, 11, 0, 0}, {1'000'000, 100'000, 0, 0}) == 2);
    CHECK(cost_of({}, {}) == 0);
    CHECK(cost_of({5, 5, 5, 5}, {0, 0, 0, 0}) == 0);
}

TEST_CASE("cost: what is kept for an hour is a part of what is written, at a rate of its own") {
    Tokens tokens{0, 0, 30, 0};
    tokens.cache_write_1h = 10;
    Rates rates{3'000'000, 300'000, 3'750'000, 15'000'000};
    CHECK(cost_of(tokens, rates) == 113);  // 112.5
    rates.cache_write_1h = 6'000'000;
    CHECK(cost_of(tokens, rates) == 135);
    CHECK(rates.dearest_input() == 6'000'000);
    CHECK(rates.dearest() == 15'000'000);
}

TEST_CASE("cost: output of a kind that is not known costs what the dearest kind does") {
    Tokens tokens{10, 0, 0, 30};
    tokens.of_any = 20;
    CHECK(cost_of(tokens, {}) == 40);
    CHECK(cost_of(tokens, {1'000'000, 0, 0, 4'000'000}) == 130);
    // Rerankers and embeddings are charged by input alone.
    CHECK(cost_of(tokens, {2'000'000, 0, 0, 0}) == 60);
    Rates rates{0, 0, 0, 0};
    rates.cache_write_1h = 3'000'000;
    CHECK(cost_of(tokens, rates) == 60);
}

TEST_CASE("cost: the largest counts and rates do not overflow") {
    const Rates dear{Rates::kMax, Rates::kMax, Rates::kMax, Rates::kMax};
    CHECK(cost_of({kTokensMax, kTokensMax, kTokensMax, kTokensMax}, dear) ==
          4 * kTokensMax * 1'000'000);
}

TEST_CASE("prices: the first pattern that matches wins") {
    PriceList prices;
    prices.add("gpt-x-mini*", {1, 0, 0, 0});
    prices.add("gpt-x*", {2, 0, 0, 0});
    prices.add("*/claude-*-sonnet", {3, 0, 0, 0});
    CHECK(prices.rates_of("gpt-x-mini-2026")->input == 1);
    CHECK(prices.rates_of("gpt-x")->input == 2);
    CHECK(prices.rates_of("anthropic/claude-9-sonnet")->input == 3);
    CHECK(prices.rates_of("anthropic/claude-9-sonnet-x") == nullptr);
    CHECK(prices.rates_of("GPT-x") == nullptr);
    CHECK(prices.rates_of("") == nullptr);
    prices.set_unknown({9, 0, 0, 0});
    CHECK(prices.rates_of("other")->input == 9);
    CHECK_FALSE(prices.names("other"));
}

TEST_CASE("prices: a row is the place of its pattern, and unknown models have none") {
    PriceList prices;
    prices.add("gpt-x-mini*", {1, 0, 0, 0});
    prices.add("gpt-x*", {2, 0, 0, 0});
    CHECK(prices.row_of("gpt-x-1") == 1);
    CHECK(prices.pattern(1) == "gpt-x*");
    CHECK(prices.rates_at(1)->input == 2);
    CHECK(prices.row_of("other") == PriceList::kNoRow);
    CHECK(prices.rates_at(PriceList::kNoRow) == nullptr);
    prices.set_unknown({9, 0, 0, 0});
    CHECK(prices.row_of("other") == PriceList::kNoRow);
    CHECK(prices.rates_at(PriceList::kNoRow)->input == 9);
    CHECK(prices.size() == 2);
}

TEST_CASE("prices: a pattern of many stars ends in time") {
    PriceList prices;
    std::string pattern;
    for (int i = 0; i < 100; ++i) pattern += "a*";
    prices.add(pattern + "b", {});
    CHECK(prices.rates_of(std::string(10'000, 'a')) == nullptr);
}

}  // namespace tidegate::usage::cost_test
