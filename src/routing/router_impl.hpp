// The inside of Router: what it keeps of each route, and how it compares a request with them. Only
// router.cpp and router_check.cpp include it.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "http/method.hpp"
#include "http/request_value.hpp"
#include "routing/case_folding.hpp"
#include "routing/host_name.hpp"
#include "routing/path_normalization.hpp"
#include "routing/path_pattern.hpp"
#include "routing/route_index.hpp"
#include "routing/router.hpp"

namespace tidegate::routing {

inline constexpr std::uint32_t kNone = RouteIndex::kNone;

struct HostHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view host) const {
        return std::hash<std::string_view>{}(host);
    }
};

inline constexpr std::string_view kAnyLabels = "*.";

inline bool has_any_labels(std::string_view host) {
    return host.starts_with(kAnyLabels);
}

// Whether the host of a route takes `host`, or every host that `host` takes as that of a route.
inline bool host_takes(std::string_view of_route, std::string_view host) {
    if (of_route.empty() || of_route == host) return true;
    if (!has_any_labels(of_route)) return false;
    const std::string_view end = of_route.substr(1);
    return host.size() > end.size() && host.ends_with(end);
}

struct Entry {
    PathPattern pattern;
    PathPattern blind;  // without regard to case
    std::vector<std::string> methods;
    std::string host;
    std::vector<std::pair<std::string, std::string>> headers;
    bool passes_encoded_slash;
};

inline bool includes(const std::vector<std::string>& methods, std::string_view method) {
    return std::any_of(methods.begin(), methods.end(), [&](const std::string& each) {
        return each == method || (each == "GET" && method == "HEAD");
    });
}

inline bool method_fits(const Entry& entry, std::string_view method) {
    return entry.methods.empty() || includes(entry.methods, method);
}

// White space around it makes no other value: an upstream may cut off more of it than the parser.
inline bool value_fits(std::string_view wanted, std::string_view value) {
    return value == wanted || (value.size() > wanted.size() && !wanted.empty() &&
                               without_outer_blanks(value) == wanted);
}

inline bool headers_fit(const Entry& entry, const http::Fields* fields) {
    if (entry.headers.empty()) return true;
    if (fields == nullptr) return false;
    return std::all_of(entry.headers.begin(), entry.headers.end(), [&](const auto& wanted) {
        return std::any_of(fields->begin(), fields->end(), [&](const http::Field& field) {
            return value_fits(wanted.second, field.value) &&
                   http::equal_ignoring_case(field.name, wanted.first);
        });
    });
}

// One way to compare the routes whose paths are segments: with case or without.
struct Index {
    RouteIndex any_host;
    using Hosts = std::unordered_map<std::string, RouteIndex, HostHash, std::equal_to<>>;
    Hosts by_host;
    Hosts by_parent;  // of `*.example.com`, by `example.com`
    std::size_t parent_labels_max = 0;

    void add(const PathPattern& pattern, const std::string& host, std::uint32_t route) {
        if (has_any_labels(host)) {
            const std::string parent = host.substr(kAnyLabels.size());
            const auto dots =
                static_cast<std::size_t>(std::count(parent.begin(), parent.end(), '.'));
            parent_labels_max = std::max(parent_labels_max, dots + 1);
            by_parent[parent].add(pattern, route);
        } else {
            (host.empty() ? any_host : by_host[host]).add(pattern, route);
        }
    }

    template <class Accept>
    std::uint32_t find(std::string_view text, std::string_view host, const Accept& accept) const {
        std::uint32_t best = any_host.find(text, kNone, accept);
        if (!by_host.empty()) {
            const auto found = by_host.find(host);
            if (found != by_host.end()) best = found->second.find(text, best, accept);
        }
        return by_parent.empty() ? best : find_by_parent(text, host, best, accept);
    }

    // Looks at no more parents of `host` than have as many labels as some route's.
    template <class Accept>
    std::uint32_t find_by_parent(std::string_view text, std::string_view host, std::uint32_t best,
                                 const Accept& accept) const {
        std::size_t dot = host.rfind('.');
        for (std::size_t labels = 1; labels <= parent_labels_max; ++labels) {
            if (dot == host.npos || dot == 0) break;
            const auto found = by_parent.find(host.substr(dot + 1));
            if (found != by_parent.end()) best = found->second.find(text, best, accept);
            dot = host.rfind('.', dot - 1);
        }
        return best;
    }
};

enum class Letters : std::uint8_t { as_sent, folded };

// One reading of a path.
struct Subject {
    std::string_view text;     // compared with literal segments
    std::string_view decoded;  // with regular expressions
};

// A text with its letters folded. Paths of the usual length need no allocation.
class Folded {
  public:
    explicit Folded(std::string_view text) {
        if (text.size() <= bytes_.size()) {
            view_ = {bytes_.data(), fold_case(text, bytes_.data())};
        } else {
            longer_ = fold_case(text);
            view_ = longer_;
        }
    }
    Folded(const Folded&) = delete;
    Folded& operator=(const Folded&) = delete;

    std::string_view view() const { return view_; }

  private:
    std::array<char, 512> bytes_;
    std::string longer_;
    std::string_view view_;
};

struct Router::Impl {
    RouteCase route_case = RouteCase::refuse;
    std::vector<Entry> entries;
    Index as_sent;                          // empty where paths have no case
    Index folded;                           // without regard to case; empty where they have one
    std::vector<std::uint32_t> regexes;     // tried in order: they have no common index
    std::vector<std::uint32_t> asterisks;   // routes that `OPTIONS *` can take
    std::vector<std::string> header_names;  // that routes ask for
    std::vector<std::string> methods;       // of all routes, without repetitions
    bool reads_paths = false;               // some route asks for more than `/**`
    bool reads_hosts = false;               // some route asks for a host
    bool passes_encoded_slash = false;      // some route does
    bool asks_for_capitals = false;         // of some route even a path in lower case may differ

    // How routes are chosen; RouteCase::refuse then compares with Letters::folded as well.
    Letters letters() const {
        return route_case == RouteCase::ignore ? Letters::folded : Letters::as_sent;
    }

    const PathPattern& pattern(std::uint32_t route, Letters letters) const {
        const Entry& entry = entries[route];
        return letters == Letters::folded ? entry.blind : entry.pattern;
    }
    // As routes are chosen by it.
    const PathPattern& pattern(std::size_t route) const {
        return pattern(static_cast<std::uint32_t>(route), letters());
    }

    // The first route for one reading of the path; kNone when there is none.
    std::uint32_t find(const Subject& path, Letters letters, const RequestLine& request,
                       std::string_view host) const {
        if (letters == Letters::as_sent) return find_in(as_sent, path, letters, request, host);
        if (!may_fold(path.text)) return find_in(folded, path, letters, request, host);
        const Folded text(path.text);
        return find_in(folded, {text.view(), path.decoded}, letters, request, host);
    }

    std::uint32_t find_in(const Index& index, const Subject& path, Letters letters,
                          const RequestLine& request, std::string_view host) const {
        const auto fits = [&](std::uint32_t route) {
            const Entry& entry = entries[route];
            return method_fits(entry, request.method) && headers_fit(entry, request.fields);
        };
        const std::uint32_t best = index.find(path.text, host, fits);
        for (const std::uint32_t route : regexes) {
            if (route >= best) break;
            if (host_fits(route, host) && fits(route) &&
                pattern(route, letters).matches(path.decoded))
                return route;
        }
        return best;
    }

    // Whether `route`, found for this reading as it was sent, is found for it without case as well
    // and captures the same then.
    bool is_same_in_any_case(std::uint32_t route, const Subject& path, const RequestLine& request,
                             std::string_view host) const {
        if (!asks_for_capitals && !may_fold(path.text) && !may_fold(path.decoded)) return true;
        if (find(path, Letters::folded, request, host) != route) return false;
        if (route == kNone || entries[route].pattern.kind() != PathPattern::Kind::regex)
            return true;
        return entries[route].pattern.captures(path.decoded) ==
               entries[route].blind.captures(path.decoded);
    }

    bool is_method_in_other_case(std::string_view method) const {
        if (!http::has_lower_case(method)) return false;
        return !http::registered_method(method).empty() ||
               std::any_of(methods.begin(), methods.end(), [&](const std::string& known) {
                   return http::equal_ignoring_case(known, method);
               });
    }

    bool host_fits(std::uint32_t route, std::string_view host) const {
        return host_takes(entries[route].host, host);
    }

    Matched find_asterisk(const RequestLine& request, std::string_view host) const {
        for (const std::uint32_t route : asterisks) {
            const Entry& entry = entries[route];
            if (host_fits(route, host) && method_fits(entry, request.method) &&
                headers_fit(entry, request.fields) && entry.pattern.matches("*"))
                return {MatchOutcome::matched, route};
        }
        return {MatchOutcome::no_route, 0};
    }

    // A path with one reading. `cased`: as of its PathShape.
    Matched find_plain(const RequestLine& request, bool cased, std::string_view host) const {
        const Subject path{request.path, request.path};
        if (route_case != RouteCase::refuse || !reads_paths || !(cased || asks_for_capitals))
            return outcome(find(path, letters(), request, host));
        if (regexes.empty()) {
            // Segments that match a path with its case match it without, so the first route of
            // both is the same if the first without case matches as sent.
            const std::uint32_t route = find(path, Letters::folded, request, host);
            const bool same = route == kNone || entries[route].pattern.matches(request.path);
            return same ? outcome(route) : Matched{MatchOutcome::other_case, 0};
        }
        const std::uint32_t route = find(path, Letters::as_sent, request, host);
        const bool same = is_same_in_any_case(route, path, request, host);
        return same ? outcome(route) : Matched{MatchOutcome::other_case, 0};
    }

    // The readings that must agree: all, unless the route of the path as it was sent says that no
    // server takes %2F for a slash. Requires a shape with features.
    std::vector<PathReading> readings_of(const RequestLine& request, const PathShape& shape,
                                         std::string_view host) const {
        std::vector<PathReading> readings = path_readings(request.path, shape);
        if ((shape.features & kEncodedSlash) == 0 || !passes_encoded_slash) return readings;
        const PathReading& sent = readings.front();
        const std::uint32_t route = find({sent.text, sent.decoded}, letters(), request, host);
        if (route == kNone || !entries[route].passes_encoded_slash) return readings;
        return path_readings(request.path, with_slash_kept(shape));
    }

    // All readings must choose the same route, or none, and capture the same.
    Matched find_in_all(const std::vector<PathReading>& readings, const RequestLine& request,
                        std::string_view host) const {
        const PathReading& sent = readings.front();
        const std::uint32_t route = find({sent.text, sent.decoded}, letters(), request, host);
        const bool captures = route != kNone && entries[route].pattern.has_captures();
        std::vector<std::string> captured;
        if (captures) captured = pattern(route, letters()).captures(sent.decoded);
        for (auto reading = readings.begin() + 1; reading != readings.end(); ++reading) {
            if (find({reading->text, reading->decoded}, letters(), request, host) != route ||
                (captures && pattern(route, letters()).captures(reading->decoded) != captured))
                return {MatchOutcome::ambiguous_path, 0};
        }
        if (route_case != RouteCase::refuse) return outcome(route);
        for (const PathReading& reading : readings)
            if (!is_same_in_any_case(route, {reading.text, reading.decoded}, request, host))
                return {MatchOutcome::other_case, 0};
        return outcome(route);
    }

    bool reads_unclear_headers(const http::Fields* fields) const {
        return fields != nullptr &&
               std::any_of(header_names.begin(), header_names.end(), [&](const std::string& name) {
                   return http::is_unclear_in_fields(*fields, name);
               });
    }

    void add_header_names(const Entry& entry) {
        for (const auto& [name, value] : entry.headers) {
            if (std::find(header_names.begin(), header_names.end(), name) == header_names.end())
                header_names.push_back(name);
        }
    }

    static Matched outcome(std::uint32_t route) {
        if (route == kNone) return {MatchOutcome::no_route, 0};
        return {MatchOutcome::matched, route};
    }
};

}  // namespace tidegate::routing
