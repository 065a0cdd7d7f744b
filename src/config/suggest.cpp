#include "config/suggest.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/text.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kWordBytesMax = 48;  // a longer word is no misspelling of a key

char folded(char c) {
    return c == '-' ? '_' : to_lower(c);
}

// Optimal string alignment: Levenshtein with swaps of neighbours. Case, and `-` for `_`, are free.
std::size_t distance(std::string_view a, std::string_view b) {
    using Row = std::array<std::size_t, kWordBytesMax + 1>;
    Row before{};
    Row above{};
    Row row{};
    for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const bool same = folded(a[i - 1]) == folded(b[j - 1]);
            row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && folded(a[i - 1]) == folded(b[j - 2]) &&
                folded(a[i - 2]) == folded(b[j - 1])) {
                row[j] = std::min(row[j], before[j - 2] + 1);
            }
        }
        before = above;
        above = row;
    }
    return above[b.size()];
}

// The longest of `known` that begins like `word`, or that `word` begins with.
std::string_view of_one_stem(std::string_view word, const std::vector<std::string_view>& known) {
    constexpr std::size_t kStemBytesMin = 3;
    std::string_view best;
    for (const std::string_view candidate : known) {
        if (std::min(word.size(), candidate.size()) < kStemBytesMin) continue;
        if (!word.starts_with(candidate) && !candidate.starts_with(word)) continue;
        if (candidate.size() > best.size()) best = candidate;
    }
    return best;
}

}  // namespace

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known) {
    if (word.size() > kWordBytesMax) return {};
    std::string_view best;
    // A third of the word may be wrong, but one letter always may.
    std::size_t best_distance = std::max<std::size_t>(word.size() / 3, 1) + 1;
    for (const std::string_view candidate : known) {
        if (candidate.size() > kWordBytesMax) continue;
        const std::size_t away = distance(word, candidate);
        if (away < best_distance && away < candidate.size()) {
            best = candidate;
            best_distance = away;
        }
    }
    return best.empty() ? of_one_stem(word, known) : best;
}

std::string one_of(const std::vector<std::string_view>& words) {
    std::string out;
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (i > 0) out += i + 1 == words.size() ? " or " : ", ";
        out += '`';
        out += words[i];
        out += '`';
    }
    return out;
}

}  // namespace tidegate::config
