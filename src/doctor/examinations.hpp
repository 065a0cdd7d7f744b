// The parts of an examination (doctor.cpp): each examine_...() blocks until it has looked at
// everything, or the time is over. What check_...() and judge_...() are given was measured before:
// they are pure, and add what it means to the findings.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "config/config.hpp"
#include "doctor/doctor.hpp"
#include "doctor/trial.hpp"
#include "limit/limit.hpp"
#include "net/asio.hpp"
#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"
#include "redis/server_connection.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"
#include "upstream/health_check.hpp"

namespace tidegate::doctor {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Findings examine_redis(const config::Config& config, const config::RedisSettings& settings,
                       const TimeLimit& time_limit);

// The keys of tokens: each URL is fetched once, as Tidegate fetches it.
Findings examine_keys(const config::Config& config, const TimeLimit& time_limit);

// The certificates of files that the configuration names: ours, and of authorities we believe.
Findings examine_certificates(const config::Config& config);

// Each server of each upstream, at each of its addresses. No request is sent but that of the
// upstream's `health_check`, once.
Findings examine_upstreams(const config::Config& config, const TimeLimit& time_limit);

// Shakes hands with each listener with `tls` for each name of its certificates, asks each listener
// with `redirect` for one name, begins HTTP/2 with those in the clear that have it, and finds out
// whether the latter and the others speak TLS. Of a configuration with neither TLS nor HTTP/2, no
// listener is connected to.
Findings examine_listeners(const config::Config& config, const TimeLimit& time_limit);

// Which machines can reach the listeners of gateways and programs: what the configuration alone
// says of its listeners with another face than `proxy`. Pure.
Findings examine_faces(const config::Config& config);

// `whose` begins the sentence: `its certificate`.
void check_certificate(std::string_view check, const std::string& whose, const Validity& validity,
                       std::chrono::system_clock::time_point now, Findings& findings);

// `7.0.15` and the like.
struct Version {
    int major = 0;
    int minor = 0;
    std::string text;
};
std::optional<Version> parse_version(std::string_view text);
// `text` up to what no version has in it, at most 32 bytes.
std::string shown_version(std::string_view text);
// Checks whether a Redis of this version can decide.
void check_version(const Version& version, Findings& findings);

// A server that speaks the protocol of Redis.
struct ServerProduct {
    std::string_view name;       // `Redis`, `Valkey`, `KeyDB`; empty: none that is known
    std::string_view version{};  // as the server says it
    bool is_supported = true;    // Tidegate's tests run on it
};
// `field` returns the text of a field of INFO; empty: the server does not say it. Many products say
// a `redis_version` as well, that of the Redis that they are like.
ServerProduct product_of(const std::function<std::string_view(std::string_view)>& field);
// `shown`: the version as it may be shown.
void check_product(const ServerProduct& product, const std::string& shown, Findings& findings);

// `offset`: how far the server's clock is ahead of ours, at most `accuracy` wrong.
void check_clock(microseconds offset, microseconds accuracy, bool local_clock, Findings& findings);

struct TripTimes {
    microseconds p50{0};
    microseconds p99{0};
    microseconds max{0};
};
// Requires at least one.
TripTimes percentiles_of(std::vector<microseconds> times);
// `decisions`: how many were measured. `timeout`: how long Tidegate waits for one.
void check_latency(std::size_t decisions, const TripTimes& times, milliseconds timeout,
                   Findings& findings);

// `1.5 MiB`
std::string size_text(std::uint64_t bytes);

// Holds what a running Tidegate has counted of the questions of gateways since it started.
struct QuestionCounts {
    std::uint64_t asked = 0;            // in forward_auth
    std::uint64_t without_address = 0;  // of these, so many named no client
    // Of these, so many did not state one original request, by the `part` that they lacked.
    std::vector<std::pair<std::string, std::uint64_t>> unusable{};
};

// Reads /metrics. Nothing: `metrics` are not Tidegate's.
std::optional<QuestionCounts> read_question_counts(std::string_view metrics);
void check_question_counts(const QuestionCounts& counts, const config::Config& config,
                           Findings& findings);
void check_original_requests(const QuestionCounts& counts, const config::Config& config,
                             Findings& findings);

// A handshake with a listener with `tls`, by a client that offers both versions.
void judge_negotiated(const config::Listen& listen, const TlsAnswer& answer, Findings& findings);

// Judges what a listener in the clear with `h2` sent to a client that begins with HTTP/2.
void judge_prior_knowledge(const Http2Answer& answer, Findings& findings);

// Lists the names that clients may ask a listener for: those of its certificates, once each, in
// their order; for a wildcard, one that fits it.
std::vector<std::string> names_to_ask_for(const TlsServerSettings& settings);

struct NameTrial {
    std::string name;
    TlsAnswer answer;
};

// `trials`: handshakes with a Tidegate that accepts connections. `authorities`: those of the
// system; null when they cannot be read.
void judge_listener_tls(const TlsServerSettings& settings, std::span<const NameTrial> trials,
                        const SystemAuthorities* authorities,
                        std::chrono::system_clock::time_point now, Findings& findings);

// One handshake with a listener that has no `tls`.
void judge_plain_listener(const TlsAnswer& answer, Findings& findings);

// The first bytes that a listener with `redirect: https` sent to a request for `name`. `config`:
// which listeners there are.
void judge_redirect(const std::string& answer, const std::string& name,
                    const config::Config& config, Findings& findings);

// `where` is the server, `host` what its check has as Host. `others_serve`: requests can go to
// another server of the upstream.
void judge_health(const config::Upstream& settings, const std::string& where,
                  const std::string& host, const upstream::HealthAnswer& answer, bool others_serve,
                  Findings& findings);

// Judges whether a full queue can be served within its wait, if requests take as long as the
// fastest of the checks, `took`.
void judge_queue(const config::Upstream& settings, std::chrono::nanoseconds took,
                 Findings& findings);

// The doctor's connection to one Redis or one sentinel, and what the doctor looks at in one that
// decides. No key is left behind: those that the doctor writes have names that no one else uses;
// they expire within seconds, and are removed before that.

using redis::RespValue;

// Which server to connect to, and as which user.
struct RedisTarget {
    config::Address address;
    std::string username;
    std::string password;
    std::shared_ptr<const TlsClient> tls;  // null: not encrypted
    // For advice: where its address is configured (`store.redis.url`), and what kind of server it
    // should be.
    std::string_view section;
    std::string_view kind;  // `redis`, `sentinel`

    std::string name() const;  // `redis 10.0.0.1:6379`
    // Says what to do about a server that wants a client certificate.
    std::string certificate_advice() const;
};

// One command at a time, each with a deadline. Blocks. One thread.
class RedisConnection {
  public:
    explicit RedisConnection(const TimeLimit& time_limit) : time_limit_(time_limit) {}

    // Looks the name up, connects to each of its addresses, encrypts and says the password. Adds
    // what it found to `findings`; true when commands may be sent. It tries every address, so that
    // one which is dead is found while another still answers.
    bool open(const RedisTarget& target, Findings& findings);

    // One command and its reply. Where there is none, because the server is silent or gone, the
    // reply is an error that says so in parentheses; from then on nothing is sent any more.
    RespValue ask(std::initializer_list<std::string_view> words);
    RespValue ask_resp(std::string command);
    bool is_lost() const { return !why_lost_.empty(); }
    // A clause.
    const std::string& why_lost() const { return why_lost_; }

    const TimeLimit& time_limit() const { return time_limit_; }

  private:
    using ConnectionPtr = std::shared_ptr<redis::ServerConnection>;
    using Fault = redis::ServerConnection::Fault;

    // Returns the endpoints that it reaches, and stays connected to the first of them.
    Endpoints connect(const RedisTarget& target, const Endpoints& endpoints, Findings& findings);
    // The fault is none if the message is empty.
    Fault connect_to(const StreamProtocol::endpoint& endpoint, redis::ServerConnection& connection);
    bool authenticate(const RedisTarget& target, Findings& findings);
    bool ping(const RedisTarget& target, Findings& findings);

    TimeLimit time_limit_;
    asio::io_context io_{1};
    ConnectionPtr connection_;
    std::string why_lost_;
    bool wants_certificate_ = false;  // the server ended the connection for want of one
};

// True: `reply` is such an error (the server is loading, busy, full and the like), and now a
// finding.
bool report_server_error(const redis::RespValue& reply, Findings& findings);

// Says what to do about a command that the server does not have.
inline constexpr std::string_view kCommandAdvice =
    "remove the `rename-command` of it from the server's configuration, or use a server that has "
    "it: Redis 6.0 to 8, Valkey 8";

// `text` with `***` for `secret`, wherever it occurs; nothing is hidden when that is empty.
std::string without_secret(std::string_view text, std::string_view secret);

// An error in quotes, without the password: old servers repeat the arguments of a command that they
// do not know, and others any words they like; one of AUTH's arguments is the password.
std::string shown_error(std::string_view error, std::string_view password);

// Reads what a Redis says of itself (INFO, CONFIG GET), and what that means for counts. Pure.
class RedisInfo {
  public:
    // The answer to INFO; lines that are none of its own are passed over.
    explicit RedisInfo(std::string_view text);

    // Empty if it is not there.
    std::string_view text(std::string_view name) const;
    std::optional<std::uint64_t> number(std::string_view name) const;

  private:
    std::map<std::string, std::string, std::less<>> fields_;
};

// Checks whether Redis may throw counts away, or refuse them, for want of memory.
void check_memory(const RedisInfo& info, Findings& findings);

// Checks which counts a restart forgets. `save`: that of CONFIG GET; unset: not to be seen.
// `longest`: the longest window of all limits; 0: there are none.
void check_persistence(const RedisInfo& info, const std::optional<std::string>& save,
                       limit::Micros longest, Findings& findings);

void check_connections(const RedisInfo& info, Findings& findings);

BOOST_DEFINE_FIXED_ENUM_CLASS(RedisNodeKind, std::uint8_t, single, sentinel_master, cluster_node)

// A Redis, and how Tidegate uses it.
struct RedisNode {
    using Kind = RedisNodeKind;

    const config::Config& config;
    const config::RedisSettings& settings;
    RedisTarget target;
    TimeLimit time_limit;
    Kind kind = Kind::single;
    std::vector<redis::SlotRange> slots{};  // of a cluster node: what it serves

    // Returns the rights that its user needs besides store::access_rights(): empty, or with a space
    // in front.
    std::string_view more_rights() const;
    // Returns the ACL SETUSER command that gives that user all it needs.
    std::string rights_advice() const;
    // Says whether it serves keys with this hash tag.
    bool serves(std::string_view tag) const;
};

// Blocks until it has looked at everything, or the time is over.
Findings check_node(const RedisNode& node);

}  // namespace tidegate::doctor
