#include "config/misplaced_keys.hpp"

namespace tidegate::config {

namespace {

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
    {"listen[]", "client_ca",
     "it in `tls`: `tls: {..., client_auth: require, client_ca: clients-ca.pem}`"},
    {"listen[]", "client_auth",
     "it in `tls`: `tls: {..., client_auth: require, client_ca: clients-ca.pem}`"},
    {"listen[]", "client_crl",
     "it in `tls`: `tls: {..., client_auth: require, client_ca: clients-ca.pem}`"},
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
    {"listen[].tls", "server_name",
     "`names: [example.com]`, of a certificate that does not state them itself"},
    {"listen[].tls", "domains",
     "`names: [example.com]`, of a certificate that does not state them itself"},
    {"listen[].tls", "sni",
     "`names: [example.com]`, of a certificate that does not state them itself"},
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

}  // namespace

std::span<const MisplacedKey> misplaced_tls_keys() {
    return kTlsKeys;
}

}  // namespace tidegate::config
