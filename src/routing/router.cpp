#include "routing/router.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/case_folding.hpp"
#include "base/ip.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "http/query_and_method_override.hpp"
#include "routing/path_normalization.hpp"
#include "routing/path_pattern.hpp"

namespace tidegate::routing {

namespace {

// Writes `[2001:DB8:0::1]` as `[2001:db8::1]`, and returns a text that is no address as it is.
std::string one_spelling(std::string_view literal) {
    const auto ip = parse_ip(literal.substr(1, literal.size() - 2));
    return ip ? "[" + ip->to_string() + "]" : std::string(literal);
}

}  // namespace

HostName::HostName(std::string_view host) {
    host = without_port(host);
    if (host.ends_with('.')) host.remove_suffix(1);
    std::string literal;
    if (host.starts_with('[') && host.ends_with(']')) host = literal = one_spelling(host);
    if (host.size() > bytes_.size()) return;  // no route has such a host
    size_ = host.size();
    std::transform(host.begin(), host.end(), bytes_.begin(), [](char c) { return to_lower(c); });
}

std::string_view HostName::without_port(std::string_view host) {
    if (host.starts_with('[')) return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
    return host.substr(0, host.find(':'));
}

namespace {

// Holds the patterns of many routes as one tree of segments, so that a look-up compares a path with
// its own segments and not with every route. The router builds it once; then any thread reads it.
class RouteIndex {
  public:
    static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

    // Adds a pattern of segments. The caller adds routes in ascending order.
    void add(const PathPattern& pattern, std::uint32_t route);

    // Returns the lowest route below `best` whose pattern matches `path` and which `accept` takes,
    // or `best` when there is none. `path` begins with a slash.
    template <class Accept>
    std::uint32_t find(std::string_view path, std::uint32_t best, const Accept& accept) const {
        return nodes_.empty() ? best : find_below(0, path.substr(1), true, best, accept);
    }

  private:
    struct Node {
        std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>> literals;
        std::uint32_t any = kNone;
        std::uint32_t lowest = kNone;     // route here or below
        std::vector<std::uint32_t> here;  // patterns that end here, ascending
        std::vector<std::uint32_t> open;  // patterns that end here in `**`, ascending
    };

    std::uint32_t child(std::uint32_t node, const PathPattern::Segment& segment);

    template <class Accept>
    static std::uint32_t first_of(const std::vector<std::uint32_t>& routes, std::uint32_t best,
                                  const Accept& accept) {
        for (const std::uint32_t route : routes) {
            if (route >= best) break;
            if (accept(route)) return route;
        }
        return best;
    }

    // Visits a node at most once, as one way of segments leads to it. `lowest` lets the search skip
    // the subtrees that could not win.
    template <class Accept>
    std::uint32_t find_below(std::uint32_t index, std::string_view rest, bool more,
                             std::uint32_t best, const Accept& accept) const {
        const Node& node = nodes_[index];
        if (node.lowest >= best) return best;
        best = first_of(node.open, best, accept);
        // The path ends here, or has one slash more.
        if (rest.empty()) best = first_of(node.here, best, accept);
        if (!more) return best;
        const std::string_view segment = take_segment(rest, more);
        if (segment.empty() && more) return best;  // no pattern has `//`
        if (const auto found = node.literals.find(segment); found != node.literals.end())
            best = find_below(found->second, rest, more, best, accept);
        if (node.any != kNone && !segment.empty())
            best = find_below(node.any, rest, more, best, accept);
        return best;
    }

    std::vector<Node> nodes_;
};

void RouteIndex::add(const PathPattern& pattern, std::uint32_t route) {
    if (nodes_.empty()) nodes_.emplace_back();
    std::uint32_t at = 0;
    nodes_[at].lowest = std::min(nodes_[at].lowest, route);
    for (const PathPattern::Segment& segment : pattern.segments()) {
        at = child(at, segment);
        nodes_[at].lowest = std::min(nodes_[at].lowest, route);
    }
    (pattern.open_ended() ? nodes_[at].open : nodes_[at].here).push_back(route);
}

std::uint32_t RouteIndex::child(std::uint32_t node, const PathPattern::Segment& segment) {
    const bool literal = segment.kind == PathPattern::Segment::Kind::literal;
    const auto fresh = static_cast<std::uint32_t>(nodes_.size());
    std::uint32_t* const link =
        literal ? &nodes_[node].literals.try_emplace(segment.text, kNone).first->second
                : &nodes_[node].any;
    if (*link != kNone) return *link;
    *link = fresh;
    nodes_.emplace_back();
    return fresh;
}

constexpr std::uint32_t kNone = RouteIndex::kNone;

constexpr std::string_view kAnyLabels = "*.";

bool has_any_labels(std::string_view host) {
    return host.starts_with(kAnyLabels);
}

// Says whether the host of a route takes `host`; where `host` is that of another route, whether it
// takes every host that the other takes.
bool host_takes(std::string_view of_route, std::string_view host) {
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

bool includes(const std::vector<std::string>& methods, std::string_view method) {
    return std::any_of(methods.begin(), methods.end(), [&](const std::string& each) {
        return each == method || (each == "GET" && method == "HEAD");
    });
}

bool method_fits(const Entry& entry, std::string_view method) {
    return entry.methods.empty() || includes(entry.methods, method);
}

// White space around a value makes no other value: an upstream may cut off more white space than
// Tidegate's parser.
bool value_fits(std::string_view wanted, std::string_view value) {
    return value == wanted || (value.size() > wanted.size() && !wanted.empty() &&
                               without_outer_blanks(value) == wanted);
}

bool headers_fit(const Entry& entry, const http::Fields* fields) {
    if (entry.headers.empty()) return true;
    if (fields == nullptr) return false;
    return std::all_of(entry.headers.begin(), entry.headers.end(), [&](const auto& wanted) {
        return std::any_of(fields->begin(), fields->end(), [&](const http::Field& field) {
            return value_fits(wanted.second, field.value) &&
                   http::equal_ignoring_case(field.name, wanted.first);
        });
    });
}

// Finds routes whose paths are segments in one way of comparing: with case or without.
struct Index {
    RouteIndex any_host;
    using Hosts = std::unordered_map<std::string, RouteIndex, TextHash, std::equal_to<>>;
    Hosts by_host;
    Hosts by_parent;  // has `*.example.com` under `example.com`
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

    // Looks only at parents of `host` with at most as many labels as a route's parent has.
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

// Holds one reading of a path.
struct Subject {
    std::string_view text;     // to compare with literal segments
    std::string_view decoded;  // to match with regular expressions
};

// Holds a text with its letters folded. Paths of the usual length need no allocation.
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

}  // namespace

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
    bool asks_for_capitals = false;         // case matters to some route even in lower-case paths

    // Returns the letters by which the router chooses; with RouteCase::refuse it then compares with
    // Letters::folded as well.
    Letters letters() const {
        return route_case == RouteCase::ignore ? Letters::folded : Letters::as_sent;
    }

    const PathPattern& pattern(std::uint32_t route, Letters letters) const {
        const Entry& entry = entries[route];
        return letters == Letters::folded ? entry.blind : entry.pattern;
    }
    // Returns the pattern by which the router chooses the route.
    const PathPattern& pattern(std::size_t route) const {
        return pattern(static_cast<std::uint32_t>(route), letters());
    }

    // Returns the first route for one reading of the path, or kNone.
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

    // Says whether the search without case finds `route`, too, which the search with case has found
    // for this reading, and whether the captures are the same then.
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

    // Finds the route of a path that has one reading. `cased` comes from its PathShape.
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

    // Returns the readings that must agree: all, unless the route of the path as the client sent it
    // says that no server takes %2F for a slash. Requires a shape with features.
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

Router::Router(RouteCase route_case) : impl_(std::make_unique<Impl>()) {
    impl_->route_case = route_case;
}
Router::~Router() = default;
Router::Router(Router&&) noexcept = default;
Router& Router::operator=(Router&&) noexcept = default;

Result<void, std::string> Router::add(const Match& match) {
    auto pattern = PathPattern::parse(match.path);
    if (!pattern) return pattern.error();
    if (HostName::without_port(match.host).size() != match.host.size())
        return "a host is matched without its port: `" +
               std::string(HostName::without_port(match.host)) + "`";
    const HostName host(match.host);
    if (host.view().empty() && !match.host.empty())
        return std::string("`host` must be a host name or an address");

    for (const std::string& method : match.methods)
        if (http::has_lower_case(method))
            return "a method has no lower-case letters: `" + method + "`";
    auto blind = pattern->ignoring_case();
    if (!blind) return blind.error();

    Impl& impl = *impl_;
    const auto route = static_cast<std::uint32_t>(impl.entries.size());
    impl.entries.push_back({std::move(*pattern), std::move(*blind), match.methods,
                            std::string(host.view()), match.headers, match.passes_encoded_slash});
    const Entry& entry = impl.entries.back();
    impl.add_header_names(entry);
    impl.passes_encoded_slash = impl.passes_encoded_slash || match.passes_encoded_slash;
    impl.reads_paths = impl.reads_paths || !entry.pattern.takes_everything();
    impl.asks_for_capitals = impl.asks_for_capitals || entry.pattern.asks_for_capitals();
    for (const std::string& method : entry.methods)
        if (std::find(impl.methods.begin(), impl.methods.end(), method) == impl.methods.end())
            impl.methods.push_back(method);
    if (entry.pattern.kind() == PathPattern::Kind::regex) {
        impl.regexes.push_back(route);
    } else if (entry.pattern.kind() == PathPattern::Kind::segments) {
        if (impl.route_case != RouteCase::ignore)
            impl.as_sent.add(entry.pattern, entry.host, route);
        if (impl.route_case != RouteCase::as_sent) impl.folded.add(entry.blind, entry.host, route);
    }
    if (entry.pattern.kind() != PathPattern::Kind::segments || entry.pattern.takes_everything())
        impl.asterisks.push_back(route);
    impl.reads_hosts = impl.reads_hosts || !entry.host.empty();
    return {};
}

const std::vector<std::string>& Router::header_names() const {
    return impl_->header_names;
}

bool Router::names_method(std::string_view method) const {
    return std::find(impl_->methods.begin(), impl_->methods.end(), method) != impl_->methods.end();
}

bool Router::names_methods() const {
    return !impl_->methods.empty();
}

bool Router::names_paths() const {
    return impl_->reads_paths;
}

Matched Router::match(const RequestLine& request) const {
    if (impl_->is_method_in_other_case(request.method)) return {MatchOutcome::other_method, 0};
    if (impl_->reads_unclear_headers(request.fields)) return {MatchOutcome::ambiguous_headers, 0};
    const HostName host(impl_->reads_hosts ? request.host : std::string_view{});
    if (request.path == "*") return impl_->find_asterisk(request, host.view());
    const PathShape shape = examine_path(request.path);
    if (shape.bad) return {MatchOutcome::bad_path, 0};
    if (shape.features == 0 || !impl_->reads_paths)
        return impl_->find_plain(request, shape.cased, host.view());
    if (has_too_many_readings(shape)) return {MatchOutcome::ambiguous_path, 0};
    return impl_->find_in_all(impl_->readings_of(request, shape, host.view()), request,
                              host.view());
}

std::vector<std::string> Router::captures(std::size_t index, std::string_view path) const {
    const PathPattern& pattern =
        impl_->pattern(static_cast<std::uint32_t>(index), impl_->letters());
    const PathShape shape = examine_path(path);
    // `*` has no shape, and only one reading.
    if (shape.bad || shape.features == 0) return pattern.captures(path);
    return pattern.captures(path_readings(path, shape).front().decoded);
}

namespace {

// Says whether every request that meets the conditions of `b` meets those of `a`, paths and methods
// aside.
bool host_and_headers_cover(const Entry& a, const Entry& b) {
    return host_takes(a.host, b.host) &&
           std::all_of(a.headers.begin(), a.headers.end(), [&](const auto& wanted) {
               return std::find(b.headers.begin(), b.headers.end(), wanted) != b.headers.end();
           });
}

// Says the same of hosts, fields and methods.
bool conditions_cover(const Entry& a, const Entry& b) {
    const bool methods =
        a.methods.empty() ||
        (!b.methods.empty() && std::all_of(b.methods.begin(), b.methods.end(),
                                           [&](const auto& m) { return includes(a.methods, m); }));
    return methods && host_and_headers_cover(a, b);
}

// Says whether some request meets the conditions of both, paths aside.
bool conditions_meet(const Entry& a, const Entry& b) {
    const bool methods = a.methods.empty() || b.methods.empty() ||
                         std::any_of(a.methods.begin(), a.methods.end(), [&](const auto& m) {
                             return method_fits(b, m) || (m == "GET" && method_fits(b, "HEAD"));
                         });
    const bool hosts = host_takes(a.host, b.host) || host_takes(b.host, a.host);
    const bool headers = std::all_of(a.headers.begin(), a.headers.end(), [&](const auto& wanted) {
        return std::all_of(b.headers.begin(), b.headers.end(), [&](const auto& other) {
            return other.first != wanted.first || other.second == wanted.second;
        });
    });
    return methods && hosts && headers;
}

}  // namespace

Mismatch Router::mismatch(std::size_t index, const RequestLine& request) const {
    const Entry& entry = impl_->entries[index];
    const PathPattern& pattern =
        impl_->pattern(static_cast<std::uint32_t>(index), impl_->letters());
    const HostName host(request.host);
    const PathShape shape = examine_path(request.path);
    const bool plain =
        request.path == "*" || shape.bad || shape.features == 0 || has_too_many_readings(shape);
    const PathReading sent = plain
                                 ? PathReading{std::string(request.path), std::string(request.path)}
                                 : path_readings(request.path, shape).front();
    const bool regex = entry.pattern.kind() == PathPattern::Kind::regex;
    if (!pattern.matches(regex ? sent.decoded : sent.text)) return Mismatch::path;
    if (!impl_->host_fits(static_cast<std::uint32_t>(index), host.view())) return Mismatch::host;
    if (!method_fits(entry, request.method)) return Mismatch::method;
    return headers_fit(entry, request.fields) ? Mismatch::none : Mismatch::headers;
}

std::vector<ReadPath> Router::readings(const RequestLine& request) const {
    const Impl& impl = *impl_;
    const HostName host(request.host);
    const PathShape shape = examine_path(request.path);
    std::vector<ReadPath> all;
    if (request.path == "*" || shape.bad || has_too_many_readings(shape)) return all;
    const auto add = [&](const PathReading& reading, Letters letters) {
        ReadPath& read = all.emplace_back(ReadPath{reading.text, std::nullopt, {}, false});
        read.ignoring_case = letters == Letters::folded;
        const auto route =
            impl.find({reading.text, reading.decoded}, letters, request, host.view());
        if (route == kNone) return;
        read.route = route;
        read.captures = impl.pattern(route, letters).captures(reading.decoded);
    };
    for (const PathReading& reading : impl.readings_of(request, shape, host.view())) {
        add(reading, impl.letters());
        if (impl.route_case != RouteCase::refuse) continue;
        const std::size_t sent = all.size() - 1;
        add(reading, Letters::folded);
        const bool same =
            all[sent].route == all.back().route && all[sent].captures == all.back().captures;
        if (same) all.pop_back();
    }
    return all;
}

const std::vector<std::string>& Router::methods(std::size_t index) const {
    return impl_->entries[index].methods;
}

bool Router::names_host(std::size_t index) const {
    const std::string& host = impl_->entries[index].host;
    return !host.empty() && !has_any_labels(host);
}

std::optional<std::size_t> Router::shadowed_by(std::size_t index) const {
    const Impl& impl = *impl_;
    for (std::size_t i = 0; i < index; ++i) {
        if (impl.pattern(i).covers(impl.pattern(index)) &&
            conditions_cover(impl.entries[i], impl.entries[index]))
            return i;
    }
    return std::nullopt;
}

std::optional<std::size_t> Router::differs_by_case(std::size_t index) const {
    const Entry& later = impl_->entries[index];
    for (std::size_t i = 0; i < index; ++i) {
        const Entry& earlier = impl_->entries[i];
        if (earlier.blind.overlaps(later.blind) && !earlier.pattern.overlaps(later.pattern) &&
            conditions_meet(earlier, later))
            return i;
    }
    return std::nullopt;
}

std::optional<std::size_t> Router::without_headers(std::size_t index) const {
    const Impl& impl = *impl_;
    const Entry& left = impl.entries[index];
    if (left.headers.empty()) return std::nullopt;
    for (std::size_t i = index + 1; i < impl.entries.size(); ++i) {
        const Entry& entry = impl.entries[i];
        if (entry.headers.empty() && impl.pattern(i).covers(impl.pattern(index)) &&
            conditions_cover(entry, left))
            return i;
    }
    return std::nullopt;
}

std::optional<std::size_t> Router::instead_for_post(std::size_t index) const {
    const Impl& impl = *impl_;
    const Entry& left = impl.entries[index];
    if (method_fits(left, "POST")) return std::nullopt;
    for (std::size_t i = 0; i < impl.entries.size(); ++i) {
        const Entry& entry = impl.entries[i];
        if (method_fits(entry, "POST") && host_and_headers_cover(entry, left) &&
            impl.pattern(i).covers(impl.pattern(index)))
            return i;
    }
    return std::nullopt;
}

std::optional<std::size_t> Router::escape_by_case(std::size_t index) const {
    if (impl_->route_case != RouteCase::as_sent) return std::nullopt;
    const Entry& entry = impl_->entries[index];
    const auto path = entry.pattern.example(false);
    const auto other = entry.pattern.example(true);
    if (!path || path == other) return std::nullopt;
    // The route takes this host among others.
    const std::string host = has_any_labels(entry.host) ? "a" + entry.host.substr(1) : entry.host;
    http::Fields fields;
    for (const auto& [name, value] : entry.headers)
        fields.push_back({http::FieldName::other, name, value});
    const RequestLine request{entry.methods.empty() ? "GET" : std::string_view(entry.methods[0]),
                              *path, host, &fields};
    const auto find = [&](const std::string& text) {
        return impl_->find({text, text}, Letters::as_sent, request, host);
    };
    if (find(*path) != index) return std::nullopt;
    const std::uint32_t escape = find(*other);
    if (escape == kNone || escape == index) return std::nullopt;
    return escape;
}

}  // namespace tidegate::routing
