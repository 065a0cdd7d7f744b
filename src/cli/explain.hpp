// Explains what the proxy would decide about a request: client and user and why they are believed,
// the route, policies, limits and identifiers, the cost.
//
// The request takes the steps of the engine (ask/), with the notes that they make for this, up to
// the question to the store. The store is not asked, so nothing is charged. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ask/charge_list.hpp"
#include "base/described_enum.hpp"
#include "base/ip.hpp"
#include "base/shared_enums.hpp"
#include "config/config.hpp"
#include "faces/check_call.hpp"
#include "identity/client_ip.hpp"
#include "identity/key_source.hpp"
#include "limit/limit.hpp"
#include "routing/router.hpp"
#include "tls/client_auth.hpp"
#include "usage/cost.hpp"
#include "usage/request.hpp"

namespace tidegate {
class Doc;
}  // namespace tidegate

namespace tidegate::cli {

// Nothing in it holds a line end. Else it may be as wrong as a client's request can be.
struct ExplainQuestion {
    std::string method = "GET";
    std::string target = "/";
    std::optional<std::string> host{};  // else what `fields` say, else `localhost`
    std::vector<std::string> fields{};  // `Name: value`
    bool is_http2 = false;              // sent so; else in HTTP/1.1
    std::optional<IpAddress> from{};  // the peer; none: a Unix socket, trusted if no listener says
    // How Tidegate is asked. Not of `check`, which explain_call() explains. Of forward_auth there
    // must be a listener; the request is then what a gateway sends to it.
    Face face = Face::proxy;
    // The listener at which it arrives, as a position in Config::listen. If unset, it arrives at
    // the first of that face, or for the proxy at any.
    std::optional<std::size_t> listener{};
    // That the client shows over TLS, as one that the listener has verified.
    std::optional<ClientCertificate> certificate{};
    std::optional<std::string> body{};  // unset: it has none
};

// Says what a method of identity.user found.
BOOST_DEFINE_FIXED_ENUM_CLASS(MethodOutcome, std::uint8_t,
                              absent,       // the request does not use it
                              disbelieved,  // only trusted peers may
                              valid, refused,
                              ambiguous,    // said twice
                              unavailable,  // its keys could not be fetched
                              not_tried)    // an earlier one decided

// Texts of the request are as they came, and must be escaped when printed. Secrets are left out.
struct Explanation {
    struct Hop {
        std::string text;
        std::string address;  // empty: it is none
        identity::Hop::Kind kind;
    };
    // A method of identity.user, and its result.
    struct Method {
        using Outcome = MethodOutcome;

        std::string text;  // `jwt in authorization`
        Outcome outcome = Outcome::absent;
        std::string_view fault{};  // of one that is refused: `token: expired`
    };
    struct User {
        std::string name;
        std::string tier{};        // empty: none
        bool tier_listed = false;  // by identity.users; else by the credential
    };
    struct PassedRoute {
        std::string name;
        routing::Mismatch because;
    };
    struct Reading {
        std::string path;
        std::string route;  // empty: none
        std::vector<std::string> captures;
        bool ignoring_case = false;  // how it was matched
    };
    struct Key {
        std::string text;  // as configured
        ask::ChargeNotes::KeyOutcome outcome;
        std::vector<std::string> identifiers;
    };
    struct Limit {
        std::string name;  // `POLICY-LIMIT`, as RateLimit fields have it
        limit::Limit limit;
        bool never_passes = false;  // the request asks for more than it ever allows
    };
    // What a policy with a cost of its own takes before the request is sent.
    struct Reserved {
        enum class By : std::uint8_t {
            number,   // a fixed one
            body,     // an estimate by what the body says
            maximum,  // the largest estimate: the body is longer than `inspect_body`
        };

        By by = By::number;
        std::int64_t units = 0;  // with `in_money` millionths of a dollar
        bool in_money = false;
        usage::Estimate tokens{};             // of an estimate
        std::int64_t tokens_max = 0;          // likewise: the rule's `max`
        bool is_capped = false;               // by that
        std::string stated_by{};              // the member that states the output; empty: `default`
        std::int64_t answers = 1;             // that the request asks for
        std::optional<usage::Rates> rates{};  // what a token costs; unset: tokens do not count
        std::string model{};                  // empty: the request names none
        bool is_unknown_model = false;        // its price is that of unknown models
        std::string settled_by{};             // a clause
    };
    struct Policy {
        std::string name;
        ask::ChargeNotes::Outcome outcome;
        std::string_view mode = "enforce";  // limit::Policy::mode()
        double lease_slack = 0;  // the share of each quota that batches may hold; 0: no leases
        bool in_money = false;   // its limits count millionths of a dollar
        bool has_claimed_quotas = false;     // its limits have quotas that the user's token states
        std::optional<Reserved> reserved{};  // unset: the cost of the request
        bool left_out = false;       // in shadow, and the moment of the request will not do for it
        bool lacks_address = false;  // it counts by address, and the request has none
        std::string tier{};          // whose limits hold; empty: its own do
        std::string listed_as{};     // the entry of `exempt` or `deny` that means the client
        std::string candidate_of{};  // empty: it is no candidate
        std::vector<std::string> unenforced{};  // identifiers that `enforce` counts in shadow
        std::vector<Key> keys{};
        std::vector<Limit> limits{};
    };
    struct Cost {
        std::int64_t units = 1;
        std::string_view why;
        bool counts = true;     // false: all policies have costs of their own
        bool in_money = false;  // millionths of a dollar
    };
    struct Body {
        std::size_t bytes = 0;
        bool is_needed = false;  // by a policy of the route
        bool is_whole = false;   // else it is longer than `inspect_body`
        bool is_json = false;
        bool is_form = false;
    };

    std::string method;  // empty: the head could not be read
    std::string path;    // without the query, which may hold secrets
    std::string host;
    HttpVersion version = HttpVersion::http_1_1;
    bool is_preflight = false;  // of a route with cors: only the limit of preflights counts it

    std::string peer;         // empty: a Unix socket
    bool is_gateway = false;  // asks in forward_auth: its chain is read
    bool is_call = false;     // an item of the check API; explain() tells of its policy alone
    bool trusted = false;
    std::string trusted_network;  // the one that the peer is in

    // The rest as far as the request came. Identity is looked at also when there is no route.
    bool is_identified = false;
    std::string chain_field;  // where a trusted peer names the client
    std::vector<Hop> hops;
    std::optional<std::string> client;
    std::vector<Method> methods;     // in the order they are tried
    std::vector<std::string> guess;  // whom the credential counts for until it is found valid
    bool goes_on_anonymous = false;  // with a credential that was refused
    std::optional<User> user;

    std::optional<std::string> route;
    std::string upstream;
    // How long the route waits for the upstream.
    std::chrono::milliseconds response_timeout{0};
    std::chrono::milliseconds stream_idle{0};
    bool has_own_timeouts = false;    // else they are those of the upstream
    std::string strip_prefix;         // empty: the upstream is sent the path as it came
    std::string upstream_path;        // the path without it; empty where the request is refused
    std::vector<PassedRoute> passed;  // of those before it, or of all: their path is that
    std::size_t other_paths = 0;      // and those whose path is another
    std::vector<Reading> readings;    // of a path that is refused because they differ

    // Whether the route refuses this request if it has no user, and what says so.
    struct NeedOfUser {
        bool is_needed = false;
        std::string_view why;  // empty: nothing is written, or the request is a preflight
    };
    NeedOfUser need_of_user;

    std::optional<Body> body;  // unset: there is none
    std::vector<Policy> policies;
    std::optional<Cost> cost;
    std::size_t identifiers = 0;  // that limits are asked about
    std::size_t limits = 0;       // for all of them

    int refusal = 0;             // the status; 0: it is forwarded if the limits admit it
    std::string refusal_reason;  // as the client gets it
};

// Reads the body of a request that has a route, if a policy needs it, as the proxy does: this may
// end in a fault. `into` becomes Facts::body then, and `text` outlives it.
void explain_body(const std::optional<std::string>& text, const config::Config& config,
                  ask::Facts& facts, ask::Decision& decision, ask::InspectedBody& into,
                  Explanation& out);
// What the policy's own cost reserves. Nothing: the model has no price.
std::optional<Explanation::Reserved> reserved_of(const config::PolicyCost& cost,
                                                 const config::Config& config,
                                                 const ask::Facts& facts);

// Fetches keys from the source's URL, or not. Asked only for a token that needs them.
using FetchKeys = std::function<void(const std::shared_ptr<identity::KeySource>& source)>;

// Blocks for as long as a password's hash takes, and for `fetch_keys`.
Explanation explain(std::shared_ptr<const config::Config> config, const ExplainQuestion& question,
                    const FetchKeys& fetch_keys);

// For people: a fact a line, with its reason.
Doc doc_of(const Explanation& explanation);

struct CallQuestion {
    const config::Listen& listen;     // where it arrives
    std::optional<IpAddress> from{};  // the peer; none: it may ask
    bool reserves = false;            // POST /v1/reserve, else /v1/check
    std::string_view body{};
};

struct CallExplanation {
    faces::CheckCall::Form form = faces::CheckCall::Form::one;
    std::vector<Explanation> items;  // as far as they were looked at
    // All items together, if they are one charge, have these.
    std::size_t identifiers = 0;
    std::size_t limits = 0;

    int refusal = 0;  // of the whole call; 0: each item has a result
    std::string refusal_reason;
};

// The token of the listener is not looked at. Blocks as explain() does.
CallExplanation explain_call(const std::shared_ptr<const config::Config>& config,
                             const CallQuestion& question, const FetchKeys& fetch_keys);

Doc doc_of(const CallExplanation& explanation);

}  // namespace tidegate::cli
