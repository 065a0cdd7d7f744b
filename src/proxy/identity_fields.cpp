#include "proxy/identity_fields.hpp"

#include <algorithm>
#include <variant>

namespace tidegate::proxy {
namespace {

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

}  // namespace

IdentityFields::IdentityFields(const config::Config& config)
    : credentials_(config.credential_fields) {
    const auto add = [](const std::string& name, std::vector<std::string>& names) {
        if (!name.empty()) names.push_back(name);
    };
    for (const identity::UserMethod& method : config.user_methods) {
        if (const auto* header = std::get_if<identity::HeaderMethod>(&method.how)) {
            add(header->field, believed_);
            add(header->tier_field, believed_);
        }
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

bool IdentityFields::are_believed_as(std::string_view name) const {
    return has(believed_, name) && !any_like(ours_, name);
}

bool IdentityFields::hold_credentials_in(std::string_view name) const {
    return any_like(credentials_, name);
}

}  // namespace tidegate::proxy
