// What the admin listener answers. Pure: a request in, an answer out.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace tidegate::admin {

// What `/readyz` says.
struct Readiness {
    bool ready = false;
    // {"status":"ready"|"starting"|"draining","store":{"kind":"redis","state":"up"|"down"}}
    std::string body;
};

// Where answers come from. Called on the admin listener's thread, for each request.
struct AdminSources {
    std::function<std::string()> metrics;  // the Prometheus text format
    std::function<Readiness()> ready;
    std::string token;  // empty: none, so only local peers get more than the open paths
};

struct AdminRequest {
    std::string_view method;
    std::string_view target;         // as sent, query and all
    std::string_view authorization;  // the field's value; empty: none, or more than one
    bool local = false;              // the peer is loopback or a Unix socket
};

struct AdminAnswer {
    int status = 200;
    std::string_view content_type;
    std::string body;
    std::string_view allow;         // for 405
    std::string_view authenticate;  // for 401: WWW-Authenticate
};

// `/metrics`, `/healthz` and `/readyz` answer everybody; anything else asks for the bearer token
// unless the peer is local.
AdminAnswer answer_to(const AdminRequest& request, const AdminSources& sources);

// An answer of problem details (RFC 9457).
AdminAnswer problem(int status);

}  // namespace tidegate::admin
