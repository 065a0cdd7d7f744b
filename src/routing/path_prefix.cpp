#include "routing/path_prefix.hpp"

#include <algorithm>
#include <vector>

#include "base/ascii.hpp"
#include "http/field.hpp"
#include "routing/path_normalization.hpp"

namespace tidegate::routing {
namespace {

using Segment = PathPattern::Segment;

// What clients send as it is (RFC 3986 section 3.3), but for `;` and `*`: the one ends a segment
// for some servers, the other is no literal in a pattern.
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

// Whether `whole`, one reading of a path, is the prefix and then `rest`.
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
