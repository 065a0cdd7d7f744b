// Which route a request takes: the first match in the order written.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/described_enum.hpp"
#include "base/result.hpp"
#include "http/field.hpp"

namespace tidegate::routing {

// Says how the proxy treats a path that takes another route if the case of its letters is ignored.
enum class RouteCase : std::uint8_t {
    refuse,   // 400: servers that ignore case would serve it as the other one
    ignore,   // paths are matched without case
    as_sent,  // paths are matched with case
};

// `match:` of a route as written; every condition that is given must hold.
struct Match {
    std::string path = "/**";          // a pattern, see path_pattern.hpp
    std::vector<std::string> methods;  // upper case; empty: any; GET includes HEAD
    // Lower case. Empty: any. `*.example.com`: every name of one or more labels before
    // `example.com`, and not that name itself.
    std::string host;
    std::vector<std::pair<std::string, std::string>> headers;  // name (lower case), exact value
    // The server behind takes %2F for a character of its segment, and not for a slash.
    bool passes_encoded_slash = false;
};

// A host as routes are found by it: without port and trailing dot, in lower case, an IPv6 address
// in its one spelling. Pure; any thread.

// Holds its own bytes, as names have at most 255 and none is allocated for.
class HostName {
  public:
    // `host` as sent, port and all. Empty when it is none.
    explicit HostName(std::string_view host);

    std::string_view view() const { return {bytes_.data(), size_}; }

    static std::string_view without_port(std::string_view host);

  private:
    std::array<char, 256> bytes_;
    std::size_t size_ = 0;
};

struct RequestLine {
    std::string_view method;
    std::string_view path;                 // as sent, without query; begins with `/`, or is `*`
    std::string_view host;                 // as sent, port and all
    const http::Fields* fields = nullptr;  // of a head whose framing has been read
};

enum class MatchOutcome : std::uint8_t {
    matched,
    no_route,           // 404
    bad_path,           // 400: a malformed `%`, or `%00`
    ambiguous_path,     // 400: readings of the path name different routes or captures
    ambiguous_headers,  // 400: readings of a field that some route asks for could differ
    other_case,         // 400: without regard to case, the path names another route or captures
    other_method,       // 400: the method differs from a known one only in case
};

struct Matched {
    MatchOutcome outcome = MatchOutcome::no_route;
    std::size_t route = 0;  // position in the order written
};

// The first condition of a route that a request does not meet, in this order.
BOOST_DEFINE_FIXED_ENUM_CLASS(Mismatch, std::uint8_t, none, path, host, method, headers)

// One of the readings of a path, and the first route for it.
struct ReadPath {
    std::string text;
    std::optional<std::size_t> route;
    std::vector<std::string> captures;
    bool ignoring_case = false;  // how it was matched
};

// Immutable after construction: any thread. Cost does not grow with the number of routes beyond
// the candidates that share a first segment.
class Router {
  public:
    explicit Router(RouteCase route_case = RouteCase::refuse);
    ~Router();
    Router(Router&&) noexcept;
    Router& operator=(Router&&) noexcept;

    // Adds a route after those already there, or says what is wrong with its pattern.
    Result<void, std::string> add(const Match& match);

    // The upstream gets the original bytes, so a path that could be read in two ways must not
    // choose its limits: it is matched as sent, decoded once with dot segments removed, and with
    // `%2F`, `%5C`, `\`, `//` and `;...` read as a lenient server would; all must agree. Where the
    // route of the path as sent passes an encoded slash, no reading takes %2F for a slash. With
    // RouteCase::refuse they must agree without regard to case as well: the first route that
    // matches is then the first that matches in any case. A method has a case, and one that a
    // server could take for another by ignoring it is refused.
    //
    // A field that any route asks for is held to the same: it must be there once, in its own
    // spelling, and reach the upstream.
    Matched match(const RequestLine& request) const;

    // Every field that some route asks for, in lower case, each once.
    const std::vector<std::string>& header_names() const;

    // Whether some route names this method; any method.
    bool names_method(std::string_view method) const;
    bool names_methods() const;
    // Whether some route asks for a path, and does not take every one.
    bool names_paths() const;

    // Returns what route `index` captures of `path`, in the order of PathPattern::capture_names():
    // decoded once, as in all its readings. Requires that match() has given `path` this route.
    std::vector<std::string> captures(std::size_t index, std::string_view path) const;

    // For `explain`: why route `index` does not take the request as it was sent.
    Mismatch mismatch(std::size_t index, const RequestLine& request) const;

    // For `explain`: what match() compares, the path as it was sent first. A reading that leads
    // elsewhere without regard to case is listed a second time. Nothing when the path is bad or
    // mixes more than is read.
    std::vector<ReadPath> readings(const RequestLine& request) const;

    // For `check`: the methods that route `index` names; empty: it takes any.
    const std::vector<std::string>& methods(std::size_t index) const;

    // For `check`: whether route `index` takes one host only.
    bool names_host(std::size_t index) const;

    // For `check`: the position of an earlier route that already takes everything route `index`
    // could match, if that is known.
    std::optional<std::size_t> shadowed_by(std::size_t index) const;

    // For `check`: the position of an earlier route that a path of route `index` matches only if
    // case is ignored, if that is known.
    std::optional<std::size_t> differs_by_case(std::size_t index) const;

    // For `check`: where a path of route `index` goes when it is sent in another case. Nothing
    // unless paths are matched as sent, and where the route stays the same or there is none.
    std::optional<std::size_t> escape_by_case(std::size_t index) const;

    // For `check`: the position of the route that takes all requests which lack the fields that
    // route `index` asks for, if that is known.
    std::optional<std::size_t> without_headers(std::size_t index) const;

    // For `check`: the position of the first route that takes POST at all paths of route `index`,
    // which does not take it, if that is known.
    std::optional<std::size_t> instead_for_post(std::size_t index) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tidegate::routing
