#include "routing/router.hpp"

#include <algorithm>
#include <utility>

#include "routing/router_impl.hpp"

namespace tidegate::routing {

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
    // `*` has no shape and is read as it is.
    if (shape.bad || shape.features == 0) return pattern.captures(path);
    return pattern.captures(path_readings(path, shape).front().decoded);
}

}  // namespace tidegate::routing
