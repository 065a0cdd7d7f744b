// A path as a route writes it. Immutable; any thread.
//
//   /v1/search      that path, also with one slash after it
//   /v1/search/     only with the slash
//   /v1/*/edit      `*` is one segment, not empty
//   /users/{id}     the same, and the segment is captured
//   /files/**       /files itself and all below it; `**` only at the end
//   regex:/v\d+/.*  RE2, the whole decoded path, byte by byte
//   *               the target of `OPTIONS *`
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace re2 {
class RE2;
}

namespace tidegate::routing {

class PathPattern {
  public:
    enum class Kind : std::uint8_t { segments, regex, asterisk };

    struct Segment {
        enum class Kind : std::uint8_t { literal, any };

        Kind kind = Kind::literal;
        bool captured = false;  // of `any`
        std::string text;       // of a literal, decoded; else the name of the capture
    };

    // What `text` means, or in one sentence what is wrong with it.
    static Result<PathPattern, std::string> parse(std::string_view text);

    // The same pattern without regard to case: what it matches does not change with its case.
    // Its literals are folded. Fails where RE2 finds the expression too large for that.
    Result<PathPattern, std::string> ignoring_case() const;

    Kind kind() const { return kind_; }
    const std::vector<Segment>& segments() const { return segments_; }
    bool open_ended() const { return open_ended_; }  // ends in `**`
    // Whether it takes every path, so that none has to be read closely.
    bool takes_everything() const { return open_ended_ && segments_.empty(); }
    bool has_captures() const { return has_captures_; }
    // Whether a path that folding leaves as it is could match this and not ignoring_case(), or the
    // other way round. True also in doubt.
    bool asks_for_capitals() const;

    // Whether `path`, one reading of a path, matches.
    bool matches(std::string_view path) const;
    // What each `{name}` or named group holds in `path`; nothing when it does not match. A group
    // that took no part in the match holds an empty text.
    std::vector<std::string> captures(std::string_view path) const;
    // Their names, in the same order.
    std::vector<std::string> capture_names() const;
    // Whether every path that `other` matches is certain to match this.
    bool covers(const PathPattern& other) const;
    // Whether some path is known to match both. Of two regular expressions that is known only where
    // they are the same, of one beside segments by example().
    bool overlaps(const PathPattern& other) const;
    // A path that this matches, with some text for each segment that may be any; with
    // `other_case`, every letter of ASCII in the case that it is not written in. Nothing for a
    // regular expression and `*`.
    std::optional<std::string> example(bool other_case) const;

  private:
    PathPattern() = default;
    Result<void, std::string> parse_regex(std::string_view expression);
    Result<void, std::string> parse_segments(std::string_view path);
    Result<void, std::string> add_segment(std::string_view text);
    bool matches_segments(std::string_view path) const;

    Kind kind_ = Kind::segments;
    bool open_ended_ = false;
    bool has_captures_ = false;
    bool ignores_case_ = false;
    std::vector<Segment> segments_;
    std::shared_ptr<const re2::RE2> regex_;
};

// Cuts the first segment off `rest`, which begins after a slash. `more`: whether another
// slash, and so another segment (maybe an empty one), follows.
std::string_view take_segment(std::string_view& rest, bool& more);

}  // namespace tidegate::routing
