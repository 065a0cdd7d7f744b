#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include "config/value.hpp"

namespace tidegate::config {

namespace {

// A key that is unknown in its section, and what to write instead: it belongs elsewhere, or other
// proxies call it so.
struct MisplacedKey {
    std::string_view section;  // without what the user chose: `listen[]`, `upstreams.*`
    std::string_view key;
    std::string_view advice;  // follows the word "write"
};

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

// TLS, HTTP/2, PROXY headers and redirects as nginx, Caddy, Traefik and others call them.
constexpr std::string_view kTlsOfListener =
    "it for a listener: `listen: {address: 8443, tls: {certificate: site.pem, key: site.key}}`";
constexpr std::string_view kTls = "`tls: {certificate: site.pem, key: site.key}`";
constexpr std::string_view kCertificate = "`certificate: site.pem`, a file with the whole chain";
constexpr std::string_view kRedirect =
    "a listener: `listen: [..., {address: 80, redirect: https}]`";
constexpr std::string_view kHsts = "it in `tls` of a listener: `tls: {..., hsts: 1y}`";
constexpr std::string_view kHstsInTls = "it in `tls`: `tls: {..., hsts: 1y}`";
constexpr std::string_view kHttp = "`http: [h2, http1]`";
constexpr std::string_view kHttpBesideTls = "it beside `tls`: `http: [h2, http1]`";
constexpr std::string_view kHttpOfListener =
    "it for a listener: `listen: {address: 8443, http: [h2, http1], tls: {...}}`";
constexpr std::string_view kStreams = "`streams: 100`";
constexpr std::string_view kClientAuth =
    "it in `tls`: `tls: {..., client_auth: require, client_ca: clients-ca.pem}`";
constexpr std::string_view kNamesOfCertificate =
    "`names: [example.com]`, of a certificate that does not state them itself";
constexpr std::string_view kStreamsAtTop =
    "it at the top, for all listeners: `http2: {streams: 100}`";
constexpr std::string_view kStreamWindow = "`stream_window: 256KiB`";
constexpr std::string_view kConnectionWindow = "`connection_window: 1MiB`";
constexpr std::string_view kHeadBounds =
    "`limits_on_requests: {header_bytes: 32KiB}` at the top, for all versions of HTTP";
constexpr std::string_view kFixedInHttp2 =
    "nothing instead: Tidegate's frames have at most 16 KiB, and its header table 4 KiB";
constexpr std::string_view kCiphers =
    "`min_version: 1.3` to leave out TLS 1.2; Tidegate chooses the ciphers, all with forward "
    "secrecy";
constexpr std::string_view kAcme =
    "`certificate` and `key`, the files that an ACME client such as certbot renews; Tidegate takes "
    "renewed files by itself";
constexpr std::string_view kNoStapling = "nothing instead: Tidegate staples no OCSP answers";
constexpr std::string_view kTickets =
    "`ticket_keys: ticket.keys` to share sessions among replicas; nothing for a single Tidegate";
constexpr std::string_view kBalancers = "`proxy_protocol: {from: [10.0.0.0/8]}`";
constexpr std::string_view kFrom = "`from: [10.0.0.0/8]`";
constexpr std::string_view kStatusOfRedirect =
    "nothing instead: Tidegate answers GET and HEAD with 301, other methods with 308";
constexpr std::string_view kAuthorityOfServers = "`ca: ca.pem`";
constexpr std::string_view kNameOfServers = "`server_name: api.internal`";
constexpr std::string_view kVerifyOff = "`verify: off`, or better `ca: ca.pem`";
constexpr std::string_view kUpstreamTls =
    "it in `tls`: `tls: {ca: ca.pem, server_name: api.internal, verify: on}`";
constexpr std::string_view kNewPerIp = "`new_per_ip: 20/s`";

constexpr MisplacedKey kTlsKeys[] = {
    {"admin", "tls",
     "nothing instead: the admin listener speaks no TLS; keep it on this machine or on a network "
     "of its own"},
    {"timeouts", "handshake", "`tls_handshake: 5s`"},
    {"connections", "rate", kNewPerIp},
    {"connections", "per_second", kNewPerIp},
    {"forwarding", "xfcc", "`client_certificate: on`"},
    {"forwarding", "x_forwarded_client_cert", "`client_certificate: on`"},
    {"identity", "client_certificate",
     "it as an item of `user`: `user: [{client_certificate: {subject: CN}}]`"},
    {"tracing", "ca", "it in `tls`: `tls: {ca: ca.pem}`"},
    {"upstreams.*", "ca", kUpstreamTls},
    {"upstreams.*", "ssl", kUpstreamTls},
    {"upstreams.*", "ssl_verify", kUpstreamTls},
    {"upstreams.*", "insecure", kUpstreamTls},
    {"upstreams.*.tls", "ca_file", kAuthorityOfServers},
    {"upstreams.*.tls", "cafile", kAuthorityOfServers},
    {"upstreams.*.tls", "trusted_certificate", kAuthorityOfServers},
    {"upstreams.*.tls", "sni", kNameOfServers},
    {"upstreams.*.tls", "name", kNameOfServers},
    {"upstreams.*.tls", "insecure", kVerifyOff},
    {"upstreams.*.tls", "insecure_skip_verify", kVerifyOff},
    {"upstreams.*.tls", "skip_verify", kVerifyOff},
    {"", "tls", kTlsOfListener},
    {"", "ssl", kTlsOfListener},
    {"", "https", kTlsOfListener},
    {"", "certificates", kTlsOfListener},
    {"", "certificate", kTlsOfListener},
    {"", "ssl_certificate", kTlsOfListener},
    {"", "tls_certificate", kTlsOfListener},
    {"", "redirect", kRedirect},
    {"", "redirect_https", kRedirect},
    {"", "force_https", kRedirect},
    {"", "hsts", kHsts},
    {"", "http", kHttpOfListener},
    {"", "alpn", kHttpOfListener},
    {"", "protocols", kHttpOfListener},
    {"", "h2", kHttpOfListener},
    {"", "h2c", kHttpOfListener},
    {"", "http2_max_concurrent_streams", "`http2: {streams: 100}`"},
    {"", "max_concurrent_streams", "`http2: {streams: 100}`"},
    {"connections", "streams", kStreamsAtTop},
    {"connections", "max_concurrent_streams", kStreamsAtTop},
    {"http2", "max_concurrent_streams", kStreams},
    {"http2", "http2_max_concurrent_streams", kStreams},
    {"http2", "max_streams", kStreams},
    {"http2", "initial_stream_window_size", kStreamWindow},
    {"http2", "initial_window_size", kStreamWindow},
    {"http2", "initial_connection_window_size", kConnectionWindow},
    {"http2", "max_frame_size", kFixedInHttp2},
    {"http2", "header_table_size", kFixedInHttp2},
    {"http2", "hpack_table_size", kFixedInHttp2},
    {"http2", "max_header_list_size", kHeadBounds},
    {"http2", "header_bytes", kHeadBounds},
    {"http2", "idle_timeout",
     "`timeouts: {client_idle: 60s}` at the top, for all versions of HTTP"},
    {"http2", "burst", "it in `abuse`: `abuse: {burst: 1000, per: 100/s}`"},
    {"http2.abuse", "rate", "`per: 100/s`"},
    {"listen[]", "certificates", kTls},
    {"listen[]", "certificate", kTls},
    {"listen[]", "cert", kTls},
    {"listen[]", "crt", kTls},
    {"listen[]", "tls_certificate", kTls},
    {"listen[]", "tls_cert", kTls},
    {"listen[]", "ssl", kTls},
    {"listen[]", "ssl_certificate", kTls},
    {"listen[]", "key", kTls},
    {"listen[]", "tls_key", kTls},
    {"listen[]", "ssl_certificate_key", kTls},
    {"listen[]", "https", kTls},
    {"listen[]", "hsts", kHstsInTls},
    {"listen[]", "client_ca", kClientAuth},
    {"listen[]", "client_auth", kClientAuth},
    {"listen[]", "client_crl", kClientAuth},
    {"listen[]", "http2", kHttp},
    {"listen[]", "h2", kHttp},
    {"listen[]", "h2c", kHttp},
    {"listen[]", "alpn", kHttp},
    {"listen[]", "protocols", kHttp},
    {"listen[]", "http2_max_concurrent_streams", kStreamsAtTop},
    {"listen[]", "max_concurrent_streams", kStreamsAtTop},
    {"listen[]", "streams", kStreamsAtTop},
    {"listen[]", "protocol", kTls},
    {"listen[]", "scheme", kTls},
    {"listen[]", "accept_proxy", kBalancers},
    {"listen[]", "send_proxy", kBalancers},
    {"listen[]", "set_real_ip_from", kBalancers},
    {"listen[].proxy_protocol", "trusted", kFrom},
    {"listen[].proxy_protocol", "trusted_proxies", kFrom},
    {"listen[].proxy_protocol", "allow", kFrom},
    {"listen[].proxy_protocol", "networks", kFrom},
    {"listen[].proxy_protocol", "version", "nothing instead: Tidegate reads versions 1 and 2"},
    {"listen[].redirect", "code", kStatusOfRedirect},
    {"listen[].redirect", "status", kStatusOfRedirect},
    {"listen[].redirect", "permanent", kStatusOfRedirect},
    {"listen[].redirect", "url", "`to: https`; Tidegate keeps the host and the path"},
    {"listen[]", "redirect_to", "`redirect: https`"},
    {"listen[]", "redirects", "`redirect: https`"},
    {"listen[]", "force_https", "`redirect: https`"},
    {"listen[].tls", "cert", kCertificate},
    {"listen[].tls", "crt", kCertificate},
    {"listen[].tls", "cert_file", kCertificate},
    {"listen[].tls", "certificate_chain", kCertificate},
    {"listen[].tls", "ssl_certificate", kCertificate},
    {"listen[].tls", "key_file", "`key: site.key`"},
    {"listen[].tls", "private_key", "`key: site.key`"},
    {"listen[].tls", "ssl_certificate_key", "`key: site.key`"},
    {"listen[].tls", "ca", "`client_ca: clients-ca.pem`"},
    {"listen[].tls", "ca_file", "`client_ca: clients-ca.pem`"},
    {"listen[].tls", "cafile", "`client_ca: clients-ca.pem`"},
    {"listen[].tls", "client_certificate", "`client_ca: clients-ca.pem`"},
    {"listen[].tls", "ssl_client_certificate", "`client_ca: clients-ca.pem`"},
    {"listen[].tls", "verify", "`client_auth: require`"},
    {"listen[].tls", "verify_client", "`client_auth: require`"},
    {"listen[].tls", "ssl_verify_client", "`client_auth: require`"},
    {"listen[].tls", "require_client_certificate", "`client_auth: require`"},
    {"listen[].tls", "crl", "`client_crl: clients.crl`"},
    {"listen[].tls", "crl_file", "`client_crl: clients.crl`"},
    {"listen[].tls", "ssl_crl", "`client_crl: clients.crl`"},
    {"listen[].tls", "verify_depth", "`client_depth: 4`"},
    {"listen[].tls", "depth", "`client_depth: 4`"},
    {"listen[].tls", "protocols", "`min_version: 1.2`"},
    {"listen[].tls", "ssl_protocols", "`min_version: 1.2`"},
    {"listen[].tls", "versions", "`min_version: 1.2`"},
    {"listen[].tls", "min_protocol", "`min_version: 1.2`"},
    {"listen[].tls", "ciphers", kCiphers},
    {"listen[].tls", "ssl_ciphers", kCiphers},
    {"listen[].tls", "cipher_suites", kCiphers},
    {"listen[].tls", "curves", kCiphers},
    {"listen[].tls", "session_ticket_key", kTickets},
    {"listen[].tls", "ssl_session_ticket_key", kTickets},
    {"listen[].tls", "tickets", kTickets},
    {"listen[].tls", "session_tickets", kTickets},
    {"listen[].tls", "session_cache", kTickets},
    {"listen[].tls", "ssl_session_cache", kTickets},
    {"listen[].tls", "session_timeout", kTickets},
    {"listen[].tls", "acme", kAcme},
    {"listen[].tls", "auto", kAcme},
    {"listen[].tls", "letsencrypt", kAcme},
    {"listen[].tls", "ocsp", kNoStapling},
    {"listen[].tls", "ocsp_stapling", kNoStapling},
    {"listen[].tls", "ssl_stapling", kNoStapling},
    {"listen[].tls", "strict_sni", "`unknown_names: refuse`"},
    {"listen[].tls", "sni_strict", "`unknown_names: refuse`"},
    {"listen[].tls", "server_name", kNamesOfCertificate},
    {"listen[].tls", "domains", kNamesOfCertificate},
    {"listen[].tls", "sni", kNamesOfCertificate},
    {"listen[].tls", "alpn", kHttpBesideTls},
    {"listen[].tls", "http2", kHttpBesideTls},
    {"listen[].tls", "http", kHttpBesideTls},
    {"listen[].tls.certificates[]", "cert", kCertificate},
    {"listen[].tls.certificates[]", "crt", kCertificate},
    {"listen[].tls.certificates[]", "cert_file", kCertificate},
    {"listen[].tls.certificates[]", "ssl_certificate", kCertificate},
    {"listen[].tls.certificates[]", "key_file", "`key: site.key`"},
    {"listen[].tls.certificates[]", "private_key", "`key: site.key`"},
    {"listen[].tls.certificates[]", "ssl_certificate_key", "`key: site.key`"},
    {"listen[].tls.certificates[]", "domains", "`names: [example.com]`"},
    {"listen[].tls.certificates[]", "sni", "`names: [example.com]`"},
    {"listen[].tls.certificates[]", "name", "`names: [example.com]`"},
    {"listen[].tls.certificates[]", "hosts", "`names: [example.com]`"},
};

// The section without the names that the user chose: `routes[3].match` is `routes[].match`, and a
// policy is `policies.*`, also on a route.
std::string section_kind(std::string_view section) {
    std::string kind;
    for (std::size_t i = 0; i < section.size(); ++i) {
        kind += section[i];
        if (section[i] == '[') i = std::min(section.find(']', i), section.size()) - 1;
    }
    if (kind.ends_with(".policies[]")) return "policies.*";
    // A single listener need not be in a list, nor its only certificate.
    for (const std::string_view list : {"listen", "listen[].tls.certificates"}) {
        if (kind == list || kind.starts_with(std::string(list) + '.'))
            kind.insert(list.size(), "[]");
    }
    for (const std::string_view named : {"policies.", "upstreams."}) {
        if (!kind.starts_with(named)) continue;
        const std::size_t end = std::min(kind.find('.', named.size()), kind.size());
        kind.replace(named.size(), end - named.size(), "*");
    }
    return kind;
}

}  // namespace

std::string_view advice_for_key(std::string_view section, std::string_view key) {
    const std::string kind = section_kind(section);
    // Lists of limits occur in several sections.
    const std::string_view last = kind.ends_with(".limits[]") ? std::string_view("limits[]") : kind;
    const auto is_meant = [&](const MisplacedKey& one) {
        return one.key == key && one.section == last;
    };
    for (const std::span<const MisplacedKey> keys :
         {std::span<const MisplacedKey>(kGeneralKeys), std::span<const MisplacedKey>(kTlsKeys)}) {
        const auto found = std::find_if(keys.begin(), keys.end(), is_meant);
        if (found != keys.end()) return found->advice;
    }
    return {};
}

}  // namespace tidegate::config
