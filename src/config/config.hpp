// The whole configuration as one immutable value: read once, shared by all threads, swapped whole.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file_work.hpp"
#include "base/ip.hpp"
#include "base/shared_enums.hpp"
#include "base/units.hpp"
#include "config/address.hpp"
#include "config/claimed_quotas.hpp"
#include "config/policy_cost.hpp"
#include "http/cors_origin.hpp"
#include "http/query_and_method_override.hpp"
#include "http/ratelimit_fields.hpp"
#include "identity/client_ip.hpp"
#include "identity/client_list.hpp"
#include "identity/user_methods.hpp"
#include "limit/limit.hpp"
#include "rls/rules.hpp"
#include "routing/router.hpp"
#include "tls/tls_settings.hpp"
#include "usage/answer.hpp"
#include "usage/cost.hpp"
#include "usage/request.hpp"

namespace tidegate::config {

using std::chrono::milliseconds;

struct UpstreamServer {
    Address address;
    int weight = 1;         // 1..1000
    std::string authority;  // for Host when it is not preserved
    bool is_tls = false;    // `https://`: Upstream::tls says how
    bool is_http2 = false;  // `h2c://`, or `http: h2`

    bool operator==(const UpstreamServer&) const = default;
};

// How Tidegate chooses the server of a request. Weights count for each.
enum class Balance : std::uint8_t {
    round_robin,
    least_connections,
    hash,  // requests with the same value of Upstream::hash_key go to the same server
};

// Both ends are included.
struct StatusRange {
    int first = 200;
    int last = 399;

    bool contains(int status) const { return status >= first && status <= last; }

    bool operator==(const StatusRange&) const = default;
};

struct HealthCheck {
    std::string path;  // what a GET asks for, a query included; else empty
    // Asks the health service of gRPC about this service instead; empty: about the server as a
    // whole. Unset: not by gRPC.
    std::optional<std::string> grpc;
    std::string host;  // for Host, perhaps with a port. Empty: the server's own authority
    milliseconds every{5'000};
    milliseconds timeout{2'000};                  // for all of a check; at most `every`
    int unhealthy_after = 3;                      // failed checks in a row
    int healthy_after = 2;                        // successful ones in a row
    std::vector<StatusRange> status{{200, 399}};  // of an answer that is healthy; not empty

    bool only_connects() const { return path.empty() && !grpc; }
    bool operator==(const HealthCheck&) const = default;
};

// When a server is left out because its requests fail.
struct Ejection {
    int failures = 5;               // in a row
    milliseconds duration{10'000};  // the first time
    int at_most_percent = 50;       // of the servers may be ejected at once

    bool operator==(const Ejection&) const = default;
};

// Requests that wait for one of Upstream::max_connections.
struct Queue {
    std::size_t max = 128;  // 0: no request waits
    milliseconds wait{1'000};

    bool operator==(const Queue&) const = default;
};

struct Upstream {
    std::string name;
    std::vector<UpstreamServer> servers;  // at least one
    Balance balance = Balance::round_robin;
    // Balance::hash balances by this key, which has no choices otherwise. The balancer places a
    // request without a value by round robin.
    limit::Key hash_key;
    std::optional<HealthCheck> health_check;  // unset: none
    std::optional<Ejection> eject;            // unset: off
    // How long the share of a server grows after it came back; 0: off.
    milliseconds slow_start{0};
    Queue queue;
    TlsSettings tls;  // of the servers with `is_tls`
    // The process opens at most so many to all servers together.
    std::size_t max_connections = 512;
    std::size_t idle_connections = 64;
    milliseconds resolve_every{30'000};
    milliseconds connect_timeout{2'000};
    milliseconds response_timeout{30'000};  // from the whole request to the head of the answer
    milliseconds stream_idle{300'000};      // silence inside an answer that has begun
    milliseconds idle_timeout{60'000};
    int retries = 1;
    // A body of known length up to this size is read whole before Tidegate takes a connection to a
    // server; 0: off.
    std::size_t request_buffer = 65'536;

    // Requests to some server go in HTTP/2.
    bool has_http2() const {
        return std::any_of(servers.begin(), servers.end(),
                           [](const UpstreamServer& server) { return server.is_http2; });
    }
    // Requests to some server go in HTTP/1.
    bool has_http1() const {
        return !std::all_of(servers.begin(), servers.end(),
                            [](const UpstreamServer& server) { return server.is_http2; });
    }
    bool operator==(const Upstream&) const = default;
};

// `tracing`: which requests become spans, and where the spans go.
struct Tracing {
    HttpsUrl otlp;
    TlsSettings tls;                                // of an `https://` collector
    double sample = 0.01;                           // 0..1, of traces that begin here
    Rate keep_failed{10, std::chrono::seconds{1}};  // a quota of 0: none
    Rate keep_limited{1, std::chrono::seconds{1}};
    bool accept_anyone = false;  // else the traces of trusted peers are continued
    std::string service = "tidegate";
    std::string header_lines;   // whole lines of `headers`
    std::size_t queue = 8'192;  // spans

    bool operator==(const Tracing&) const = default;
};

struct PolicySettings;

// `cors`: which pages of other origins may read the answers that Tidegate makes itself, and how
// many preflights an address may send (Fetch standard, section "HTTP extensions").
struct Cors {
    http::OriginList origins;
    bool credentials = false;         // pages may send cookies and the like; never with `*`
    std::chrono::seconds max_age{0};  // how long a browser may remember a preflight; 0: not said
    // What a preflight is charged to in place of the route's policies. One of Config::policies;
    // null only while a configuration is read.
    const PolicySettings* preflight = nullptr;
};

// What the policy of `preflight` is named; that of a route is `ROUTE/preflight`. No other may be.
inline constexpr const char* kPreflight = "preflight";

// How a gateway says in forward_auth which request it asks about.
enum class Dialect : std::uint8_t {
    nginx,          // X-Original-URI and X-Original-Method (auth_request)
    ingress_nginx,  // X-Original-URL, which is a whole URL, and X-Original-Method (auth-url)
    forwarded,      // X-Forwarded-Uri, -Method, -Host, -Proto (Traefik, Caddy)
    envoy,          // the request line and Host of the question (HTTP ext_authz)
};

// Peers that begin each connection with a PROXY header. A connection of any other peer is closed.
struct ProxyProtocol {
    IpNetworks from;  // empty: at a Unix socket, every peer

    bool admits(const std::optional<IpAddress>& peer) const;

    bool operator==(const ProxyProtocol&) const = default;
};

// The permissions of a Unix socket's file, which say who may connect.
struct SocketFile {
    std::optional<unsigned> mode;  // such as 0660; unset: what the umask leaves
    std::string group;             // a name or a number; empty: that of the process

    bool operator==(const SocketFile&) const = default;
};

// The number of a group that is given by its name or its number; nothing: the system has no such
// group. Blocks: it asks the system's database of groups.
std::optional<std::uint32_t> find_group(const std::string& group);

struct Listen {
    Address address;
    SocketFile socket_file;  // of a Unix socket; a reload may change it
    bool trusted = false;    // a Unix socket whose peers may name the client and the user
    // At kEveryAddress: another listener has the IPv4 addresses.
    bool ipv6_only = false;
    Face face = Face::proxy;
    Dialect dialect = Dialect::nginx;  // of forward_auth
    std::string path_prefix;           // of the dialect envoy: what it puts before each path
    // Not of the proxy: the networks that may ask. Empty: loopback. Unix sockets may always.
    IpNetworks from;
    std::string token;  // of check; empty: none

    std::optional<ProxyProtocol> proxy_protocol;
    bool is_https = false;  // `forwarded_proto: https`; Tidegate tells upstreams
    // Set: clients speak TLS with Tidegate itself. Its certificates may change by a reload.
    std::optional<TlsServerSettings> tls;
    std::chrono::seconds hsts{0};  // max-age of Strict-Transport-Security; 0: off
    // `redirect: https`: each request is sent to the same place under https.
    bool redirects = false;
    std::uint16_t redirect_port = 443;  // of the listener with TLS
    // `http`: at least one of them.
    bool takes_http1 = true;
    bool takes_http2 = false;
    bool half_close = false;  // in HTTP/1, a client that finishes sending has not left

    // Whether a peer may ask. Not for the proxy.
    bool admits(const std::optional<IpAddress>& peer) const;

    bool operator==(const Listen&) const = default;
};

struct Admin {
    Address address;
    SocketFile socket_file;  // as of Listen
    std::string token;       // empty: none
};

struct MemoryStoreSettings {
    std::size_t max_keys = 1'000'000;
    bool deny_when_full = false;  // on_full: deny

    bool operator==(const MemoryStoreSettings&) const = default;
};

// Sentinels, and which of the masters they watch is meant.
struct SentinelSettings {
    std::string master;
    std::vector<Address> nodes;  // at least one; none a Unix socket
    std::string username;
    std::string password;
    std::optional<TlsSettings> tls;  // unset: not encrypted

    bool operator==(const SentinelSettings&) const = default;
};

struct RedisSettings {
    std::optional<SentinelSettings> sentinel;  // set: they say where Redis is, not `address`
    std::vector<Address> cluster;              // not empty: nodes of a cluster; no `address`
    Address address;
    std::string username;
    std::string password;
    int database = 0;
    std::optional<TlsSettings> tls;      // unset: not encrypted
    milliseconds timeout{100};           // one decision, connecting included
    std::size_t max_in_flight = 10'000;  // a worker
    std::string key_prefix = "tg:";
    bool local_clock = false;  // clock: local
    int breaker_failures = 5;
    milliseconds probe_every{1'000};

    bool operator==(const RedisSettings&) const = default;
};

// Denials that are remembered in front of Redis.
struct DenyCacheSettings {
    milliseconds max_ttl{5'000};
    std::size_t entries = 100'000;  // that the workers share; 0: off
};

using StoreSettings = std::variant<MemoryStoreSettings, RedisSettings>;

// `forward_as` of `identity`: the fields in which the upstream gets the user, the tier and the
// client's address. In lower case; empty: not sent. No two the same.
struct ForwardAs {
    std::string user;
    std::string tier;
    std::string client_ip;  // may be x-real-ip, which `forwarding` may set, too
};

// What the policy of `identity.failed_credentials` is named. No other may be.
inline constexpr std::string_view kFailedCredentials = "failed_credentials";

struct Forwarding {
    bool x_forwarded = true;
    bool forwarded = false;
    bool via = true;
    bool states_via = false;  // `via` is written, either way
    // X-Forwarded-Client-Cert says whose certificate the client has shown.
    bool client_certificate = false;
    bool preserve_host = true;  // host: preserve; else the upstream server's own authority
};

// Which fields that name another method or target no server gets, as routes or policies tell
// requests apart by it. Both false with `method_override: pass`.
struct RemovedOverrides {
    bool methods = false;
    bool targets = false;

    bool include(http::RequestOverride kind) const {
        return (kind == http::RequestOverride::method && methods) ||
               (kind == http::RequestOverride::target && targets);
    }
};

// `at` of schedule limits: where a request says when it is meant for.
struct MomentSource {
    enum class In : std::uint8_t { header, query };
    In in = In::header;
    std::string name;  // of a field in lower case

    bool operator==(const MomentSource&) const = default;
};

// What a refused request gets to read.
struct AnswerBody {
    enum class Form : std::uint8_t {
        problem,  // problem details
        text,
        // As these providers of models say it. Their libraries wait for Retry-After, which such
        // answers have, whatever `response.headers` says.
        openai,
        anthropic,
    };
    Form form = Form::problem;
    // Of `text`; {retry_after} {limit} {policy} are filled in.
    std::string content_type{};
    std::string text{};

    bool is_of_provider() const { return form == Form::openai || form == Form::anthropic; }
};

// A policy as it is written: what it counts, whom it leaves alone and whom it turns away.
struct PolicySettings : limit::Policy {
    identity::ClientList exempt;
    identity::ClientList deny;
    std::optional<MomentSource> moment;        // of its schedule limits, tiers included
    std::shared_ptr<const PolicyCost> cost;    // null: the route's
    std::vector<ClaimedQuota> claimed_quotas;  // of its limits and those of its tiers
    // `on_missing: skip` is written: the policy does not count a request that has none of its keys.
    bool may_skip = false;
    // `enforce`: this twin in shadow counts identifiers whose hash is not below `enforced_below`.
    // Null: the policy is enforced for all. One of Config::policies, as the candidate.
    const PolicySettings* unenforced = nullptr;
    std::uint64_t enforced_below = 0;
    const PolicySettings* candidate = nullptr;
    // The answer has these where this is the first policy of the route that refuses.
    int status = 0;                  // 0: Response::status
    std::optional<AnswerBody> body;  // unset: Response::body
    bool is_derived() const { return twin_of != nullptr || candidate_of != nullptr; }
};
// What the name of a candidate ends with; no other policy's does.
inline constexpr std::string_view kCandidateSuffix = "@candidate";

// A cost that the request names. Where it does not, or is not believed: Route::cost.
struct HeaderCost {
    std::string field;         // lower case
    bool from_anyone = false;  // else from trusted peers only
    std::int64_t min = 1;
    std::int64_t max = limit::kQuotaMax;
};

// What the client of a tunnel may send through it, before the proxy ends the tunnel.
struct TunnelBounds {
    static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

    std::optional<limit::Limit> messages;  // gcra, of each tunnel for itself; unset: no bound
    std::uint64_t message_bytes = kUnlimited;
};

struct Route {
    std::string name;          // unique
    std::string path = "/**";  // `match.path` as it is written
    std::size_t upstream = 0;  // position in Config::upstreams, which is empty without a proxy
    std::int64_t cost = 1;
    std::optional<HeaderCost> header_cost;
    bool needs_user = false;       // `identity: required`, else identity.require
    bool states_identity = false;  // the route has `identity`; for explanations
    // default_policies, then its own; none twice. Point into Config::policies.
    std::vector<const PolicySettings*> policies;
    std::vector<std::string> captures;   // names; in the order of Router::captures()
    std::optional<MomentSource> moment;  // of all schedule limits that can be met here
    // Whole segments that the upstream is not sent: `/api`. Every path of the route begins with
    // them. Empty: nothing is removed.
    std::string strip_prefix;
    bool passes_encoded_slash = false;  // `encoded_slash: pass`; else %2F may be a slash
    // What holds on this route: its own, else that of its upstream and of `limits_on_requests`.
    milliseconds response_timeout{0};
    milliseconds stream_idle{0};
    std::uint64_t body_bytes = 0;
    // Bodies of every kind up to this size are read whole before the upstream gets them, beside
    // those that Upstream::request_buffer is for. At most body_bytes; 0: off.
    std::size_t buffer = 0;
    // `inspect_body`: bodies up to this size are read before the request is decided, where a policy
    // needs them (reads_body); a policy's estimate of a longer one is its largest.
    std::size_t inspected_bytes = 1'048'576;
    bool reads_body = false;          // a policy has a cost or a key that needs the body
    bool needs_whole_body = false;    // a key needs it: a longer one is refused with 413
    bool refuses_coded_body = false;  // a policy has to read it: a compressed one is refused
    bool settles_costs = false;       // a policy's cost is settled by the answer
    bool has_soft_policies = false;   // the proxy names those that are over to the upstream
    bool takes_websockets = false;    // `upgrade: [websocket]`; else Upgrade is dropped
    TunnelBounds tunnel;
    const Cors* cors = nullptr;  // null: off. Points into Config::cors
};

// The limits of a policy, or those of one of its tiers.
struct LimitList {
    const PolicySettings* policy = nullptr;  // never null
    const limit::Tier* tier = nullptr;       // null: the policy's own limits
    bool schedules = false;                  // has a schedule limit
    limit::Micros horizon{0};                // the nearest of those
    bool settles = false;      // more has to be done once an admitted request goes on or has ended
    bool counts_grpc = false;  // statuses of gRPC count

    std::span<const limit::Limit> limits() const {
        return tier != nullptr ? tier->limits : policy->limits;
    }
};

struct Response {
    int status = 429;
    http::LimitFieldsChoice limit_fields;  // `headers`
    AnswerBody body;
    const Cors* cors = nullptr;  // of requests without a route. Null: off. Points into Config::cors
    bool request_id = false;     // X-Request-Id in forwarded answers, too
    std::string extra_lines;     // `extra_headers`: whole lines, for answers made here
    // Made of the rest when the configuration is read: the fields that scripts of other origins may
    // read (`RateLimit, Retry-After, ...`), and the whole lines of an answer to a connection whose
    // request the proxy does not read.
    std::string exposed_fields;
    std::string lines_without_request;
};

struct RequestBounds {
    static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

    std::size_t header_bytes = 32'768;
    std::size_t headers = 100;
    std::size_t uri_bytes = 8'192;
    std::uint64_t body_bytes = kUnlimited;
    std::uint64_t body_rate = 240;  // bytes a second that a body has to bring; 0: off
    // Of bodies that are read before their requests are decided, in all threads together.
    std::uint64_t held_bodies = 268'435'456;
};

struct Connections {
    std::size_t max = 20'000;
    std::size_t per_ip = 0;  // 0: no bound
    // New ones of an address in a second, judged before any handshake; 0: no bound.
    std::uint32_t new_per_ip = 0;
};

// `http2`: what a connection in HTTP/2 may cost.
struct Http2 {
    std::uint32_t streams = 100;            // in service at a time
    std::uint32_t stream_window = 262'144;  // bytes of a body that may be on their way
    std::uint32_t connection_window = 1'048'576;
    std::size_t buffered = 67'108'864;  // bytes of bodies that a thread holds
    std::size_t cookie_crumbs = 256;    // `cookie` fields that count as one
    // Frames that serve no request, from one bucket a connection.
    std::uint32_t abuse_burst = 1'000;
    Rate abuse_per{100, std::chrono::seconds{1}};
};

struct Timeouts {
    milliseconds tls_handshake{5'000};  // a PROXY header and the handshake
    milliseconds request_head{10'000};
    milliseconds request_body{30'000};           // silence inside a body
    milliseconds request_body_total{3'600'000};  // a whole body; 0: off
    milliseconds client_write{30'000};
    milliseconds client_idle{80'000};  // balancers keep theirs for 60 to 75 s
    // How long a slot of a concurrency limit outlives a request that the upstream did not answer.
    milliseconds hold_aborted{5'000};
    milliseconds tunnel_idle{600'000};  // silence of both ends of a tunnel
    milliseconds drain{30'000};
    milliseconds drain_tunnels{30'000};  // over which the ends of tunnels are spread
    milliseconds shutdown_delay{0};
    // Why it is that long; for the log.
    enum class Origin : std::uint8_t { outside_kubernetes, in_kubernetes, written };
    Origin shutdown_delay_origin = Origin::outside_kubernetes;
};

// What the names of policies begin with that count limits of descriptors; no other can have it.
inline constexpr std::string_view kRlsPolicy = "rls:";
inline constexpr std::string_view kRlsOverridePolicy = "rls:override-";

// `rls`: Envoy's rate limit service, and the files that say what it limits.
struct Rls {
    rls::Domains domains;                                         // point into Config::policies
    limit::Algorithm algorithm = limit::Algorithm::fixed_window;  // of a `rate_limit`
    bool counts_all = false;      // `count: all`: what is refused by one limit counts on others
    bool takes_overrides = true;  // limits that callers bring hold in place of those here
    bool denies_unmatched = false;
    // By unit: policies with one limit, of which the quota is the caller's. Null: none.
    std::array<const PolicySettings*, rls::kUnits> override_policies{};
};

enum class LogLevel : std::uint8_t { debug, info, warn, error };

struct LogSettings {
    std::string access_path = "-";  // "-": standard output; empty: off
    LogFormat access_format = LogFormat::json;
    double sample = 1.0;  // 0..1
    LogLevel level = LogLevel::info;
};

// What Tidegate remembers of clients for people who look.
struct Telemetry {
    static constexpr std::size_t kTopMin = 64;
    static constexpr std::size_t kTopMax = 16'384;

    // Names counted for each thread and kind, to find the most frequent ones. 0 (`off`): it keeps
    // no names, nor the last denials.
    std::size_t top = 1'024;
};

// What a configuration was read from, but for the files that it names.
struct Source {
    std::string file;    // as messages name it
    std::string folder;  // paths are relative to it; empty: the working directory
    std::string text;
};

struct IncludedFile {
    std::string path;  // as the process opens it, and messages name it
    std::string text;
};

// What people may see of a configuration.
struct Shown {
    // The text as one JSON object without spaces: the files of `include`, `prices` and `rls` are
    // part of it, and secrets are blanked. docs/commands.md says which.
    std::string json;
    // The first 16 hexadecimal digits of the SHA-256 of `json`, so it says nothing that `json` does
    // not show.
    std::string hash;
};

struct Config {
    Source source;
    Shown shown;
    std::vector<Listen> listen;
    std::optional<Admin> admin;
    unsigned threads = 0;                    // 0: one for each core we may use
    std::chrono::microseconds busy_poll{0};  // a thread polls so long before it sleeps; 0: off
    StoreSettings store;
    DenyCacheSettings deny_cache;
    std::optional<int> replicas;  // how many Tidegates share the store; unset: auto
    // With `auto`, what counts until the store has told; unset: 1, and `check` warns.
    std::optional<int> replicas_assumed;
    identity::ClientIpSettings client_ip;
    std::vector<identity::UserMethod> user_methods;  // in the order they are tried
    std::vector<std::string> claims;                 // that policies count by, each once
    std::shared_ptr<ClaimedTiers> claimed_tiers;     // null: no quota is in a claim
    std::vector<std::string> body_pointers;          // likewise, of `body:` and `body_lower:`
    // Reads the bodies of routes whose policies need them; its rules are those of PolicyCost::rule.
    // Null: none does.
    std::shared_ptr<const usage::RequestReader> body_reader;
    std::shared_ptr<const usage::PriceList> prices;  // null: none
    // Fields that may hold a credential, sorted, in lower case: these, those of user_methods, and
    // those of keys whose values are secret.
    std::vector<std::string> credential_fields{"authorization", "cookie", "proxy-authorization"};
    bool require_user = false;          // identity.require, where a route says nothing
    bool anonymous_on_invalid = false;  // on_invalid_credentials: anonymous
    const PolicySettings* failed_credentials =
        nullptr;                     // one of `policies`; null: no limit (`off`)
    identity::UserTiers user_tiers;  // identity.users
    ForwardAs forward_as;
    Forwarding forwarding;
    std::vector<Upstream> upstreams;
    std::vector<std::unique_ptr<const PolicySettings>> policies;
    std::vector<std::unique_ptr<const Cors>> cors;  // of `response` and of routes
    // By Policy::index and Tier::index: policies in their order, each with its tiers behind it.
    std::vector<LimitList> limit_lists;
    std::vector<Route> routes;
    routing::RouteCase route_case = routing::RouteCase::refuse;  // routes_ignore_case
    routing::Router router;  // its positions are those of `routes`; made for route_case
    RemovedOverrides removed_overrides;
    Response response;
    RequestBounds limits_on_requests;
    Connections connections;
    Http2 http2;
    Timeouts timeouts;
    LogSettings log;
    Telemetry telemetry;
    // Reservations of the check API are sealed with it, so that replicas can settle each other's;
    // empty: each process draws its own.
    std::string check_secret;
    // The files of certificates, keys, authorities and ticket keys that it was made of, as the
    // process opens them; sorted, each once. A reload when one has changed keeps certificates
    // current.
    std::vector<std::string> files;
    std::vector<IncludedFile> included;  // in the order in which they became part of it
    std::unique_ptr<const Rls> rls;      // null: calls of the rate limit service are not answered
    std::unique_ptr<const Tracing> tracing;  // null: requests are not traced

    bool has_face(Face face) const;
    // Whether a policy gives each Tidegate a share of its quota when Redis is away, so that the
    // number of Tidegates matters.
    bool has_shares() const;
    // Whether a listener asks clients for a certificate.
    bool asks_for_certificates() const;
};

// `line` and `column` count from 1; 0 when the fault has no place in the file.
struct Diagnostic {
    std::string file;
    int line = 0;
    int column = 0;
    std::string message;

    std::string to_string() const;  // `file:line:column: message`
};

struct FileRead {
    std::string path;  // as the process opens it; or a pattern of `include`
    // A hash of what the file had, of a pattern of the list of files that match; 0: it could not be
    // read.
    std::uint64_t content = 0;
    bool is_pattern = false;

    bool operator==(const FileRead&) const = default;
};

struct Loaded {
    std::shared_ptr<const Config> config;  // null when there is an error
    std::vector<Diagnostic> errors;        // every fault found, in the order of the file
    std::vector<Diagnostic> warnings;
    std::vector<FileRead> files_read;  // also those with a fault, and those that are not there
};

// What a configuration is read for.
enum class Occasion : std::uint8_t {
    start,
    // A listener's certificate that has expired is a warning: other settings must not wait for it.
    reload,
};

// Looks up an environment variable; a parameter so that tests need no real one.
using Environment = std::optional<std::string> (*)(std::string_view name);
std::optional<std::string> process_environment(std::string_view name);

// Reads `path`; `-` is standard input. Paths inside the file are relative to its folder, in
// standard input to the working directory. Blocks: for start and reload. A path that does not
// answer is a fault (with_file_patience()); `notice` gets a text about it before.
Loaded load_file(const std::string& path, Environment environment = process_environment,
                 Occasion occasion = Occasion::start, const FileNotice& notice = {});
// The same for text in memory; messages show `name` as the file.
Loaded load_text(std::string_view text, const std::string& name,
                 Environment environment = process_environment,
                 Occasion occasion = Occasion::start);
// What `config` would be if it were read now and its text had not changed: the files that it names
// are read again. Blocks: to be called as FileWork, which bounds it.
Loaded reread(const Config& config, Environment environment = process_environment);

// The admin listener of a configuration, read without the rest: for commands that ask a running
// proxy, which must work also while the file has faults elsewhere.
struct LoadedAdmin {
    std::optional<Admin> admin;      // none: `admin: off`, or there are errors
    std::vector<Diagnostic> errors;  // of `admin`, or of a text that is not YAML
};

// Reads `admin` of the file at `path`, a token in a file included. Blocks.
LoadedAdmin load_admin(const std::string& path, Environment environment = process_environment);

// The configuration of `tidegate quickstart`.

// The text of config/quickstart.yaml: a limit low enough to meet by hand, in front of the built-in
// echo upstream on 127.0.0.1:9000.
std::string_view quickstart_text();

// The same for a face: a limit low enough to meet by hand, on 127.0.0.1:8181.
std::string_view quickstart_text(Face face);

// quickstart_text() read; never has errors.
Loaded quickstart(Face face = Face::proxy);

// What `quickstart --tls` shows to clients, in the working directory.
inline constexpr const char* kQuickstartCertificate = "tidegate-quickstart.pem";
inline constexpr const char* kQuickstartKey = "tidegate-quickstart.key";

// The proxy of quickstart_text() over TLS, on 127.0.0.1:8443; 8080 sends requests there.
std::string_view quickstart_tls_text();

// quickstart_tls_text() read. Has errors when the two files cannot be used.
Loaded quickstart_tls();

}  // namespace tidegate::config
