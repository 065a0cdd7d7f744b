#include "http/method.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "http/field.hpp"

namespace tidegate::http {
namespace {

constexpr auto kRegistered = std::to_array<std::string_view>({"GET",
                                                              "HEAD",
                                                              "POST",
                                                              "PUT",
                                                              "DELETE",
                                                              "CONNECT",
                                                              "OPTIONS",
                                                              "TRACE",
                                                              "PATCH",
                                                              "ACL",
                                                              "BASELINE-CONTROL",
                                                              "BIND",
                                                              "CHECKIN",
                                                              "CHECKOUT",
                                                              "COPY",
                                                              "LABEL",
                                                              "LINK",
                                                              "LOCK",
                                                              "MERGE",
                                                              "MKACTIVITY",
                                                              "MKCALENDAR",
                                                              "MKCOL",
                                                              "MKREDIRECTREF",
                                                              "MKWORKSPACE",
                                                              "MOVE",
                                                              "ORDERPATCH",
                                                              "PRI",
                                                              "PROPFIND",
                                                              "PROPPATCH",
                                                              "QUERY",
                                                              "REBIND",
                                                              "REPORT",
                                                              "SEARCH",
                                                              "UNBIND",
                                                              "UNCHECKOUT",
                                                              "UNLINK",
                                                              "UNLOCK",
                                                              "UPDATE",
                                                              "UPDATEREDIRECTREF",
                                                              "VERSION-CONTROL"});

template <std::size_t n>
bool has_like(const std::array<std::string_view, n>& names, std::string_view name) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view one) { return equal_as_variable(one, name); });
}

}  // namespace

std::string_view registered_method(std::string_view method) {
    const auto* found = std::find_if(
        kRegistered.begin(), kRegistered.end(),
        [&](std::string_view registered) { return equal_ignoring_case(registered, method); });
    return found == kRegistered.end() ? std::string_view{} : *found;
}

Override find_override(std::string_view name) {
    if (has_like(kMethodOverrides, name)) return Override::method;
    return has_like(kTargetOverrides, name) ? Override::target : Override::none;
}

}  // namespace tidegate::http
