// Paths: readings stay bounded, and a route is chosen only if every reading leads to it, in any
// case.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "routing/path_normalization.hpp"
#include "routing/path_pattern.hpp"
#include "routing/router.hpp"

namespace {

using namespace tidegate::routing;

const char* const kPatterns[] = {"/admin/**", "/search",    "/users/{id}/posts",
                                 "/a/*/b",    "/public/**", "regex:/r/[^/]*/x",
                                 "/a b",      "/**"};

struct Fixture {
    Router router;
    std::vector<PathPattern> patterns;
    std::vector<PathPattern> blind;  // the same without regard to case

    Fixture() {
        for (const char* text : kPatterns) {
            Match match;
            match.path = text;
            FUZZ_CHECK(router.add(match).has_value());
            patterns.push_back(*PathPattern::parse(text));
            blind.push_back(*patterns.back().ignoring_case());
        }
    }

    static std::size_t first_match(const std::vector<PathPattern>& patterns,
                                   const PathReading& reading) {
        for (std::size_t i = 0; i < patterns.size(); ++i) {
            const bool regex = patterns[i].kind() == PathPattern::Kind::regex;
            if (patterns[i].matches(regex ? reading.decoded : reading.text)) return i;
        }
        return patterns.size();
    }
};

void check_readings(const std::string& path, const Fixture& fixture) {
    const Matched matched = fixture.router.match({"GET", path, "a", nullptr});
    const PathShape shape = examine_path(path);
    FUZZ_CHECK(shape.bad == (matched.outcome == MatchOutcome::bad_path));
    if (shape.bad) return;
    FUZZ_CHECK(matched.outcome == MatchOutcome::matched ||
               matched.outcome == MatchOutcome::ambiguous_path ||
               matched.outcome == MatchOutcome::other_case);
    if (has_too_many_readings(shape)) return;
    const auto readings = path_readings(path, shape);
    FUZZ_CHECK(!readings.empty() && readings.size() <= 16);
    for (const PathReading& reading : readings) {
        FUZZ_CHECK(reading.text.starts_with('/') && reading.text.size() <= path.size());
        if (matched.outcome != MatchOutcome::matched) continue;
        FUZZ_CHECK(Fixture::first_match(fixture.patterns, reading) == matched.route);
        FUZZ_CHECK(Fixture::first_match(fixture.blind, reading) == matched.route);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Fixture fixture;
    const std::string text(reinterpret_cast<const char*>(data), size);
    if (text != "*") check_readings(text, fixture);
    check_readings("/" + text, fixture);
    (void)PathPattern::parse(text);
    return 0;
}
