#include "routing/path_pattern.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <re2/re2.h>

#include "base/case_folding.hpp"
#include "base/text.hpp"
#include "http/field.hpp"
#include "routing/path_normalization.hpp"

namespace tidegate::routing {

namespace {

constexpr std::string_view kRegexPrefix = "regex:";
constexpr std::size_t kPatternBytesMax = 4096;
constexpr int kGroupsMax = 32;

using Problem = Result<void, std::string>;
using Segment = PathPattern::Segment;

re2::StringPiece piece(std::string_view text) {
    return {text.data(), text.size()};
}

RE2::Options regex_options() {
    RE2::Options options;
    options.set_log_errors(false);
    // RE2 must read a path as bytes, and `.` must match a newline. Else `.` would match neither a
    // byte that is not UTF-8 nor a newline: `/admin/%FF` and `/admin/%0A` would pass `/admin/.*`.
    options.set_encoding(RE2::Options::EncodingLatin1);
    options.set_dot_nl(true);
    return options;
}

bool is_name(std::string_view text) {
    const auto letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    };
    return !text.empty() && letter(text.front()) &&
           std::all_of(text.begin(), text.end(),
                       [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '-'; });
}

// Refuses literals that Tidegate refuses in requests, and those that servers read in different
// ways: such a literal could never be the only reading of a path.
Problem check_literal(std::string_view text) {
    if (text.find_first_of("*{}") != text.npos)
        return std::string("`*` and `{name}` must be a whole segment: `/a/*` or `/a/{id}`");
    if (text.find_first_of("?#") != text.npos)
        return std::string("a path pattern has no query or fragment: remove `?` and `#`");
    if (std::any_of(text.begin(), text.end(),
                    [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }))
        return std::string("a path pattern has no control characters");
    const auto decoded = decode_segment(text);
    if (!decoded)
        return std::string("`%` must be followed by two hexadecimal digits, and not by `00`");
    if (*decoded == "." || *decoded == "..")
        return std::string("`.` and `..` are removed before matching and must not be written");
    if (decoded->find_first_of("\\;") != decoded->npos || decoded->find("%2F") != decoded->npos)
        return std::string(
            "`;`, `\\` and an encoded slash are read differently by different "
            "servers; match that segment with `*`");
    return {};
}

// What each text that `regex` matches as a whole is known to begin with, as far as it is ASCII.
std::string beginning_of(const RE2& regex) {
    constexpr int kBytesMax = 64;
    std::string min;
    std::string max;
    if (!regex.PossibleMatchRange(&min, &max, kBytesMax)) return {};
    const auto last = std::mismatch(min.begin(), min.end(), max.begin(), max.end());
    auto length = static_cast<std::size_t>(last.first - min.begin());
    // Where more may follow, `max` is the text behind all that do: `/v10` for `/v1/.*`.
    const auto byte_at = [&](const std::string& text) {
        return static_cast<unsigned char>(text[length]);
    };
    if (length < min.size() && length + 1 == max.size() && byte_at(max) == byte_at(min) + 1 &&
        !RE2::FullMatch(max, regex)) {
        ++length;
    }
    min.resize(length);
    const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
    min.erase(std::find_if_not(min.begin(), min.end(), is_ascii), min.end());
    return min;
}

bool holds_more_than_ascii(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

// Says whether the `-` at `at` could stand for capitals among others, as in `[0-z]` or `[@-_]`.
bool may_span_capitals(std::string_view expression, std::size_t at) {
    if (at == 0 || at + 1 == expression.size()) return false;
    const char from = expression[at - 1];
    const char to = expression[at + 1];
    return from != '[' && to != ']' && !(is_lower(from) && is_lower(to)) &&
           !(is_digit(from) && is_digit(to));
}

// Says whether a text without capitals could match `expression` with its case and not without it,
// or the other way round. In doubt it says yes.
bool may_ask_for_capitals(std::string_view expression) {
    for (std::size_t at = 0; at < expression.size(); ++at) {
        const std::string_view rest = expression.substr(at);
        if (rest.starts_with("(?P<")) {
            at += std::min(rest.find('>'), rest.size() - 1);
        } else if (rest.front() == '\\') {
            // The case of `\A`, `\x41`, `\pL` and `\101` matters. That of `\.` and the like, `\d`,
            // `\s` and `\w` does not.
            ++at;
            const bool known =
                rest.size() > 1 && std::string_view("dsw").find(rest[1]) != rest.npos;
            if (!known && (rest.size() == 1 || is_lower(rest[1]) || is_digit(rest[1]) ||
                           may_fold(rest.substr(1, 1))))
                return true;
        } else if (may_fold(rest.substr(0, 1)) || rest.starts_with("[:") ||
                   (rest.front() == '-' && may_span_capitals(expression, at))) {
            return true;
        }
    }
    return false;
}

// The last segment of a path that ends in a slash is such a literal.
bool is_empty_literal(const Segment& segment) {
    return segment.kind == Segment::Kind::literal && segment.text.empty();
}

// Says whether `a` takes whatever `b` can be.
bool takes(const Segment& a, const Segment& b) {
    if (b.kind == Segment::Kind::any) return a.kind == Segment::Kind::any;
    return a.kind == Segment::Kind::any ? !b.text.empty() : a.text == b.text;
}

}  // namespace

std::string_view take_segment(std::string_view& rest, bool& more) {
    const auto slash = rest.find('/');
    more = slash != rest.npos;
    const std::string_view segment = rest.substr(0, slash);
    rest = more ? rest.substr(slash + 1) : std::string_view{};
    return segment;
}

Result<PathPattern, std::string> PathPattern::parse(std::string_view text) {
    PathPattern pattern;
    if (text.size() > kPatternBytesMax)
        return "a path pattern has at most " + std::to_string(kPatternBytesMax) + " bytes";
    if (text == "*") {
        pattern.kind_ = Kind::asterisk;
        return pattern;
    }
    const bool regex = text.starts_with(kRegexPrefix);
    const auto parsed = regex ? pattern.parse_regex(text.substr(kRegexPrefix.size()))
                              : pattern.parse_segments(text);
    if (!parsed) return parsed.error();
    return pattern;
}

Problem PathPattern::parse_regex(std::string_view expression) {
    const RE2::Options options = regex_options();
    auto regex = std::make_shared<const RE2>(piece(expression), options);
    if (!regex->ok()) return "RE2 does not accept this regular expression: " + regex->error();
    if (regex->NumberOfCapturingGroups() > kGroupsMax)
        return "a regular expression has at most " + std::to_string(kGroupsMax) + " groups";
    kind_ = Kind::regex;
    has_captures_ = !regex->NamedCapturingGroups().empty();
    beginning_ = beginning_of(*regex);
    regex_ = std::move(regex);
    return {};
}

Problem PathPattern::parse_segments(std::string_view path) {
    if (!path.starts_with('/'))
        return std::string("a path pattern begins with `/` or `regex:`, or is `*`");
    std::string_view rest = path.substr(1);
    bool more = true;
    while (more) {
        const std::string_view segment = take_segment(rest, more);
        if (segment == "**") {
            if (more) return std::string("`**` is allowed only at the end of a path pattern");
            open_ended_ = true;
            return {};
        }
        // Only the last segment may be empty: the path then ends in a slash.
        if (segment.empty() && more)
            return std::string("`//` never matches: write the path with single slashes");
        if (auto added = add_segment(segment); !added) return added;
    }
    return {};
}

Problem PathPattern::add_segment(std::string_view text) {
    if (text == "*") {
        segments_.push_back({Segment::Kind::any, false, {}});
        return {};
    }
    if (text.size() >= 2 && text.front() == '{' && text.back() == '}') {
        const std::string_view name = text.substr(1, text.size() - 2);
        if (!is_name(name))
            return std::string(
                "the name of a capture is a letter or `_`, then letters, digits, `_` or `-`, such "
                "as `{user_id}`");
        for (const Segment& segment : segments_)
            if (segment.captured && segment.text == name)
                return "`{" + std::string(name) + "}` is captured twice";
        segments_.push_back({Segment::Kind::any, true, std::string(name)});
        has_captures_ = true;
        return {};
    }
    if (auto checked = check_literal(text); !checked) return checked;
    segments_.push_back({Segment::Kind::literal, false, *decode_segment(text)});
    return {};
}

Result<PathPattern, std::string> PathPattern::ignoring_case() const {
    PathPattern pattern = *this;
    pattern.ignores_case_ = true;
    for (Segment& segment : pattern.segments_)
        if (segment.kind == Segment::Kind::literal) segment.text = fold_case(segment.text);
    if (kind_ != Kind::regex) return pattern;
    pattern.beginning_ = fold_case(beginning_);
    RE2::Options options = regex_options();
    options.set_case_sensitive(false);
    // RE2 reads bytes here and folds the letters of ASCII only. fold_beyond_ascii() folds the
    // others, in both texts.
    auto regex = std::make_shared<const RE2>(fold_beyond_ascii(regex_->pattern()), options);
    if (!regex->ok())
        return "RE2 cannot match this regular expression without regard to case: " + regex->error();
    pattern.regex_ = std::move(regex);
    return pattern;
}

bool PathPattern::asks_for_capitals() const {
    if (kind_ == Kind::regex) return may_ask_for_capitals(regex_->pattern());
    return std::any_of(segments_.begin(), segments_.end(), [](const Segment& segment) {
        return segment.kind == Segment::Kind::literal && fold_case(segment.text) != segment.text;
    });
}

bool PathPattern::matches(std::string_view path) const {
    if (kind_ == Kind::asterisk) return path == "*";
    if (kind_ == Kind::segments)
        return ignores_case_ ? matches_segments(fold_case(path)) : matches_segments(path);
    if (ignores_case_ && holds_more_than_ascii(path))
        return RE2::FullMatch(fold_beyond_ascii(path), *regex_);
    return RE2::FullMatch(piece(path), *regex_);
}

bool PathPattern::matches_segments(std::string_view path) const {
    if (!path.starts_with('/')) return takes_everything();
    std::string_view rest = path.substr(1);
    bool more = true;
    for (const Segment& segment : segments_) {
        if (!more) return false;
        const std::string_view text = take_segment(rest, more);
        if (segment.kind == Segment::Kind::any ? text.empty() : text != segment.text) return false;
    }
    if (open_ended_ || !more) return true;
    // The path may have one slash more, unless the pattern ends in a slash of its own.
    return rest.empty() && !is_empty_literal(segments_.back());
}

std::vector<std::string> PathPattern::captures(std::string_view path) const {
    std::vector<std::string> found;
    if (!has_captures_ || !matches(path)) return found;
    if (kind_ == Kind::regex) {
        std::vector<re2::StringPiece> groups(
            static_cast<std::size_t>(regex_->NumberOfCapturingGroups()) + 1);
        const auto match = [&](std::string_view subject) {
            return regex_->Match(piece(subject), 0, subject.size(), RE2::ANCHOR_BOTH, groups.data(),
                                 static_cast<int>(groups.size()));
        };
        // A capture keeps its case, unless only the folded text matches.
        std::string folded;
        if (!match(path)) match(folded = fold_beyond_ascii(path));
        for (const auto& [name, index] : regex_->NamedCapturingGroups())
            found.emplace_back(groups[static_cast<std::size_t>(index)]);
        return found;
    }
    std::string_view rest = path.substr(1);
    bool more = true;
    for (const Segment& segment : segments_) {
        const std::string_view text = take_segment(rest, more);
        if (segment.captured) found.emplace_back(text);
    }
    return found;
}

std::vector<std::string> PathPattern::capture_names() const {
    std::vector<std::string> names;
    if (kind_ == Kind::regex) {
        for (const auto& [name, index] : regex_->NamedCapturingGroups()) names.push_back(name);
    }
    for (const Segment& segment : segments_) {
        if (segment.captured) names.push_back(segment.text);
    }
    return names;
}

bool PathPattern::covers(const PathPattern& other) const {
    if (takes_everything()) return true;
    if (open_ended_ && other.kind_ == Kind::regex) return begins_each_of(other);
    if (kind_ != other.kind_) return false;
    if (kind_ == Kind::asterisk) return true;
    if (kind_ == Kind::regex) return regex_->pattern() == other.regex_->pattern();
    if (open_ended_) {
        // `/a/**` takes `/a`, `/a/` and all below.
        if (other.segments_.size() < segments_.size()) return false;
    } else if (other.open_ended_ || other.segments_.size() < segments_.size()) {
        return false;
    }
    if (!std::equal(segments_.begin(), segments_.end(), other.segments_.begin(), takes))
        return false;
    if (open_ended_ || other.segments_.size() == segments_.size()) return true;
    // `/a` takes `/a/`.
    return other.segments_.size() == segments_.size() + 1 &&
           is_empty_literal(other.segments_.back());
}

bool PathPattern::begins_each_of(const PathPattern& regex) const {
    std::string prefix = "/";
    for (const Segment& segment : segments_) {
        if (segment.kind == Segment::Kind::any) return false;
        prefix.append(segment.text).append(1, '/');
    }
    return regex.beginning_.starts_with(prefix);
}

bool PathPattern::overlaps(const PathPattern& other) const {
    if (kind_ == Kind::regex && other.kind_ == Kind::regex)
        return regex_->pattern() == other.regex_->pattern();
    if (kind_ == Kind::regex || other.kind_ == Kind::regex) {
        const bool first = kind_ == Kind::regex;
        const auto path = (first ? other : *this).example(false);
        return path && (first ? *this : other).matches(*path);
    }
    if (kind_ != other.kind_) return false;
    const std::size_t common = std::min(segments_.size(), other.segments_.size());
    const auto meet = [](const Segment& a, const Segment& b) { return takes(a, b) || takes(b, a); };
    if (!std::equal(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(common),
                    other.segments_.begin(), meet))
        return false;
    // The shorter pattern must take the further segments of the longer one: by `**`, or as one
    // slash at the end.
    const auto takes_rest = [&](const PathPattern& shorter, const PathPattern& longer) {
        return longer.segments_.size() == common || shorter.open_ended_ ||
               (longer.segments_.size() == common + 1 && is_empty_literal(longer.segments_.back()));
    };
    return takes_rest(*this, other) && takes_rest(other, *this);
}

std::optional<std::string> PathPattern::example(bool other_case) const {
    if (kind_ != Kind::segments) return std::nullopt;
    std::string path;
    for (const Segment& segment : segments_) {
        path += '/';
        // Hardly another route has this literal.
        path += segment.kind == Segment::Kind::any ? "~" : segment.text;
    }
    if (path.empty()) path = "/";
    if (!other_case) return path;
    for (char& c : path)
        if ((c >= 'A' && c <= 'Z') || is_lower(c)) c = static_cast<char>(c ^ 0x20);
    return path;
}

namespace {

using Segment = PathPattern::Segment;

// Clients send these characters as they are (RFC 3986 section 3.3). `;` and `*` are not among them:
// the one ends a segment for some servers, the other is no literal in a pattern.
bool is_plain(char c) {
    return is_alphanumeric(c) ||
           std::string_view("-._~!$&'()+,=:@").find(c) != std::string_view::npos;
}

bool begins_with(std::string_view text, std::string_view prefix, bool ignoring_case) {
    if (text.size() < prefix.size()) return false;
    if (text.size() > prefix.size() && text[prefix.size()] != '/') return false;
    const std::string_view begin = text.substr(0, prefix.size());
    return ignoring_case ? http::equal_ignoring_case(begin, prefix) : begin == prefix;
}

// Says whether `whole`, one reading of a path, is the prefix and then `rest`.
bool is_joined(std::string_view whole, std::string_view prefix, std::string_view rest,
               bool ignoring_case) {
    return begins_with(whole, prefix, ignoring_case) &&
           without_prefix(whole, prefix.size()) == rest;
}

Result<void, std::string> check_segment(std::string_view segment) {
    if (segment.empty())
        return std::string("has two slashes in a row: write single ones, such as `/api/v1`");
    if (segment == "." || segment == "..")
        return std::string("has `.` or `..`, which no path keeps: write the segments themselves");
    if (!std::all_of(segment.begin(), segment.end(), is_plain))
        return std::string(
            "is made of segments of letters, digits and `-._~!$&'()+,=:@`, without `*`, `{name}` "
            "and `%`: write the beginning as clients send it, such as `/api`");
    return {};
}

Result<void, std::string> check_segments(std::string_view segments) {
    for (bool more = true; more;) {
        if (auto checked = check_segment(take_segment(segments, more)); !checked) return checked;
    }
    return {};
}

bool begins_all_paths_of(const PathPattern& pattern, std::string_view segments) {
    auto own = pattern.segments().begin();
    for (bool more = true; more; ++own) {
        const std::string_view segment = take_segment(segments, more);
        if (own == pattern.segments().end() || own->kind != Segment::Kind::literal ||
            own->text != segment)
            return false;
    }
    return true;
}

}  // namespace

Result<void, std::string> check_path_prefix(std::string_view prefix, const PathPattern& pattern) {
    if (!prefix.empty() && prefix.find_first_not_of('/') == prefix.npos)
        return std::string("`/` removes nothing: write whole segments, such as `/api`");
    if (!prefix.starts_with('/'))
        return std::string("begins with `/`: write whole segments, such as `/api`");
    if (prefix.ends_with('/'))
        return "ends with a segment, not with a slash: write `" +
               std::string(prefix.substr(0, prefix.find_last_not_of('/') + 1)) + "`";
    if (pattern.kind() != PathPattern::Kind::segments)
        return std::string(
            "needs a `path` of segments, such as `/api/**`: of other paths it is not known that "
            "all of them begin with it");
    if (auto checked = check_segments(prefix.substr(1)); !checked) return checked;
    if (!begins_all_paths_of(pattern, prefix.substr(1)))
        return "is not the beginning of every path that this route matches: write `match: {path: " +
               std::string(prefix) + "/**}`, or another `strip_prefix`";
    return {};
}

bool can_strip(std::string_view path, std::string_view prefix, bool ignoring_case,
               bool keeps_slash) {
    if (!begins_with(path, prefix, ignoring_case)) return false;
    const auto shape_of = [&](std::string_view text) {
        const PathShape shape = examine_path(text);
        return keeps_slash ? with_slash_kept(shape) : shape;
    };
    const PathShape shape = shape_of(path);
    if (shape.bad || has_too_many_readings(shape)) return false;
    if (shape.features == 0) return true;
    const std::string_view rest = without_prefix(path, prefix.size());
    const std::vector<PathReading> of_whole = path_readings(path, shape);
    const std::vector<PathReading> of_rest = path_readings(rest, shape_of(rest));
    return std::equal(of_whole.begin(), of_whole.end(), of_rest.begin(), of_rest.end(),
                      [&](const PathReading& whole, const PathReading& behind) {
                          return !behind.decoded.starts_with("//") &&
                                 is_joined(whole.text, prefix, behind.text, ignoring_case) &&
                                 is_joined(whole.decoded, prefix, behind.decoded, ignoring_case);
                      });
}

}  // namespace tidegate::routing
