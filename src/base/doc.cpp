#include "base/doc.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json.hpp"
#include "base/utf8.hpp"

namespace tidegate {

namespace {

// A longer value does not push the reasons of all others to the right.
constexpr std::size_t kAlignedMax = 40;

struct CodePoints {
    char32_t first;
    char32_t last;
};

// Characters that take two columns of a terminal.
constexpr auto kWide = std::to_array<CodePoints>({{0x1100, 0x115f},
                                                  {0x2329, 0x232a},
                                                  {0x2e80, 0xa4cf},
                                                  {0xac00, 0xd7a3},
                                                  {0xf900, 0xfaff},
                                                  {0xfe10, 0xfe19},
                                                  {0xfe30, 0xfe6f},
                                                  {0xff00, 0xff60},
                                                  {0xffe0, 0xffe6},
                                                  {0x1f300, 0x1f64f},
                                                  {0x1f900, 0x1f9ff},
                                                  {0x20000, 0x3fffd}});

std::size_t columns_of(std::string_view text) {
    std::size_t columns = 0;
    while (!text.empty()) {
        const std::size_t size = utf8_length(text);
        const char32_t character = size == 0 ? 0 : code_point(text.substr(0, size));
        const bool is_wide = std::any_of(kWide.begin(), kWide.end(), [&](const CodePoints& one) {
            return one.first <= character && character <= one.last;
        });
        columns += is_wide ? 2 : 1;
        text.remove_prefix(std::max<std::size_t>(size, 1));
    }
    return columns;
}

// The spaces that `text` lacks to be `width` columns wide.
std::string padding(std::string_view text, std::size_t width) {
    const std::size_t columns = columns_of(text);
    return std::string(width > columns ? width - columns : 0, ' ');
}

Doc::Row headings_of(std::span<const Doc::Column> columns) {
    Doc::Row headings;
    for (const Doc::Column& column : columns) headings.emplace_back(column.heading);
    return headings;
}

}  // namespace

std::string table_line(std::span<const Doc::Column> columns, const Doc::Row& row) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        if (i != 0) line += "  ";
        const bool is_last = i + 1 == columns.size();
        const std::string spaces = padding(row[i], columns[i].width);
        if (columns[i].is_number) line += spaces;
        line += row[i];
        if (!columns[i].is_number && !is_last) line += spaces;
    }
    return line + '\n';
}

void Doc::line(std::string_view text) {
    end_facts();
    text_.append(displayable(text)).append("\n");
}

void Doc::fact(std::string_view what, std::string value, std::string why) {
    facts_.push_back({what, std::move(value), std::move(why)});
}

void Doc::table(std::span<const Column> columns, const std::vector<Row>& rows,
                std::string_view indent) {
    std::vector<Column> fitted(columns.begin(), columns.end());
    for (std::size_t i = 0; i < fitted.size(); ++i) {
        if (fitted[i].width != 0) continue;
        fitted[i].width = fitted[i].heading.size();
        for (const Row& row : rows) fitted[i].width = std::max(fitted[i].width, row[i].size());
    }
    end_facts();
    text_.append(indent).append(table_line(fitted, headings_of(columns)));
    for (const Row& row : rows) text_.append(indent).append(table_line(fitted, row));
}

void Doc::append_text(const Doc& other) {
    end_facts();
    text_ += other.text();
}

std::string Doc::text() const {
    return text_ + aligned_facts();
}

void Doc::end_facts() {
    text_ += aligned_facts();
    facts_.clear();
}

std::string Doc::aligned_facts() const {
    std::size_t what_width = 0;
    std::size_t value_width = 0;
    for (const Fact& fact : facts_) {
        what_width = std::max(what_width, fact.what.size());
        if (fact.value.size() > kAlignedMax) continue;
        value_width = std::max(value_width, fact.value.size());
    }
    std::string text;
    for (const Fact& fact : facts_) {
        std::string line(fact.what);
        line += padding(fact.what, what_width) + "  " + fact.value;
        if (!fact.why.empty()) line += padding(fact.value, value_width) + "  " + fact.why;
        text += displayable(line) + '\n';
    }
    return text;
}

Doc::Json optional_text(std::string_view text) {
    return text.empty() ? Doc::Json(nullptr) : Doc::Json(text);
}

Doc::Json amount_json(Amount amount) {
    constexpr double kDollar = 1'000'000;
    if (!amount.in_money) return amount.units;
    return static_cast<double>(amount.units) / kDollar;
}

std::string counted(std::size_t count, std::string_view one) {
    return std::to_string(count).append(" ").append(one) + (count == 1 ? "" : "s");
}

std::string shown_names(std::span<const std::string> names, std::size_t most) {
    std::string text;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i) {
        text += (i == 0 ? "" : ", ") + names[i];
    }
    if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
    return text;
}

std::string escaped_text(std::string_view text) {
    std::string out;
    append_json_escaped(text, out);
    return out;
}

}  // namespace tidegate
