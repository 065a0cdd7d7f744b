#include "routing/router.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "http/method.hpp"
#include "http/request_value.hpp"
#include "routing/host_name.hpp"
#include "routing/letter_case.hpp"
#include "routing/path_pattern.hpp"
#include "routing/path_readings.hpp"
#include "routing/route_index.hpp"

namespace tidegate::routing {
namespace {

constexpr std::uint32_t kNone = RouteIndex::kNone;

struct HostHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view host) const {
        return std::hash<std::string_view>{}(host);
    }
};

struct Entry {
    PathPattern pattern;
    PathPattern blind;  // without regard to case
    std::vector<std::string> methods;
    std::string host;
    std::vector<std::pair<std::string, std::string>> headers;
};

bool includes(const std::vector<std::string>& methods, std::string_view method) {
    return std::any_of(methods.begin(), methods.end(), [&](const std::string& each) {
        return each == method || (each == "GET" && method == "HEAD");
    });
}

bool method_fits(const Entry& entry, std::string_view method) {
    return entry.methods.empty() || includes(entry.methods, method);
}

bool headers_fit(const Entry& entry, const http::Fields* fields) {
    if (entry.headers.empty()) return true;
    if (fields == nullptr) return false;
    return std::all_of(entry.headers.begin(), entry.headers.end(), [&](const auto& wanted) {
        return std::any_of(fields->begin(), fields->end(), [&](const http::Field& field) {
            return field.value == wanted.second &&
                   http::equal_ignoring_case(field.name, wanted.first);
        });
    });
}

// Whether whatever meets the conditions of `b` meets those of `a`, paths aside.
bool conditions_cover(const Entry& a, const Entry& b) {
    const bool methods =
        a.methods.empty() ||
        (!b.methods.empty() && std::all_of(b.methods.begin(), b.methods.end(),
                                           [&](const auto& m) { return includes(a.methods, m); }));
    const bool hosts = a.host.empty() || a.host == b.host;
    const bool headers = std::all_of(a.headers.begin(), a.headers.end(), [&](const auto& wanted) {
        return std::find(b.headers.begin(), b.headers.end(), wanted) != b.headers.end();
    });
    return methods && hosts && headers;
}

// Whether some request meets the conditions of both, paths aside.
bool conditions_meet(const Entry& a, const Entry& b) {
    const bool methods = a.methods.empty() || b.methods.empty() ||
                         std::any_of(a.methods.begin(), a.methods.end(), [&](const auto& m) {
                             return method_fits(b, m) || (m == "GET" && method_fits(b, "HEAD"));
                         });
    const bool hosts = a.host.empty() || b.host.empty() || a.host == b.host;
    const bool headers = std::all_of(a.headers.begin(), a.headers.end(), [&](const auto& wanted) {
        return std::all_of(b.headers.begin(), b.headers.end(), [&](const auto& other) {
            return other.first != wanted.first || other.second == wanted.second;
        });
    });
    return methods && hosts && headers;
}

// One way to compare the routes whose paths are segments: with case or without.
struct Index {
    RouteIndex any_host;
    std::unordered_map<std::string, RouteIndex, HostHash, std::equal_to<>> by_host;

    void add(const PathPattern& pattern, const std::string& host, std::uint32_t route) {
        (host.empty() ? any_host : by_host[host]).add(pattern, route);
    }

    template <class Accept>
    std::uint32_t find(std::string_view text, std::string_view host, const Accept& accept) const {
        const std::uint32_t best = any_host.find(text, kNone, accept);
        if (by_host.empty()) return best;
        const auto found = by_host.find(host);
        return found == by_host.end() ? best : found->second.find(text, best, accept);
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
        return entries[route].host.empty() || entries[route].host == host;
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
                            std::string(host.view()), match.headers});
    const Entry& entry = impl.entries.back();
    impl.add_header_names(entry);
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
    return impl_->find_in_all(path_readings(request.path, shape), request, host.view());
}

std::vector<std::string> Router::captures(std::size_t index, std::string_view path) const {
    const PathPattern& pattern =
        impl_->pattern(static_cast<std::uint32_t>(index), impl_->letters());
    const PathShape shape = examine_path(path);
    // `*` has no shape and is read as it is.
    if (shape.bad || shape.features == 0) return pattern.captures(path);
    return pattern.captures(path_readings(path, shape).front().decoded);
}

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
    for (const PathReading& reading : path_readings(request.path, shape)) {
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

std::optional<std::size_t> Router::escape_by_case(std::size_t index) const {
    if (impl_->route_case != RouteCase::as_sent) return std::nullopt;
    const Entry& entry = impl_->entries[index];
    const auto path = entry.pattern.example(false);
    const auto other = entry.pattern.example(true);
    if (!path || path == other) return std::nullopt;
    http::Fields fields;
    for (const auto& [name, value] : entry.headers)
        fields.push_back({http::FieldName::other, name, value});
    const RequestLine request{entry.methods.empty() ? "GET" : std::string_view(entry.methods[0]),
                              *path, entry.host, &fields};
    const auto find = [&](const std::string& text) {
        return impl_->find({text, text}, Letters::as_sent, request, entry.host);
    };
    if (find(*path) != index) return std::nullopt;
    const std::uint32_t escape = find(*other);
    if (escape == kNone || escape == index) return std::nullopt;
    return escape;
}

}  // namespace tidegate::routing
