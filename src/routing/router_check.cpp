// Questions of `check` and `explain` about routes: which one shadows another, and why one does not
// match. No request waits for it.
#include <algorithm>
#include <utility>

#include "routing/router.hpp"
#include "routing/router_impl.hpp"

namespace tidegate::routing {
namespace {

// Whether whatever meets the conditions of `b` meets those of `a`, paths and methods aside.
bool host_and_headers_cover(const Entry& a, const Entry& b) {
    return host_takes(a.host, b.host) &&
           std::all_of(a.headers.begin(), a.headers.end(), [&](const auto& wanted) {
               return std::find(b.headers.begin(), b.headers.end(), wanted) != b.headers.end();
           });
}

// The same with methods.
bool conditions_cover(const Entry& a, const Entry& b) {
    const bool methods =
        a.methods.empty() ||
        (!b.methods.empty() && std::all_of(b.methods.begin(), b.methods.end(),
                                           [&](const auto& m) { return includes(a.methods, m); }));
    return methods && host_and_headers_cover(a, b);
}

// Whether some request meets the conditions of both, paths aside.
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
    // One of the hosts that the route takes.
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
