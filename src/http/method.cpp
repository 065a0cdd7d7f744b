#include "http/method.hpp"

#include <algorithm>
#include <array>

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

}  // namespace

std::string_view registered_method(std::string_view method) {
    const auto* found = std::find_if(
        kRegistered.begin(), kRegistered.end(),
        [&](std::string_view registered) { return equal_ignoring_case(registered, method); });
    return found == kRegistered.end() ? std::string_view{} : *found;
}

}  // namespace tidegate::http
