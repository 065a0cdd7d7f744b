// `prices`, a file of its own: what models charge for a million tokens. And amounts of money.
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/files.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "usage/cost.hpp"

namespace tidegate::config {

namespace {

using usage::Rates;

constexpr int kMoneyDigits = 6;
constexpr std::int64_t kDollar = 1'000'000;
constexpr std::size_t kModelsMax = 1'000;
constexpr std::size_t kPatternBytesMax = 128;
constexpr std::int64_t kPriceMax = Rates::kMax / Rates::kUnit;

// Dollars for a million tokens are millionths of a dollar for one.
std::optional<std::int64_t> read_price(const Value& value) {
    static const std::string wanted = "a price in dollars for a million tokens, from 0 to " +
                                      std::to_string(kPriceMax) +
                                      " with at most six decimals, such as `1.25`";
    const auto text = value.text(wanted);
    if (!text) return std::nullopt;
    const auto price = parse_fixed(*text, kMoneyDigits);
    if (price && *price <= Rates::kMax) return price;
    value.fault(quote(*text) + " is not " + wanted);
    return std::nullopt;
}

// A kind without a price of its own costs what input costs; what is kept for an hour, as what is
// kept for less.
std::optional<Rates> read_rates(const Value& value) {
    const std::size_t faults_before = value.context().faults.size();
    Section section(value, "a map: `{input: 1.25, cached: 0.125, cache_write: 1.25, output: 10}`");
    const auto input = section.need("input", "`input: 1.25`, in dollars for a million tokens");
    const auto cached = section.find("cached");
    const auto cache_write = section.find("cache_write");
    const auto cache_write_1h = section.find("cache_write_1h");
    const auto output = section.need("output", "`output: 10`, in dollars for a million tokens");
    section.refuse_others();
    Rates rates;
    if (input) rates.input = read_price(*input).value_or(0);
    rates.cached = cached ? read_price(*cached).value_or(0) : rates.input;
    rates.cache_write = cache_write ? read_price(*cache_write).value_or(0) : rates.input;
    if (cache_write_1h) rates.cache_write_1h = read_price(*cache_write_1h).value_or(0);
    if (output) rates.output = read_price(*output).value_or(0);
    if (!value.is_map() || value.context().faults.size() != faults_before) return std::nullopt;
    return rates;
}

bool is_pattern_of_models(std::string_view text) {
    return !text.empty() && text.size() <= kPatternBytesMax &&
           std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

// `prices`: where the configuration names the file, for warnings.
void read_models(const Value& value, const Value& prices, usage::PriceList& list) {
    constexpr ListRule kModels{"a map of models: `{\"gpt-x*\": {input: 1.25, output: 10}}`",
                               "models", kModelsMax};
    for (const auto& [pattern, item] : value.named(kModels, false)) {
        const auto rates = read_rates(item);
        if (!is_pattern_of_models(pattern)) {
            item.fault(quote(pattern) +
                       " is not the name of a model: 1 to 128 visible ASCII characters, in which "
                       "`*` stands for any text");
            continue;
        }
        if (!rates) continue;
        // A star of an earlier pattern that takes this one's stars takes what they stand for.
        if (list.names(pattern)) {
            prices.warn("the price of " + quote(pattern) + " in line " +
                        std::to_string(item.place().line) + " of " + quote(item.context().file) +
                        " has no effect: a pattern before it matches these models, too. Write it "
                        "before that one");
        }
        list.add(pattern, *rates);
    }
}

bool is_date(std::string_view text) {
    constexpr std::string_view kForm = "0000-00-00";
    return text.size() == kForm.size() &&
           std::equal(text.begin(), text.end(), kForm.begin(),
                      [](char c, char form) { return form == '0' ? is_digit(c) : c == form; });
}

void read_price_list(const Value& value, const Value& prices, usage::PriceList& list) {
    Section section(value, "a map: `{currency: usd, models: {...}}`");
    if (const auto date = section.find("as_of")) {
        const auto text = date->text("a date such as `2026-11-01`");
        if (text && !is_date(*text))
            date->fault(quote(*text) + " is not a date such as `2026-11-01`");
    }
    if (const auto currency = section.find("currency")) currency->choice<bool>({{"usd", true}});
    const auto models = section.need("models", "`models: {\"gpt-x*\": {input: 1.25, output: 10}}`");
    if (models) read_models(*models, prices, list);
    const auto unknown = section.find("unknown");
    if (unknown) {
        if (const auto rates = read_rates(*unknown)) list.set_unknown(*rates);
    }
    if (models && models->is_map() && models->is_empty() && !unknown) {
        models->fault(
            "the map is empty, and there is no `unknown`: no model has a price. Write "
            "`{\"gpt-x*\": {input: 1.25, output: 10}}`");
    }
    section.refuse_others();
}

}  // namespace

void read_prices(const Value& value, Config& config, Declared& declared) {
    declared.has_prices = true;
    const auto file = read_referenced_file(value, "prices.yaml");
    if (!file) return;
    Context context = context_of(*file, value.context());
    TreeNode tree = parse_document(file->text, context.faults);
    auto list = std::make_shared<usage::PriceList>();
    if (tree.kind == TreeNode::Kind::null) {
        value.fault("the file " + quote(file->path) +
                    " is empty: write `models: {\"gpt-x*\": {input: 1.25, output: 10}}`");
    } else if (tree.kind != TreeNode::Kind::broken) {
        read_price_list(Value(context, tree, "", tree.place), value, *list);
    }
    report_faults(std::move(context), value.context());
    value.context().price_file = std::move(tree);
    config.prices = std::move(list);
}

std::optional<std::int64_t> read_dollars(const Value& value, std::int64_t dollars_max) {
    const std::string wanted = "an amount of dollars from 0 to " + std::to_string(dollars_max) +
                               " with at most six decimals, such as `0.25`";
    const auto text = value.text(wanted);
    if (!text) return std::nullopt;
    const auto amount = parse_fixed(*text, kMoneyDigits);
    if (amount && *amount <= dollars_max * kDollar) return amount;
    value.fault(quote(*text) + " is not " + wanted);
    return std::nullopt;
}

}  // namespace tidegate::config
