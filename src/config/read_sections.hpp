// The sections of a configuration file, one reading function each. They report what is wrong to
// the value's context and leave the rest of `config` as it was.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/keys.hpp"
#include "config/value.hpp"
#include "identity/user_methods.hpp"
#include "routing/path_pattern.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate::config {

// Ends messages about a user's name that cannot be one.
inline constexpr std::string_view kPlainNames =
    "names are UTF-8 without control or invisible characters and without a space at either end";

// Whether a field, a parameter or a descriptor of this name has values that must not appear
// anywhere, logs and stores included.
bool looks_secret(std::string_view name);

// The files that `include` of the whole document names: sorted by the bytes of their paths, each
// once. Reports patterns that are wrong and files that cannot be read.
std::vector<IncludedFile> read_included(const TreeNode& document, Context& context);

// Makes the files part of the document, as if their upstreams, policies and routes were written
// there; their routes come first. The places of what comes from them name their file. Reports a
// name that is there twice, and keys that an included file may not have.
void merge_included(const std::vector<IncludedFile>& files, TreeNode& document, Context& context);

// The rows of the sections that others refer to; each stands where its section is read.

// The whole configuration, from its top.
const Rows& root_keys();
const Keys<Listen>& listener_keys();
const Keys<TlsServerSettings>& listener_tls_keys();
// The first rows of listener_tls_keys(), which read_server_certificates() reads.
Keys<TlsServerSettings> listener_certificate_keys();
KeyKind redirect_kind();
const Rows& check_keys();
const Keys<Rls>& rls_keys();
const Rows& admin_keys();
const Rows& store_keys();
const Keys<DenyCacheSettings>& deny_cache_keys();
// Connections to Redis or its sentinels, to the collector of spans, and to upstreams have these.
const Rows& redis_tls_keys();
const Rows& collector_tls_keys();
const Rows& upstream_tls_keys();
const Rows& identity_keys();
const Rows& user_method_keys();
const Keys<Forwarding>& forwarding_keys();
const Keys<Upstream>& upstream_keys();
const Keys<UpstreamServer>& server_keys();
const Rows& policy_keys();
const Rows& policy_cost_keys();
const Rows& candidate_keys();
KeyKind limits_kind();
KeyKind tiers_kind();
KeyKind single_or_limits_kind();
const Rows& route_keys();
const Keys<HeaderCost>& cost_keys();
const Keys<TunnelBounds>& tunnel_keys();
const Keys<Response>& response_keys();
KeyKind answer_body_kind();
const Keys<Cors>& cors_keys();
const Keys<RequestBounds>& request_bounds_keys();
const Keys<Connections>& connections_keys();
const Keys<Http2>& http2_keys();
const Keys<Timeouts>& timeouts_keys();
const Keys<LogSettings>& log_keys();
const Keys<Tracing>& tracing_keys();
const Keys<Telemetry>& telemetry_keys();

// Returns what people may see of `document`, files of `include` among it, which was read with
// `context`.
Shown shown_of(const TreeNode& document, const Context& context);

// Says where a reload would turn `tls` of a listener on or off.
std::string why_tls_needs_restart(const ConfigChange& change);
// Keys that say how the proxy forwards have this rule: `check` warns once for all of them where no
// listener forwards.
IdleRule forwards_nothing();

// Keeps what later sections need from earlier ones and the Config does not have: names that are
// defined but broken (these are not "unknown"), and the places of definitions, for warnings.
struct Declared {
    struct Named {
        Place place;
        std::optional<std::size_t> position;  // in the Config; absent: broken
        bool used = false;
    };
    std::map<std::string, Named, std::less<>> policies;
    std::map<std::string, Named, std::less<>> upstreams;
    std::vector<std::string> default_policies;
    // The upstream of a route that names none: `upstream` at the top. Null: there is none.
    Named* common_upstream = nullptr;
    std::vector<Place> routes;  // as Config::routes
    // Each health check with a path and without a host; by position in Config::upstreams.
    std::map<std::size_t, Place> checks_without_host;
    std::set<std::size_t> grpc_routes;  // that take calls of gRPC only; by position
    // Each `policies: []` of a route without `default_policies` of its own.
    std::vector<Place> empty_policies;
    std::optional<std::size_t> takes_everything;  // the first route that takes every request
    // `cors`, until settle_cors() gives each its limit of preflights and puts it where it belongs.
    struct Cors {
        std::vector<std::unique_ptr<config::Cors>> all;
        std::optional<Place> place;                // of `response.cors`
        config::Cors* of_response = nullptr;       // one of `all`; null: off
        std::map<std::size_t, config::Cors*> own;  // of routes, by position; null: off
        // Routes with `methods` and without OPTIONS among them, by position: no preflight comes.
        std::map<std::size_t, Place> without_options;
    };
    Cors cors;
    Place route_case;  // `routes_ignore_case`
    // `method_override`: whether it is written, and whether as `pass`.
    bool states_overrides = false;
    bool passes_overrides = false;
    // The first entry of a file of users or keys that has this tier.
    std::map<std::string, Diagnostic, std::less<>> user_tiers;
    struct Method {
        Place place;
        std::string name;  // `identity.user[0].jwt`
    };
    std::vector<Method> user_methods;  // as Config::user_methods
    // Files and URLs that several methods name are read once, and known to be the same. By the name
    // of the method, a line end, and path or URL; null: broken.
    std::map<std::string, std::shared_ptr<void>> credentials;
    limit::OnStoreFailure on_store_failure = limit::OnStoreFailure::local;
    Place rls;  // `rls`
    // Of the costs of policies, each once: PolicyCost::rule is a position here, and later one of
    // Config::body_reader.
    std::vector<usage::EstimateRule> estimates;
    // By what `settle` says. Policies that read the same share one, so that it is read once.
    std::map<std::string, std::shared_ptr<const usage::UsageSource>, std::less<>> usage_sources;
    bool has_prices = false;  // `prices` is written
};

// Makes the path of a Unix socket, if that is what `address` is, relative to the configuration's
// folder. Reports one that is too long for a socket then.
bool resolve_socket(const Value& value, Address& address);

// Reports that there is no `kind` of that name, and suggests a similar one.
void unknown_name(const Value& value, std::string_view kind, const std::string& name,
                  const std::map<std::string, Declared::Named, std::less<>>& known);

// An address, or a network without bits behind its prefix.
std::optional<IpNetwork> read_network(const Value& value);
// A list of these. `about_every` warns of a network that has every address; may be empty.
IpNetworks read_networks(const Value& value, std::string_view if_empty,
                         const std::string& about_every = {});

// All of a configuration, in order.
void read_root(const Value& value, Config& config, Declared& declared);
void read_listen(const Value& value, Config& config);
// `tls`, `redirect` and `http` of a listener; after its face. Gives back a `redirect` that does not
// say at which port, for settle_redirect().
std::optional<Value> read_listener_tls(Section& section, const std::optional<Address>& address,
                                       Listen& listen);
// `http` of a listener; not written, what it takes stays as it is.
void read_http_versions(Section& listener, Listen& listen);
// One of them, `h2` or `http1`: true for `h2`.
std::optional<bool> read_http_version(const Value& value);
// Finds the port that `listen`, one of `config`, sends its clients to. After all listeners.
void settle_redirect(const Value& redirect, const Config& config, Listen& listen);
// Which limits a face can keep. Requires that routes and policies have been read.
void check_faces(const Config& config, const Declared& declared, Context& context);
// `check`. After the listeners.
void read_check(const Value& value, Config& config);
// `rls`, and the files that it names. After the listeners, `on_store_failure` and all policies.
void read_rls(const Value& value, Config& config, Declared& declared);
void read_admin(const Value& value, Config& config);
// Where `admin` is not written.
Admin default_admin();
void read_store(const Value& value, Config& config);
void read_deny_cache(const Value& value, Config& config);
// `tls` of a connection to a server: authorities and Tidegate's own certificate. Reads and checks
// the files. `host` is such a name as messages show for that of the server.
TlsSettings read_client_tls(const Value& value, const Rows& keys, const std::string& host);
// `min_version` of `tls`.
template <class Settings>
void read_tls_version(const Value& value, Settings& settings) {
    const auto version =
        value.choice<TlsVersion>({{"1.2", TlsVersion::tls_1_2}, {"1.3", TlsVersion::tls_1_3}});
    settings.min_version = version.value_or(settings.min_version);
}
// A file of certificates of authorities, as PEM; empty when it is broken, which has been reported.
std::string read_authorities(const Value& value);
// Requires that `listen` has been read.
void read_identity(const Value& value, Config& config, Declared& declared);
void read_forwarding(const Value& value, Config& config);
void read_response(const Value& value, Config& config, Declared& declared);
// `body` of `response` or of a policy; nothing when it is broken.
std::optional<AnswerBody> read_answer_body(const Value& value);
// `cors` of `response` or of a route; null when it is off or broken. `policy`: the name of the
// policy that its own limit of preflights becomes.
Cors* read_cors(const Value& value, const std::string& policy, Config& config, Declared& declared);
// Gives every route its cors, and every cors a limit of preflights. Once all else has been read.
void settle_cors(Config& config, Declared& declared);
void read_limits_on_requests(const Value& value, Config& config);
void read_connections(const Value& value, Config& config);
// `http2`. After the listeners.
void read_http2(const Value& value, Config& config);
// The shutdown delay where none is written: load balancers of Kubernetes go on sending requests for
// some seconds.
void set_default_shutdown_delay(const Context& context, Config& config);
void read_timeouts(const Value& value, Config& config);
void read_log(const Value& value, Config& config);
void read_tracing(const Value& value, Config& config);
void read_telemetry(const Value& value, Config& config);

std::optional<limit::OnStoreFailure> read_on_store_failure(const Value& value);

// A list of limits, and where its schedules find the moment.
struct Limits {
    std::vector<limit::Limit> limits;
    std::optional<MomentSource> moment;
    std::size_t in_money = 0;  // how many have `unit: usd`
    std::vector<ClaimedQuota> claimed;
};
// At least one, no two the same.
Limits read_limits(const Value& value);
// Reports limits with `unit: usd` and quotas in claims, which only limits of `policies` have.
void report_notes(const Value& value, const Limits& limits);
// Reports a list of numbers, `[60, 7]`, where a list of limits must be. False: it is none.
bool report_flat_limits(const Value& value);
// Takes `other` for `moment`, or reports that they differ.
bool agree_on_moment(const Value& value, const std::optional<MomentSource>& other,
                     std::optional<MomentSource>& moment);
// `time_zone` of a limit.
void read_time_zone(const Value& value, limit::LimitSpec& spec);
// `failed_credentials`: a limit or a list of them, which count answers of 401.
std::vector<limit::Limit> read_failure_limits(const Value& value);
// The limit that holds where none is written: 60/min.
limit::Limit default_failure_limit();
// `preflight` of `cors`: a limit or a list of them.
std::vector<limit::Limit> read_preflight_limits(const Value& value);
// The limit that holds where none is written: 50/s.
limit::Limit default_preflight_limit();

// Requires that `identity` has been read. `on_missing`: of every key; else each has its default.
// Adds the claims that keys name to `config`.
std::vector<limit::Key> read_key(const Value& value,
                                 const std::optional<limit::OnMissing>& on_missing, Config& config);
// One key, which skips a request that has no value for it. Otherwise as read_key().
std::optional<limit::Key> read_single_key(const Value& value, Config& config);
// The position of a claim that policies look at, which it adds to Config::claims. Nothing: there
// are too many, which is reported.
std::optional<std::uint16_t> position_of_claim(const Value& value, const std::string& name,
                                               Config& config);
// The first `path:NAME` of `keys` that the path of `route` does not capture; empty: none.
std::string missing_capture(std::span<const limit::Key> keys, const Route& route);
// Has the methods keep of each token what policies look at: claims and tiers. After all policies.
void tell_methods_what_counts(Config& config);
// Sets Config::credential_fields. After all policies.
void list_credential_fields(Config& config);
// Whether clients can choose their user, by a cookie that is not checked.
bool clients_choose_users(const Config& config);
// For a warning: a client that varies a field, a parameter or a path is not limited by it; nor by
// the user, where that is chosen; nor by the host, unless `host_is_fixed` by the route.
bool counts_only_what_clients_choose(const limit::Policy& policy, const Config& config,
                                     bool host_is_fixed);

void read_policies(const Value& value, Config& config, Declared& declared);
// The policy's position in the Config; nothing when it is broken.
std::optional<std::size_t> read_policy(const Value& value, const std::string& name, Config& config,
                                       Declared& declared);
// Gives the policy and its tiers their indices. Returns its position in Config::policies.
std::size_t add_policy(PolicySettings&& policy, Config& config);
// The same; returns the policy, which stays where it is.
PolicySettings& append_policy(PolicySettings&& policy, Config& config);

// The values of `limits` and of `tiers` of a policy whose cost has been read.
void read_own_limits(const Value& list, PolicySettings& policy, Config& config);
void read_tiers(const Value& value, PolicySettings& policy, Config& config);

// `enforce` and `candidate` of a policy, as they are written.
struct Gradual {
    std::uint64_t enforced_below = 0;  // 0: enforced for all identifiers
    std::optional<PolicySettings> candidate;
};
std::string_view enforce_schema();
void read_enforce(Section& section, Gradual& gradual, const PolicySettings& policy);
// Requires that all else of `policy` has been read.
void read_candidate(Section& section, Gradual& gradual, PolicySettings& policy, Config& config,
                    const Declared& declared);
// Adds the policy, its twin and its candidate. Returns the position of the first.
std::size_t add_gradual(PolicySettings&& policy, Gradual&& gradual, Config& config);
// `default_policies`, at the top or of a route: names, each once.
std::vector<std::string> read_default_policies(const Value& value, Declared& declared);

void read_upstreams(const Value& value, Config& config, Declared& declared);
// One server: a URL, or a map.
std::optional<UpstreamServer> read_server(const Value& value, const Config& config);
// Reports a hash by a capture that the route's path does not have. `value`: of the route.
void check_hash(const Value& value, const Config& config, const Route& route);
// Whether `match` asks for the `content-type` of gRPC.
bool takes_grpc_only(const routing::Match& match);

// The size of bodies that are held, or `off`, which is 0.
std::optional<std::size_t> read_held_bytes(const Value& value);

void read_routes(const Value& value, Config& config, Declared& declared);
// Appends the policies of these names to a route without policies, and checks them as those that
// the route lists itself.
void add_route_policies(const Value& value, const std::vector<std::string>& names,
                        const Config& config, Route& route, Declared& declared);
// Sets what holds on a route where it says nothing itself. Requires that `limits_on_requests` and
// `identity` have been read, and route.upstream.
void set_route_defaults(const Config& config, Route& route);
// Which tunnels a route takes, and their bounds: `upgrade` and `tunnel` of its `section`.
void read_route_tunnel(Section& section, const Config& config, Route& route);
// Whether some route takes tunnels.
bool has_tunnels(const Config& config);
// `identity` of a route: `required` or `optional`.
void read_route_identity(const Value& value, const Config& config, Route& route);
// `routes_ignore_case`. Before any route.
void read_route_case(const Value& value, Config& config, Declared& declared);
// `method_override`.
void read_method_override(const Value& value, Declared& declared);
// Finds out which fields that override method or target no server may get. Once all routes,
// policies and `cors` have been read.
void settle_overrides(Config& config, const Declared& declared);
// `cost` of a route: a number, or a map that says which field holds it.
void read_cost(const Value& value, Route& route);
// Reports a cost that could never pass one of the route's limits.
void check_cost(const Value& value, const Route& route);
// Reports a cost that could never pass one of these limits of a policy. False: there is one.
bool check_cost_of(const Value& value, std::int64_t cost, const limit::Policy& policy,
                   const std::vector<limit::Limit>& limits, bool in_money);
// `cost` of a policy, whose limits have been read. Null: it is broken.
std::shared_ptr<const PolicyCost> read_policy_cost(const Value& value, const limit::Policy& policy,
                                                   bool limits_in_money, Declared& declared);
// Reports limits of the policy that such a cost cannot have, or never passes. `reserve`: where what
// is reserved is written, else `value`.
void check_fit(const Value& value, const Value& reserve, const PolicyCost& cost,
               const limit::Policy& policy, const Declared& declared);
// Warns about a reservation that is larger than a limit of the policy. `value`: of `reserve`.
void warn_about_largest_reserve(const Value& value, const PolicyCost& cost,
                                const limit::Policy& policy,
                                const std::vector<limit::Limit>& limits, const Declared& declared);
// Warns about a member of answers that seems to count tokens, each of which costs a dollar or more.
void warn_about_dear_tokens(const Value& weight, std::string_view member);
// Whether the policy needs the bodies of requests, for its key or its cost.
bool needs_body(const PolicySettings& policy);
inline constexpr IntegerRange kInspectedBody{1, 67'108'864};
// `inspect_body` of a route, whose policies have been read.
void read_inspect_body(Section& section, const Config& config, Route& route);
// Makes the reader of bodies, and tells the routes whether they need it. After all policies.
void settle_bodies(Config& config, const Declared& declared);
// `prices`, and the file that it names. Before the policies.
void read_prices(const Value& value, Config& config, Declared& declared);
// An amount of dollars, such as `0.25`, as whole millionths of a dollar.
std::optional<std::int64_t> read_dollars(const Value& value, std::int64_t dollars_max);

// `users` of `identity`: the file with each user's tier.
void read_users(const Value& value, Config& config, Declared& declared);
// Warns about a name of a claim that is probably meant as a path to a nested one.
void warn_about_claim_name(const Value& value, std::string_view name);
// `user` of `identity`: the methods that name a user.
void read_user_methods(const Value& value, Config& config, Declared& declared);
// Whether any peer is trusted to name clients and users.
bool has_trusted_peers(const Config& config);

// Reports limits of different policies that would have one name (limit::full_name()): `c` of the
// policy `a-b` and `b-c` of the policy `a`.
void check_limit_names(const Config& config, const Declared& declared, Context& context);

// Warns about settings that are legal but hardly meant.
void warn_about(const Config& config, const Declared& declared, Context& context);
// Warns about policies that distinguish users, tiers and anonymous clients.
void warn_about_clients(const Config& config, const Declared& declared, Context& context);
void warn_about_routes(const Config& config, const Declared& declared, Context& context);
// Warns about costs of policies that do not fit a route, or each other.
void warn_about_costs(const Config& config, const Declared& declared, Context& context);
// Warns about settings of one upstream that have no effect. `section`: of the upstream, which has
// no fault.
void warn_about_balancing(Section& section, const Upstream& upstream);
// Warns about the weight of an only server; `server`: a URL or a map.
void warn_about_lone_weight(const Value& server);
void warn_about_upstreams(const Config& config, const Declared& declared, Context& context);
// Where the policy is written: in `policies`, or in a route.
Place place_of(const limit::Policy& policy, const Config& config, const Declared& declared);
// Says what identity.user lacks for a request to have the key, such as "no method"; empty: the key
// is possible.
std::string_view what_is_missing_for(const limit::Key& key, const Config& config);
// Whether anything gives users a tier.
bool gives_tiers(const Config& config, const Declared& declared);
// Tiers of users that no policy knows, with their places in the files of users and of keys.
std::vector<Diagnostic> warnings_about_tiers(const Config& config, const Declared& declared);

// Certificates and private keys, which the configuration names by files (PEM). Each file that is
// read is noted for Config::files.
struct CertificateFile {
    std::string path;  // as the process opens it
    std::string pem;
    std::vector<CertificatePtr> certificates;  // at least one
};

struct KeyFile {
    std::string path;
    std::string pem;
    PrivateKeyPtr key;
};

// Nothing when it is broken, which has been reported. `example`: a name such a file could have.
std::optional<CertificateFile> read_certificate_file(const Value& value, std::string_view example);
// Warns when every user of the machine may read the secret in `path`: `what` is `private key`.
void warn_if_world_readable(const Value& value, const std::string& path, std::string_view what);
// Warns of a certificate that has expired or is not valid yet. That is for others to judge: a clock
// may be wrong, and an authority that has run out may not be the one that is needed.
void warn_about_time(const Value& value, const std::string& path, const X509& certificate);

// For a message: `2026-11-21T10:00:00Z`.
std::string shown_moment(std::chrono::system_clock::time_point moment);

// The parts of a listener's `tls`.
// `certificates`, or `certificate`, `key` and `names` of a single one.
std::vector<ServerCertificate> read_server_certificates(Section& tls);

// The name of a field that may hold what names a user, in lower case. Authorization only
// `if_secret`.
std::optional<std::string> read_credential_field(const Value& value, bool if_secret);
std::optional<std::string> read_cookie_name(const Value& value);

// Holds what a method's settings come to. Faults in them have been reported.
struct FoundMethod {
    std::optional<identity::CredentialPlace> place{};  // nothing: broken
    std::shared_ptr<const identity::IdentityMethod> how{};
    bool complete = false;               // nothing else is broken, either
    std::optional<Value> tier_header{};  // where the field `tier_field` of the tier is written
    std::string tier_field{};
};

// Every method takes these keys beside its own.
inline constexpr std::string_view kMethodWanted = "a map of the method's settings";
inline constexpr std::string_view kNamespace = "namespace";
inline constexpr KeyText kNamespaceText{"is put before the user: `key:alice`", "none",
                                        "letters, digits, `-`, `_`, `.`"};

// A method: its keys, how they are read, and what is legal but hardly meant. `warn` calls `say`
// with each warning, without the name of the method.
struct MethodRow {
    using Say = std::function<void(const std::string& warning)>;

    const identity::MethodTraits& traits;
    const KeyRows& keys;
    std::string_view what;  // for the reference
    FoundMethod (*read)(Section&, Declared&);
    void (*warn)(const identity::IdentityMethod& method, const Config& config,
                 const Say& say) = nullptr;
};

// The row of `jwt`.
const Rows& jwt_keys();
FoundMethod read_jwt(Section& section, Declared& declared);
void warn_about_jwt(const identity::IdentityMethod& method, const Config& config,
                    const MethodRow::Say& say);

// Warns about what is legal but hardly meant.
void warn_about_identity(const Config& config, const Declared& declared, Context& context);
// Whether some method takes the tier from the credential or a field, so that any tier may come.
bool takes_any_tier(const Config& config);
// The names of the methods that have the trait: "`NAME`, `NAME` or `NAME`".
std::string methods_with(bool identity::MethodTraits::*trait);

}  // namespace tidegate::config
