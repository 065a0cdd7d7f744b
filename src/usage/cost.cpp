#include "usage/cost.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace tidegate::usage {
namespace {

// Four products of 2^31 and 10^12 do not fit 64 bits.
__extension__ using Wide = __int128;
constexpr std::int64_t kCostMax = std::int64_t{1} << 62;

}  // namespace

Tokens sum_of(const Tokens& message, const Tokens& beside) {
    const auto sum = [](std::int64_t a, std::int64_t b) { return std::min(a + b, kTokensMax); };
    Tokens tokens{sum(message.input, beside.input), sum(message.cached, beside.cached),
                  sum(message.cache_write, beside.cache_write), sum(message.output, beside.output)};
    tokens.cache_write_1h = sum(message.cache_write_1h, beside.cache_write_1h);
    tokens.of_any = sum(message.of_any, beside.of_any);
    return tokens;
}

std::int64_t Rates::dearest_input() const {
    return std::max({input, cached, cache_write, of_cache_write_1h()});
}

std::int64_t Rates::dearest() const {
    return std::max(dearest_input(), output);
}

std::int64_t cost_of(const Tokens& tokens, const Rates& rates) {
    Wide sum = Wide{tokens.input} * rates.input + Wide{tokens.cached} * rates.cached +
               Wide{tokens.cache_write - tokens.cache_write_1h} * rates.cache_write +
               Wide{tokens.cache_write_1h} * rates.of_cache_write_1h() +
               Wide{tokens.output} * rates.output;
    if (tokens.of_any > 0) sum += Wide{tokens.of_any} * (rates.dearest() - rates.output);
    const Wide cost = (sum + Rates::kUnit - 1) / Rates::kUnit;
    return static_cast<std::int64_t>(std::clamp<Wide>(cost, 0, kCostMax));
}

void PriceList::add(std::string pattern, Rates rates) {
    prices_.push_back({std::move(pattern), rates});
}

std::size_t PriceList::row_of(std::string_view model) const {
    const auto found = std::find_if(prices_.begin(), prices_.end(), [&](const Price& price) {
        return matches_wildcard(price.pattern, model);
    });
    return found == prices_.end() ? kNoRow : static_cast<std::size_t>(found - prices_.begin());
}

const Rates* PriceList::rates_at(std::size_t row) const {
    if (row != kNoRow) return &prices_[row].rates;
    return unknown_ ? &*unknown_ : nullptr;
}

}  // namespace tidegate::usage
