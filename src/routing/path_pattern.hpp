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

#include <cstddef>
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

    // Returns what `text` means, or in one sentence what is wrong with it.
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
    // What every path that this matches begins with, as far as that is known of a regular
    // expression; empty for other patterns.
    const std::string& beginning() const { return beginning_; }
    // Whether a path that folding leaves as it is could match this and not ignoring_case(), or the
    // other way round. True also in doubt.
    bool asks_for_capitals() const;

    // Whether `path`, one reading of a path, matches.
    bool matches(std::string_view path) const;
    // Returns what each `{name}` or named group holds in `path`; nothing when it does not match. A
    // group that took no part in the match holds an empty text.
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
    // Whether every path that `regex` matches is known to begin with these segments and a slash.
    bool begins_each_of(const PathPattern& regex) const;

    Kind kind_ = Kind::segments;
    bool open_ended_ = false;
    bool has_captures_ = false;
    bool ignores_case_ = false;
    std::vector<Segment> segments_;
    std::shared_ptr<const re2::RE2> regex_;
    std::string beginning_;
};

// Cuts the first segment off `rest`, which begins after a slash. `more`: whether another
// slash, and so another segment (maybe an empty one), follows.
std::string_view take_segment(std::string_view& rest, bool& more);

// The beginning of a path that a route matches and the upstream is not sent. Pure; any thread.
//
// The route's limits hold for the whole path, and the upstream reads the rest of it. So the rest
// must mean to every server what the whole path meant to the route.

// Whether every path that `pattern` matches begins with the segments of `prefix`; else in one
// sentence what is wrong.
Result<void, std::string> check_path_prefix(std::string_view prefix, const PathPattern& pattern);

// Whether `path`, as it was sent, begins with the bytes of `prefix` as whole segments, and a server
// that reads the rest finds in it what it finds in `path` behind the prefix. Nor could it read `//`
// at the beginning of the rest, which some servers take for the beginning of a host's name.
// `keeps_slash`: no server takes %2F for a slash.
// Requires a prefix that check_path_prefix() accepts. Linear, and no allocation where `path` has
// one reading.
bool can_strip(std::string_view path, std::string_view prefix, bool ignoring_case,
               bool keeps_slash = false);

// `path` without its first `bytes`; `/` if nothing is left. Requires that it has so many.
inline std::string_view without_prefix(std::string_view path, std::size_t bytes) {
    return bytes != 0 && path.size() == bytes ? std::string_view("/") : path.substr(bytes);
}

}  // namespace tidegate::routing
