#include "config/misplaced_keys.hpp"

namespace tidegate::config {

namespace {

constexpr std::string_view kUpstream = "`upstream: http://127.0.0.1:3000`";
constexpr std::string_view kLimits = "`limits: [10/s]`";
constexpr std::string_view kRedis = "`store: {redis: {url: redis://127.0.0.1:6379/0}}`";
constexpr std::string_view kProxies = "`identity: {client_ip: {trusted_proxies: [10.0.0.0/8]}}`";
constexpr std::string_view kMethods = "it as an item of `identity: {user: [...]}`";
constexpr std::string_view kPrefix =
    "it in `client_ip`: `identity: {client_ip: {ipv4_prefix: 24, ipv6_prefix: 64}}`";
constexpr std::string_view kSocketMode =
    "it in `listen`: `listen: {address: \"unix:/run/tidegate.sock\", mode: \"0660\"}`";
constexpr std::string_view kListen = "`listen: 8080`";
constexpr std::string_view kMatch = "it in `match`: `match: {path: /v1/**, methods: [GET]}`";
constexpr std::string_view kInline = "`policies: [{key: [ip], limits: [10/s]}]`";
constexpr std::string_view kServers = "`servers: [http://10.0.0.5:3000]`";
constexpr std::string_view kCheck = "`health_check: {path: /healthz}`";
constexpr std::string_view kEject = "`eject: {failures: 5, for: 10s}`";
constexpr std::string_view kEjectOfUpstream =
    "it for the upstream: `eject: {failures: 5, for: 10s}`";
constexpr std::string_view kOfUpstream =
    "it for each upstream: `upstreams: {api: {timeouts: {response: 30s}}}`";
constexpr std::string_view kUpgrade =
    "it on a route: `routes: [{upgrade: [websocket], policies: []}]`";
constexpr std::string_view kAddress = "`address: 127.0.0.1:8080`";
constexpr std::string_view kRedisUrl = "`url: redis://127.0.0.1:6379/0`";
constexpr std::string_view kAccess = "it in `access`: `access: {path: \"-\", format: json}`";
constexpr std::string_view kPer = "`per: 1min`";
constexpr std::string_view kQuota = "`quota: 10`";

constexpr MisplacedKey kGeneralKeys[] = {
    {"", "redis", kRedis},
    {"", "trusted_proxies", kProxies},
    {"", "client_ip", kProxies},
    {"", "port", kListen},
    {"", "bind", kListen},
    {"", "address", kListen},
    {"", "backend", kUpstream},
    {"", "proxy_pass", kUpstream},
    {"", "target", kUpstream},
    {"", "server", kUpstream},
    {"", "servers", kUpstream},
    {"", "rate", kLimits},
    {"", "rate_limit", kLimits},
    {"", "rate_limits", kLimits},
    {"", "user", kMethods},
    {"", "users", kMethods},
    {"", "jwt", kMethods},
    {"", "api_key", kMethods},
    {"", "api_keys", kMethods},
    {"", "basic", kMethods},
    {"", "workers", "`threads: 4`"},
    {"", "log_level", "`log: {level: info}`"},
    {"", "access_log", "`log: {access: {path: access.log}}`"},
    {"", "metrics", "`admin: 127.0.0.1:9901`, which answers `/metrics`"},
    {"", "max_connections", "`connections: {max: 20000}`"},
    {"", "cors", "it in `response`: `response: {cors: {...}}`"},
    {"", "half_close", "it in `listen`: `listen: {address: 127.0.0.1:8080, half_close: on}`"},
    {"", "mode", kSocketMode},
    {"", "group", kSocketMode},
    {"", "ipv4_prefix", kPrefix},
    {"", "ipv6_prefix", kPrefix},
    {"identity", "ipv4_prefix", kPrefix},
    {"identity", "ipv6_prefix", kPrefix},
    {"", "key", "`policies: {default: {key: [ip], limits: [10/s]}}`"},
    {"", "exempt", "it in a policy: `policies: {default: {..., exempt: [10.0.0.0/8]}}`"},
    {"", "deny", "it in a policy: `policies: {default: {..., deny: [192.0.2.0/24]}}`"},
    {"routes[]", "path", kMatch},
    {"routes[]", "method", kMatch},
    {"routes[]", "methods", kMatch},
    {"routes[]", "host", kMatch},
    {"routes[]", "headers", kMatch},
    {"routes[]", "limit", kInline},
    {"routes[]", "limits", kInline},
    {"routes[]", "key", kInline},
    {"routes[]", "backend", "`upstream: NAME`, with a name of `upstreams`"},
    {"routes[].match", "prefix", "`path: /v1/**`"},
    {"routes[].match", "url", "`path: /v1/**`"},
    {"routes[].match", "uri", "`path: /v1/**`"},
    {"routes[].match", "location", "`path: /v1/**`"},
    {"upstreams.*", "url", kServers},
    {"upstreams.*", "urls", kServers},
    {"upstreams.*", "address", kServers},
    {"upstreams.*", "host", kServers},
    {"upstreams.*", "timeout", "`timeouts: {connect: 2s, response: 30s}`"},
    {"upstreams.*", "check", kCheck},
    {"upstreams.*", "probe", kCheck},
    {"upstreams.*", "hash", "`balance: {hash: ip}`"},
    {"upstreams.*", "lb_policy", "`balance: least_connections`"},
    {"upstreams.*", "max_fails", kEject},
    {"upstreams.*", "fail_timeout", kEject},
    {"upstreams.*", "outlier_detection", kEject},
    {"upstreams.*", "passive_health_check", kEject},
    {"upstreams.*", "buffer", "`request_buffer: 64KiB`"},
    {"upstreams.*.servers[]", "max_fails", kEjectOfUpstream},
    {"upstreams.*.servers[]", "fail_timeout", kEjectOfUpstream},
    {"upstreams.*.servers[]", "check", "it for the upstream: `health_check: {path: /healthz}`"},
    {"upstreams.*.health_check", "interval", "`every: 5s`"},
    {"upstreams.*.health_check", "fall", "`unhealthy_after: 3`"},
    {"upstreams.*.health_check", "unhealthy_threshold", "`unhealthy_after: 3`"},
    {"upstreams.*.health_check", "rise", "`healthy_after: 2`"},
    {"upstreams.*.health_check", "healthy_threshold", "`healthy_after: 2`"},
    {"upstreams.*.health_check", "uri", "`path: /healthz`"},
    {"upstreams.*.health_check", "url", "`path: /healthz`"},
    {"upstreams.*.health_check", "expect", "`status: [200-399]`"},
    {"upstreams.*.health_check", "expected_statuses", "`status: [200-399]`"},
    {"upstreams.*.eject", "consecutive_failures", "`failures: 5`"},
    {"upstreams.*.eject", "base_ejection_time", "`for: 10s`"},
    {"upstreams.*.eject", "max_ejection_percent", "`at_most: 50%`"},
    {"upstreams.*.queue", "timeout", "`wait: 1s`"},
    {"upstreams.*.queue", "size", "`max: 128`"},
    {"", "encoded_slash", "it on a route: `routes: [{match: {...}, encoded_slash: pass}]`"},
    {"routes[].match", "encoded_slash", "it beside `match`: `{match: {...}, encoded_slash: pass}`"},
    {"forwarding", "method_override", "it at the top: `method_override: pass`"},
    {"routes[]", "method_override", "it at the top, for all routes: `method_override: pass`"},
    {"", "upgrade", kUpgrade},
    {"", "websocket", kUpgrade},
    {"", "websockets", kUpgrade},
    {"routes[]", "websocket", "`upgrade: [websocket]`"},
    {"routes[]", "websockets", "`upgrade: [websocket]`"},
    {"routes[]", "messages", "it in `tunnel`: `tunnel: {messages: 100/s}`"},
    {"routes[]", "message_bytes", "it in `tunnel`: `tunnel: {message_bytes: 1MiB}`"},
    {"routes[].tunnel", "rate", "`messages: 100/s`"},
    {"routes[].tunnel", "max_message_size", "`message_bytes: 1MiB`"},
    {"routes[].tunnel", "idle", "`timeouts: {tunnel_idle: 10min}` at the top, for all tunnels"},
    {"routes[].timeouts", "tunnel_idle",
     "`timeouts: {tunnel_idle: 10min}` at the top, for all tunnels"},
    {"upstreams.*", "upgrade", kUpgrade},
    {"upstreams.*", "websocket", kUpgrade},
    {"routes[]", "request_buffer", "`buffer: 1MiB`; `request_buffer` is of an upstream"},
    {"policies.*", "rate", kLimits},
    {"policies.*", "by", "`key: [ip, user]`"},
    {"policies.*", "per", "`key: [ip, user]`"},
    {"policies.*", "name", "the name before the colon: `policies: {NAME: {...}}`"},
    {"policies.*", "allow", "`exempt: [10.0.0.0/8]`"},
    {"policies.*", "whitelist", "`exempt: [10.0.0.0/8]`"},
    {"policies.*", "allowlist", "`exempt: [10.0.0.0/8]`"},
    {"policies.*", "block", "`deny: [192.0.2.0/24]`"},
    {"policies.*", "blocklist", "`deny: [192.0.2.0/24]`"},
    {"policies.*", "match",
     "it on a route, which names the policy: `routes: [{match: {...}, "
     "policies: [NAME]}]`"},
    {"policies.*", "shadow", "`mode: shadow`"},
    {"limits[]", "rate", "`{quota: 10, per: 1s}`, or the rate alone: `10/s`"},
    {"limits[]", "limit", kQuota},
    {"limits[]", "requests", kQuota},
    {"limits[]", "max", kQuota},
    {"limits[]", "period", kPer},
    {"limits[]", "interval", kPer},
    {"limits[]", "duration", kPer},
    {"limits[]", "seconds", kPer},
    {"identity", "trusted_proxies",
     "it in `client_ip`: `client_ip: {trusted_proxies: "
     "[10.0.0.0/8]}`"},
    {"identity", "jwt", "it as an item of `user`: `user: [{jwt: {...}}]`"},
    {"identity", "api_key", "it as an item of `user`: `user: [{api_key: {...}}]`"},
    {"identity", "basic", "it as an item of `user`: `user: [{basic: {...}}]`"},
    {"identity", "header", "it as an item of `user`: `user: [{header: {...}}]`"},
    {"identity", "cookie", "it as an item of `user`: `user: [{cookie: {...}}]`"},
    {"store", "url", "`redis: {url: redis://127.0.0.1:6379/0}`"},
    {"store", "host", "`redis: {url: redis://127.0.0.1:6379/0}`"},
    {"store", "type", "`redis: {url: redis://127.0.0.1:6379/0}`, or `store: memory`"},
    {"store.redis", "host", kRedisUrl},
    {"store.redis", "port", kRedisUrl},
    {"store.redis", "address", kRedisUrl},
    {"store.redis", "db", "the number of the database at the end: `url: redis://host:6379/1`"},
    {"store.redis", "nodes", "`cluster: [redis://10.0.0.1:6379]`"},
    {"response", "text", "`body: {content_type: text/plain, text: Slow down}`"},
    {"response", "message", "`body: {content_type: text/plain, text: Slow down}`"},
    {"response", "code", "`status: 429`"},
    {"timeouts", "connect", kOfUpstream},
    {"timeouts", "response", kOfUpstream},
    {"timeouts", "read", kOfUpstream},
    {"timeouts", "idle", "`client_idle: 60s`"},
    {"timeouts", "shutdown", "`drain: 30s`"},
    {"log", "path", kAccess},
    {"log", "file", kAccess},
    {"log", "format", kAccess},
    {"log", "sample", kAccess},
    {"admin", "port", "`address: 127.0.0.1:9901`"},
    {"admin", "host", "`address: 127.0.0.1:9901`"},
    {"admin", "listen", "`address: 127.0.0.1:9901`"},
    {"listen[]", "port", kAddress},
    {"listen[]", "host", kAddress},
};

}  // namespace

std::span<const MisplacedKey> misplaced_keys() {
    return kGeneralKeys;
}

}  // namespace tidegate::config
