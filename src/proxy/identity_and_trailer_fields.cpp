#include "proxy/identity_and_trailer_fields.hpp"

#include <algorithm>
#include <string_view>

namespace tidegate::proxy {

namespace {

using config::MomentSource;

bool any_like(const std::vector<std::string>& names, std::string_view name) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& one) { return http::equal_as_variable(one, name); });
}

// All longer names share a bit.
std::uint64_t length_bit(std::string_view name) {
    return std::uint64_t{1} << std::min<std::size_t>(name.size(), 63);
}

bool has(const std::vector<std::string>& names, std::string_view name) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& one) {
        return http::equal_ignoring_case(one, name);
    });
}

// The fields that RFC 9110 section 6.5.1 lists, except those for framing, which no trailer passes
// on.
constexpr std::string_view kDirecting[] = {
    "cache-control",
    "content-encoding",
    "content-range",
    "content-type",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "max-forwards",
    "pragma",
    "range",
};

void add_counted(const limit::Policy& policy, std::vector<std::string>& names) {
    limit::for_each_part(policy.key, [&](const limit::KeyPart& part) {
        if (part.kind == limit::KeyPart::Kind::header) names.push_back(part.name);
    });
}

void append_quoted(std::string_view value, std::string& out) {
    out.append("\"").append(value) += '"';
}

void append_pairs(std::string_view key, const ClientCertificate::Names& names, std::string& out) {
    for (const std::string& value : names.values) {
        out.append(";").append(key) += '=';
        if (value.find_first_of(",;=") == value.npos) {
            out += value;
        } else {
            append_quoted(value, out);
        }
    }
}

}  // namespace

IdentityFields::IdentityFields(const config::Config& config)
    : credentials_(config.credential_fields) {
    const auto add = [](const std::string& name, std::vector<std::string>& names) {
        if (!name.empty()) names.push_back(name);
    };
    for (const identity::UserMethod& method : config.user_methods) {
        for (const std::string& name : method.how->trusted_fields()) add(name, believed_);
    }
    if (config.client_ip.source == identity::ClientIpSettings::Source::single) {
        add(config.client_ip.single_field, believed_);
    }
    add(config.forward_as.user, ours_);
    add(config.forward_as.tier, ours_);
    add(config.forward_as.client_ip, ours_);
    for (const auto& names : {believed_, ours_}) {
        for (const std::string& name : names) lengths_ |= length_bit(name);
    }
}

bool IdentityFields::include(std::string_view name) const {
    if ((lengths_ & length_bit(name)) == 0) return false;
    return any_like(believed_, name) || any_like(ours_, name);
}

bool IdentityFields::is_believed(std::string_view name) const {
    return has(believed_, name) && !any_like(ours_, name);
}

bool IdentityFields::is_credential(std::string_view name) const {
    return any_like(credentials_, name);
}

RefusedTrailers::RefusedTrailers(const config::Config& config)
    : names_(std::begin(kDirecting), std::end(kDirecting)) {
    for (const auto& policy : config.policies) add_counted(*policy, names_);
    for (const config::Route& route : config.routes) {
        if (route.header_cost) names_.push_back(route.header_cost->field);
        if (route.moment && route.moment->in == MomentSource::In::header) {
            names_.push_back(route.moment->name);
        }
    }
    const config::RemovedOverrides& removed = config.removed_overrides;
    if (removed.methods) {
        names_.insert(names_.end(), http::kMethodOverrides.begin(), http::kMethodOverrides.end());
    }
    if (removed.targets) {
        names_.insert(names_.end(), http::kTargetOverrides.begin(), http::kTargetOverrides.end());
    }
    const auto& choosing = config.router.header_names();
    names_.insert(names_.end(), choosing.begin(), choosing.end());
    std::sort(names_.begin(), names_.end());
    names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
}

bool RefusedTrailers::include(std::string_view name) const {
    return std::any_of(names_.begin(), names_.end(),
                       [&](const std::string& one) { return http::equal_as_variable(one, name); });
}

void append_client_certificate(const ClientCertificate& certificate, std::string& out) {
    out.append("X-Forwarded-Client-Cert: Hash=").append(certificate.sha256) += ";Subject=";
    append_quoted(certificate.subject, out);
    append_pairs("URI", certificate.uris, out);
    append_pairs("DNS", certificate.dns_names, out);
    out += "\r\n";
}

}  // namespace tidegate::proxy
