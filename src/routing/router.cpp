#include "routing/router.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "routing/path_pattern.hpp"
#include "routing/path_readings.hpp"
#include "routing/route_index.hpp"

namespace tidegate::routing {
namespace {

constexpr std::uint32_t kNone = RouteIndex::kNone;

char lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

// A host as routes are found by it: without port and trailing dot, in lower case. Holds its own
// bytes, as names have at most 253 and none is allocated for.
class HostName {
  public:
    explicit HostName(std::string_view host) {
        host = without_port(host);
        if (host.ends_with('.')) host.remove_suffix(1);
        if (host.size() > bytes_.size()) return;  // names nothing
        size_ = host.size();
        std::transform(host.begin(), host.end(), bytes_.begin(), lower);
    }

    std::string_view view() const { return {bytes_.data(), size_}; }

    static std::string_view without_port(std::string_view host) {
        if (host.starts_with('['))
            return host.substr(0, std::min(host.find(']'), host.size() - 1) + 1);
        return host.substr(0, host.find(':'));
    }

  private:
    std::array<char, 256> bytes_;
    std::size_t size_ = 0;
};

struct HostHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view host) const {
        return std::hash<std::string_view>{}(host);
    }
};

struct Entry {
    PathPattern pattern;
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

}  // namespace

struct Router::Impl {
    std::vector<Entry> entries;
    RouteIndex any_host;
    std::unordered_map<std::string, RouteIndex, HostHash, std::equal_to<>> by_host;
    std::vector<std::uint32_t> regexes;    // tried in order: they have no common index
    std::vector<std::uint32_t> asterisks;  // routes that `OPTIONS *` can take
    bool reads_paths = false;              // some route asks for more than `/**`

    // The first route for one reading of the path; kNone when there is none.
    std::uint32_t find(std::string_view text, std::string_view decoded, const RequestLine& request,
                       std::string_view host) const {
        const auto fits = [&](std::uint32_t route) {
            const Entry& entry = entries[route];
            return method_fits(entry, request.method) && headers_fit(entry, request.fields);
        };
        std::uint32_t best = any_host.find(text, kNone, fits);
        if (!by_host.empty())
            if (const auto found = by_host.find(host); found != by_host.end())
                best = found->second.find(text, best, fits);
        for (const std::uint32_t route : regexes) {
            if (route >= best) break;
            if (host_fits(route, host) && fits(route) && entries[route].pattern.matches(decoded))
                return route;
        }
        return best;
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

    // All readings must choose the same route, or none, and capture the same.
    Matched find_in_all(const std::vector<PathReading>& readings, const RequestLine& request,
                        std::string_view host) const {
        const PathReading& sent = readings.front();
        const std::uint32_t route = find(sent.text, sent.decoded, request, host);
        const bool captures = route != kNone && entries[route].pattern.has_captures();
        std::vector<std::string> captured;
        if (captures) captured = entries[route].pattern.captures(sent.decoded);
        for (auto reading = readings.begin() + 1; reading != readings.end(); ++reading) {
            if (find(reading->text, reading->decoded, request, host) != route ||
                (captures && entries[route].pattern.captures(reading->decoded) != captured))
                return {MatchOutcome::ambiguous_path, 0};
        }
        return outcome(route);
    }

    static Matched outcome(std::uint32_t route) {
        if (route == kNone) return {MatchOutcome::no_route, 0};
        return {MatchOutcome::matched, route};
    }
};

Router::Router() : impl_(std::make_unique<Impl>()) {}
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

    Impl& impl = *impl_;
    const auto route = static_cast<std::uint32_t>(impl.entries.size());
    impl.entries.push_back(
        {std::move(*pattern), match.methods, std::string(host.view()), match.headers});
    const Entry& entry = impl.entries.back();
    impl.reads_paths = impl.reads_paths || !entry.pattern.takes_everything();
    if (entry.pattern.kind() == PathPattern::Kind::regex) {
        impl.regexes.push_back(route);
    } else if (entry.pattern.kind() == PathPattern::Kind::segments) {
        (entry.host.empty() ? impl.any_host : impl.by_host[entry.host]).add(entry.pattern, route);
    }
    if (entry.pattern.kind() != PathPattern::Kind::segments || entry.pattern.takes_everything())
        impl.asterisks.push_back(route);
    return {};
}

Matched Router::match(const RequestLine& request) const {
    const HostName host(impl_->by_host.empty() && impl_->regexes.empty() && request.path != "*"
                            ? std::string_view{}
                            : request.host);
    if (request.path == "*") return impl_->find_asterisk(request, host.view());
    const PathShape shape = examine_path(request.path);
    if (shape.bad) return {MatchOutcome::bad_path, 0};
    if (shape.features == 0 || !impl_->reads_paths)
        return Impl::outcome(impl_->find(request.path, request.path, request, host.view()));
    if (has_too_many_readings(shape)) return {MatchOutcome::ambiguous_path, 0};
    return impl_->find_in_all(path_readings(request.path, shape), request, host.view());
}

std::vector<std::string> Router::captures(std::size_t index, std::string_view path) const {
    const PathPattern& pattern = impl_->entries[index].pattern;
    const PathShape shape = examine_path(path);
    // `*` has no shape and is read as it is.
    if (shape.bad || shape.features == 0) return pattern.captures(path);
    return pattern.captures(path_readings(path, shape).front().decoded);
}

Mismatch Router::mismatch(std::size_t index, const RequestLine& request) const {
    const Entry& entry = impl_->entries[index];
    const HostName host(request.host);
    const PathShape shape = examine_path(request.path);
    const bool plain =
        request.path == "*" || shape.bad || shape.features == 0 || has_too_many_readings(shape);
    const PathReading sent = plain
                                 ? PathReading{std::string(request.path), std::string(request.path)}
                                 : path_readings(request.path, shape).front();
    const bool regex = entry.pattern.kind() == PathPattern::Kind::regex;
    if (!entry.pattern.matches(regex ? sent.decoded : sent.text)) return Mismatch::path;
    if (!impl_->host_fits(static_cast<std::uint32_t>(index), host.view())) return Mismatch::host;
    if (!method_fits(entry, request.method)) return Mismatch::method;
    return headers_fit(entry, request.fields) ? Mismatch::none : Mismatch::headers;
}

std::vector<ReadPath> Router::readings(const RequestLine& request) const {
    const HostName host(request.host);
    const PathShape shape = examine_path(request.path);
    std::vector<ReadPath> all;
    if (request.path == "*" || shape.bad || has_too_many_readings(shape)) return all;
    for (const PathReading& reading : path_readings(request.path, shape)) {
        ReadPath& read = all.emplace_back(ReadPath{reading.text, std::nullopt, {}});
        const auto route = impl_->find(reading.text, reading.decoded, request, host.view());
        if (route == kNone) continue;
        read.route = route;
        read.captures = impl_->entries[route].pattern.captures(reading.decoded);
    }
    return all;
}

std::optional<std::size_t> Router::shadowed_by(std::size_t index) const {
    const Entry& shadowed = impl_->entries[index];
    for (std::size_t i = 0; i < index; ++i) {
        const Entry& entry = impl_->entries[i];
        if (entry.pattern.covers(shadowed.pattern) && conditions_cover(entry, shadowed)) return i;
    }
    return std::nullopt;
}

}  // namespace tidegate::routing
