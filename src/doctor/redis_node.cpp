#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "doctor/examinations.hpp"
#include "limit/limit.hpp"
#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"
#include "redis/sentinels.hpp"
#include "store/charge_script.hpp"
#include "store/redis_store.hpp"
#include "store/replica_heartbeat.hpp"
#include "store/scripts.hpp"

namespace tidegate::doctor {

namespace {

constexpr std::uint64_t kNearlyFullPercent = 90;

bool is_nearly(std::uint64_t used, std::uint64_t most) {
    return used / kNearlyFullPercent >= most / 100 && used >= most / 100 * kNearlyFullPercent;
}

constexpr EnumTexts<RedisNodeKind> kMoreRights({{RedisNodeKind::single, ""},
                                                {RedisNodeKind::sentinel_master, " +role"},
                                                {RedisNodeKind::cluster_node,
                                                 " +cluster|nodes +asking"}});

}  // namespace

RedisInfo::RedisInfo(std::string_view text) {
    while (!text.empty()) {
        std::string_view line = take_until(text, '\n');
        if (line.ends_with('\r')) line.remove_suffix(1);
        const std::size_t colon = line.find(':');
        if (line.starts_with('#') || colon == line.npos) continue;
        fields_.emplace(line.substr(0, colon), line.substr(colon + 1));
    }
}

std::string_view RedisInfo::text(std::string_view name) const {
    const auto found = fields_.find(name);
    return found == fields_.end() ? std::string_view() : found->second;
}

std::optional<std::uint64_t> RedisInfo::number(std::string_view name) const {
    const auto number = parse_decimal(text(name));
    if (!number) return std::nullopt;
    return static_cast<std::uint64_t>(*number);
}

void check_memory(const RedisInfo& info, Findings& findings) {
    const std::uint64_t used = info.number("used_memory").value_or(0);
    const std::uint64_t most = info.number("maxmemory").value_or(0);
    const std::string_view policy = info.text("maxmemory_policy");
    const std::uint64_t evicted = info.number("evicted_keys").value_or(0);
    const bool evicts = !policy.empty() && policy != "noeviction";
    const std::string memory = most == 0
                                   ? fmt::format("{} used, no maxmemory", size_text(used))
                                   : fmt::format("{} of {} used", size_text(used), size_text(most));
    if (evicts && most != 0) {
        findings.warning(
            "redis.eviction",
            fmt::format("maxmemory-policy {} evicts counts when memory is full, and limits start "
                        "again ({}; {} keys evicted so far)",
                        quote(policy), memory, evicted),
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; a Redis of its "
            "own for Tidegate, if others need eviction");
    } else if (evicts) {
        findings.note(
            "redis.eviction",
            fmt::format("maxmemory-policy {} would evict counts if maxmemory were set ({})",
                        quote(policy), memory),
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf");
    } else if (most != 0 && is_nearly(used, most)) {
        findings.warning(
            "redis.memory",
            memory + ": when it is full, Redis refuses writes and on_store_failure decides",
            "raise maxmemory, or remove keys of other programs");
    } else {
        findings.ok("redis.memory",
                    policy.empty() ? memory : fmt::format("{}, {}", memory, policy));
    }
}

void check_persistence(const RedisInfo& info, const std::optional<std::string>& save,
                       limit::Micros longest, Findings& findings) {
    const bool appends = info.text("aof_enabled") == "1";
    const bool saves = save && !save->empty();
    const auto failed = [&](std::string_view field) { return info.text(field) == "err"; };
    if ((appends && failed("aof_last_write_status")) ||
        (saves && failed("rdb_last_bgsave_status"))) {
        findings.warning("redis.persistence",
                         "its last save to disk failed, so it may refuse writes (MISCONF)",
                         "see its log, and the space and permissions of its folder");
        return;
    }
    if (appends) {
        findings.ok("redis.persistence", "counts survive a restart (appendonly)");
        return;
    }
    const std::string kept =
        longest.count() == 0 ? ""
                             : fmt::format("; the longest window is {}", format_duration(longest));
    const std::string advice =
        "write `appendonly yes` in redis.conf if counts have to survive a restart";
    if (saves) {
        findings.note("redis.persistence",
                      fmt::format("a restart loses the counts since the last snapshot (save {}){}",
                                  quote(*save), kept),
                      advice);
    } else if (save) {
        findings.note("redis.persistence",
                      "a restart loses all counts, and every limit starts again" + kept, advice);
    } else {
        findings.note("redis.persistence",
                      "no appendonly, and CONFIG does not show whether there are snapshots: a "
                      "restart loses counts" +
                          kept,
                      advice);
    }
}

void check_connections(const RedisInfo& info, Findings& findings) {
    const auto connected = info.number("connected_clients");
    const auto most = info.number("maxclients");
    if (!connected || !most || *most == 0 || !is_nearly(*connected, *most)) return;
    findings.warning("redis.connections",
                     fmt::format("{} of {} connections are in use", *connected, *most),
                     "raise `maxclients`; each thread of Tidegate needs one connection");
}

std::string_view RedisNode::more_rights() const {
    return kMoreRights[kind];
}

std::string RedisNode::rights_advice() const {
    return fmt::format("ACL SETUSER {} {}{}",
                       settings.username.empty() ? "default" : settings.username,
                       store::access_rights(settings.key_prefix), more_rights());
}

bool RedisNode::serves(std::string_view tag) const {
    const std::uint16_t slot = redis::slot_of_tag(tag);
    return std::any_of(slots.begin(), slots.end(), [&](const redis::SlotRange& range) {
        return range.first <= slot && slot <= range.last;
    });
}

namespace {

using Kind = RedisNode::Kind;

// A name for keys to write: `doctor:` and hexadecimal digits, which the node serves.
std::string throw_away_name(const RedisNode& node) {
    // Enough to hit the one slot of a node that has no other.
    constexpr int kTriesMax = 1 << 20;
    std::random_device random;
    std::uint64_t number = std::uint64_t{random()} << 32U | random();
    std::string name;
    for (int tries = 0; tries < kTriesMax; ++tries, ++number) {
        name = fmt::format("doctor:{:016x}", number);
        if (node.kind != Kind::cluster_node || node.serves(name)) break;
    }
    return name;
}

using redis::resp;

struct Probe {
    std::string_view right;  // as access lists name it
    std::string command;     // whole RESP
};

// Only SET makes a key, with an expiry in case the doctor cannot remove it: ZADD with XX and
// SETRANGE of nothing need the same rights, and make no key that does not exist.
std::vector<Probe> probes(const std::string& text, const std::string& set) {
    return {
        {"script|load", resp({"SCRIPT", "LOAD", store::give_back_script().text})},
        // There is no such script: a user that may run scripts gets NOSCRIPT.
        {"evalsha", resp({"EVALSHA", std::string(40, '0'), "1", text})},
        {"time", resp({"TIME"})},
        {"set", resp({"SET", text, "x", "PX", "10000"})},
        {"setrange", resp({"SETRANGE", text, "0", ""})},
        {"mget", resp({"MGET", text})},
        {"pttl", resp({"PTTL", text})},
        {"pexpire", resp({"PEXPIRE", text, "10000"})},
        {"zadd", resp({"ZADD", set, "XX", "1", "x"})},
        {"expire", resp({"EXPIRE", set, "10"})},
        {"zcount", resp({"ZCOUNT", set, "-inf", "+inf"})},
        {"zcard", resp({"ZCARD", set})},
        {"zscore", resp({"ZSCORE", set, "x"})},
        {"zrange", resp({"ZRANGE", set, "-1", "-1"})},
        {"zrangebyscore", resp({"ZRANGEBYSCORE", set, "-inf", "+inf"})},
        {"zremrangebyscore", resp({"ZREMRANGEBYSCORE", set, "-inf", "0"})},
        {"zrem", resp({"ZREM", set, "x"})},
    };
}

std::vector<Probe> more_probes(Kind kind) {
    if (kind == Kind::sentinel_master) return {{"role", resp({"ROLE"})}};
    if (kind == Kind::cluster_node) return {{"asking", resp({"ASKING"})}};
    return {};
}

// Without DEL, which Tidegate does not need: an expiry in the past removes.
void remove(RedisConnection& connection, const std::string& text) {
    if (connection.ask({"PEXPIRE", text, "0"}).is_error())
        connection.ask({"SET", text, "x", "PX", "1"});
}

// Tries each command that Tidegate sends or calls by a script. False when decisions cannot work.
// Sends nothing once the connection is lost.
bool check_rights(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    const std::string text =
        fmt::format("{}{{{}}}", node.settings.key_prefix, throw_away_name(node));
    const std::string set = text + ":set";
    std::vector<Probe> all = probes(text, set);
    for (Probe& probe : more_probes(node.kind)) all.push_back(std::move(probe));
    std::vector<std::string_view> missing;
    std::vector<std::string_view> absent;
    std::string refusal;
    std::string unknown;
    for (const Probe& probe : all) {
        const RespValue answer = connection.ask_resp(probe.command);
        if (connection.is_lost()) return false;
        if (!answer.is_error() || answer.is_error("NOSCRIPT")) continue;
        if (report_server_error(answer, findings)) {
            remove(connection, text);
            return false;
        }
        if (probe.right == "time" && node.settings.local_clock) continue;
        if (redis::lacks_command(answer.text)) {
            absent.push_back(probe.right);
            unknown = answer.text;
        } else {
            missing.push_back(probe.right);
            refusal = answer.text;
        }
    }
    remove(connection, text);
    if (!absent.empty()) {
        findings.fault("redis.commands",
                       fmt::format("it does not have: {} ({})", fmt::join(absent, ", "),
                                   shown_error(unknown, node.target.password)),
                       std::string(kCommandAdvice));
    }
    if (missing.empty() && !absent.empty()) return false;
    if (missing.empty()) {
        findings.ok("redis.rights", fmt::format("all {} commands are allowed", all.size()));
        return true;
    }
    findings.fault("redis.rights",
                   fmt::format("refused: {} ({})", fmt::join(missing, ", "),
                               shown_error(refusal, node.target.password)),
                   node.rights_advice());
    return false;
}

using limit::Algorithm;
using limit::Micros;
using std::chrono::duration_cast;
using std::chrono::steady_clock;

constexpr std::int64_t kQuota = 10;
constexpr int kDecisions = 200;
constexpr std::chrono::seconds kDecisionsTime{2};  // no more are made after it

limit::Limit made(Algorithm algorithm) {
    limit::LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = kQuota;
    if (limit::traits_of(algorithm).has(limit::kPer)) spec.duration = std::chrono::seconds{2};
    // A larger sample within the default time would be too much load.
    if (limit::traits_of(algorithm).has(limit::kMoment)) spec.horizon = std::chrono::minutes{1};
    return *limit::make_limit(spec);
}

limit::Policy made_policy(std::initializer_list<Algorithm> algorithms) {
    limit::Policy policy;
    policy.name = "doctor";
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    for (const Algorithm algorithm : algorithms) policy.limits.push_back(made(algorithm));
    return policy;
}

// Charges one throw-away identifier under one policy.
class TestCharge {
  public:
    TestCharge(RedisConnection& connection, const RedisNode& node, const limit::Policy& policy)
        : connection_(connection),
          node_(node),
          policy_(policy),
          identifier_(throw_away_name(node)) {}
    ~TestCharge() { remove(); }
    TestCharge(const TestCharge&) = delete;
    TestCharge& operator=(const TestCharge&) = delete;

    // Empty: the charge was admitted, as it has to be; else the fault.
    std::string charge(std::int64_t cost) {
        const limit::Charge charge = charge_of(cost);
        answer_ = connection_.ask_resp(command_of(charge));
        if (answer_.is_error()) return shown();
        limit::Verdict verdict;
        const std::array<limit::Verdict*, 1> verdicts{&verdict};
        if (answer_.kind != RespValue::Kind::text ||
            !store::read_charge_reply(answer_.text, {&charge, 1}, verdicts)) {
            return "its answer is not a verdict: " + shown();
        }
        if (!verdict.admitted) return "it denied a charge that is within the limit";
        return {};
    }

    // One that takes nothing; how long it took. Negative: it failed.
    microseconds time_one() {
        const std::string command = command_of(charge_of(0));
        const auto began = steady_clock::now();
        const RespValue answer = connection_.ask_resp(command);
        const auto took = duration_cast<microseconds>(steady_clock::now() - began);
        return answer.is_error() ? microseconds{-1} : took;
    }

    // To the last charge.
    const RespValue& answer() const { return answer_; }

  private:
    std::string shown() const { return shown_error(answer_.text, node_.target.password); }
    limit::Charge charge_of(std::int64_t cost) const {
        return {.items = {&item_, 1}, .cost = cost, .slot_hold = {1, 1}, .moment = now()};
    }
    std::string command_of(const limit::Charge& charge) const {
        std::optional<Micros> clock;
        if (node_.settings.local_clock) clock = now();
        std::string command;
        store::append_charge_command({&charge, 1}, node_.settings.key_prefix, clock, command);
        return command;
    }
    static Micros now() {
        return duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
    }
    // An expiry in the past removes.
    void remove() {
        std::vector<std::string> keys(1);
        store::append_state_key(item_, node_.settings.key_prefix, keys[0]);
        for (const limit::Limit& limit : policy_.limits) {
            if (limit.has_set()) {
                store::append_set_key(item_, limit, node_.settings.key_prefix, keys.emplace_back());
            }
        }
        for (const std::string& key : keys) {
            std::string command;
            redis::append_length('*', 3, command);
            redis::append_string("PEXPIRE", command);
            command += key;  // in RESP
            redis::append_string("0", command);
            connection_.ask_resp(std::move(command));
        }
    }

    RedisConnection& connection_;
    const RedisNode& node_;
    const limit::Policy& policy_;
    std::string identifier_;
    limit::ChargeItem item_{&policy_, identifier_};
    RespValue answer_;
};

// Plain windows have a script with a fast path: that one is tried, and the one for all charges.
std::array<limit::Policy, 2> tried_policies() {
    return {made_policy({Algorithm::sliding_window}),
            made_policy({Algorithm::sliding_log, Algorithm::gcra, Algorithm::schedule,
                         Algorithm::concurrency})};
}

// Only the scripts that the test charges need: a loaded script stays, and each makes every decision
// dearer.
bool load_scripts(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    for (const limit::Policy& policy : tried_policies()) {
        const limit::ChargeItem item{&policy, {}};
        const redis::Script& script = store::charge_script({{&item, 1}, 1});
        const RespValue answer = connection.ask({"SCRIPT", "LOAD", script.text});
        if (!answer.is_error() && answer.text == script.sha1) continue;
        if (connection.is_lost() || report_server_error(answer, findings)) return false;
        findings.fault("redis.scripts",
                       fmt::format("the script {} cannot be loaded: {}", script.name,
                                   shown_error(answer.text, node.target.password)),
                       answer.is_error("NOPERM") ? node.rights_advice()
                                                 : "use Redis 6.0 or later, with scripts allowed");
        return false;
    }
    return true;
}

bool try_charges(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    for (const limit::Policy& policy : tried_policies()) {
        TestCharge test(connection, node, policy);
        std::string fault = test.charge(0);
        if (fault.empty()) fault = test.charge(1);
        if (fault.empty() || connection.is_lost()) continue;
        if (report_server_error(test.answer(), findings)) return false;
        findings.fault("redis.scripts", "a charge of a throw-away identifier failed: " + fault,
                       node.rights_advice());
        return false;
    }
    if (!connection.is_lost())
        findings.ok("redis.scripts", "the scripts load, and it decides charges");
    return !connection.is_lost();
}

void time_decisions(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    const limit::Policy policy = made_policy({Algorithm::sliding_window});
    TestCharge test(connection, node, policy);
    const auto until = std::min(steady_clock::now() + kDecisionsTime, connection.time_limit().end);
    std::vector<microseconds> times;
    for (int i = 0; i < kDecisions && steady_clock::now() < until; ++i) {
        const microseconds took = test.time_one();
        if (took.count() < 0) break;
        times.push_back(took);
    }
    if (times.empty()) return;
    const std::size_t decisions = times.size();
    check_latency(decisions, percentiles_of(std::move(times)), node.settings.timeout, findings);
}

// Loads the scripts, charges every algorithm, and times decisions. Sends nothing once the
// connection is lost.
void check_scripts(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    if (!load_scripts(connection, node, findings)) return;
    if (try_charges(connection, node, findings)) time_decisions(connection, node, findings);
}

using std::chrono::system_clock;

// The kind of the server. Empty: unknown.
struct Identity {
    std::optional<ServerProduct> product;  // unset: INFO is refused
    std::string version;
    std::string mode;  // `standalone`, `cluster`, `sentinel`
    std::string role;  // `master`, or `slave`, `replica`
    std::optional<RedisInfo> info;
    bool info_is_unknown = false;  // the server has no such command
};

constexpr std::string_view kNoInfo =
    "to see it: give the server its INFO back (`rename-command`); Tidegate itself does without";

// INFO says all, and may not be allowed; HELLO says enough, and every user may send it (since 6.0).
// Nothing: the server answers with an error, which is a finding.
std::optional<Identity> identify(RedisConnection& connection, Findings& findings) {
    Identity found;
    const RespValue info = connection.ask({"INFO"});
    if (report_server_error(info, findings)) return std::nullopt;
    if (info.kind == RespValue::Kind::text) {
        found.info.emplace(info.text);
        const auto field = [&](std::string_view name) { return found.info->text(name); };
        found.product = product_of(field);
        found.version = found.product->version;
        // Valkey's name for it, and Redis's.
        found.mode = field(field("server_mode").empty() ? "redis_mode" : "server_mode");
        found.role = found.info->text("role");
        return found;
    }
    const RespValue hello = connection.ask({"HELLO"});
    // Products that imitate Redis say `redis` here as well, so only Valkey is known by it.
    if (hello.value_of("server") == "valkey") found.product = ServerProduct{.name = "Valkey"};
    found.info_is_unknown = info.is_error() && redis::lacks_command(info.text);
    found.version = hello.value_of("version");
    found.mode = hello.value_of("mode");
    found.role = hello.value_of("role");
    return found;
}

// False when it is another kind of server than it should be, so that nothing else makes sense.
bool check_kind(const Identity& server, const RedisNode& node, Findings& findings) {
    if (server.mode == "sentinel") {
        findings.fault("redis.mode", "it is a sentinel",
                       "write it in store.redis.sentinel.nodes, or correct store.redis.url");
        return false;
    }
    if (server.mode == "cluster" && node.kind != Kind::cluster_node) {
        findings.fault("redis.mode",
                       "it is a node of a Redis Cluster and serves only some of the keys",
                       node.kind == Kind::single
                           ? "write `cluster: [redis://...]` in store.redis instead of `url`"
                           : "write `cluster: [redis://...]` in store.redis instead of `sentinel`");
        return false;
    }
    if (server.mode == "standalone" && node.kind == Kind::cluster_node) {
        findings.fault("redis.mode", "it is not a node of a cluster (`cluster-enabled no`)",
                       "write `url` in store.redis instead of `cluster`, or make it a node");
        return false;
    }
    if (server.role == "slave" || server.role == "replica") {
        findings.fault("redis.role", "it is a replica: it refuses to count",
                       node.kind == Kind::single
                           ? "name the master in store.redis.url, or write `sentinel` to follow it"
                           : "a failover may be under way: try again; if it stays so, see what "
                             "CLUSTER NODES or SENTINEL MASTERS say");
        return false;
    }
    if (!server.role.empty()) findings.ok("redis.role", "a master");
    return true;
}

void report_version(const Identity& server, const RedisNode& node, Findings& findings) {
    if (server.product && server.product->name != "Redis") {
        check_product(*server.product,
                      without_secret(shown_version(server.version), node.target.password),
                      findings);
    } else if (auto version = parse_version(server.version)) {
        version->text = without_secret(version->text, node.target.password);
        check_version(*version, findings);
    } else {
        findings.note(
            "redis.version", "its version is not visible",
            server.info_is_unknown ? std::string(kNoInfo) : "allow the Redis user INFO: `+info`");
    }
}

limit::Micros longest_window(const config::Config& config) {
    limit::Micros longest{0};
    for (const config::LimitList& list : config.limit_lists) {
        for (const limit::Limit& limit : list.limits()) {
            if (limit.traits().has(limit::kPer)) longest = std::max(longest, limit.duration);
        }
    }
    return longest;
}

void check_settings(RedisConnection& connection, const Identity& server, const RedisNode& node,
                    Findings& findings) {
    const std::string user = node.settings.username.empty() ? "default" : node.settings.username;
    if (!server.info) {
        findings.note(
            "redis.settings",
            "INFO is refused, so memory, eviction and persistence were not checked",
            server.info_is_unknown
                ? std::string(kNoInfo)
                : fmt::format("to see them: ACL SETUSER {} +info +config|get (Tidegate itself "
                              "does without)",
                              user));
        return;
    }
    check_memory(*server.info, findings);
    check_connections(*server.info, findings);
    const RespValue config = connection.ask({"CONFIG", "GET", "save"});
    std::optional<std::string> save;
    if (config.is_list()) save = config.value_of("save");
    check_persistence(*server.info, save, longest_window(node.config), findings);
    if (config.is_error() && !connection.is_lost()) {
        findings.note(
            "redis.settings",
            "CONFIG GET is refused: " + shown_error(config.text, node.target.password),
            redis::lacks_command(config.text)
                ? "to see all of its settings: give the server its CONFIG back (`rename-command`, "
                  "or the host's settings); Tidegate itself does without"
                : fmt::format("to see all of its settings: ACL SETUSER {} +config|get (Tidegate "
                              "itself does without)",
                              user));
    }
}

std::optional<microseconds> time_of(const RespValue& answer) {
    if (!answer.is_list() || answer.items.size() != 2) return std::nullopt;
    const auto seconds = parse_decimal(answer.items[0].text);
    const auto micros = parse_decimal(answer.items[1].text);
    constexpr std::int64_t kSecondsMax = 100'000'000'000;
    if (!seconds || !micros || *seconds > kSecondsMax || *micros >= 1'000'000) return std::nullopt;
    return std::chrono::seconds(*seconds) + microseconds(*micros);
}

// Returns that of several measurements whose answer was the quickest: its error is at most half of
// that time.
void measure_clock(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    constexpr int kMeasurements = 5;
    std::optional<microseconds> offset;
    microseconds trip = microseconds::max();
    for (int i = 0; i < kMeasurements; ++i) {
        const auto asked = std::chrono::steady_clock::now();
        const auto ours = system_clock::now().time_since_epoch();
        const auto theirs = time_of(connection.ask({"TIME"}));
        const auto took = duration_cast<microseconds>(std::chrono::steady_clock::now() - asked);
        if (!theirs || took >= trip) continue;
        trip = took;
        offset = *theirs - duration_cast<microseconds>(ours) - took / 2;
    }
    // A user that may not send TIME is a finding among the other rights.
    if (offset) check_clock(*offset, trip / 2, node.settings.local_clock, findings);
}

void check_replicas(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    const std::string key = store::heartbeat_key(node.settings.key_prefix);
    if (node.kind == Kind::cluster_node && !node.serves(store::kHeartbeatTag)) return;
    std::int64_t now =
        duration_cast<std::chrono::seconds>(system_clock::now().time_since_epoch()).count();
    if (const auto theirs = time_of(connection.ask({"TIME"}));
        theirs && !node.settings.local_clock) {
        now = duration_cast<std::chrono::seconds>(*theirs).count();
    }
    const std::string since = std::to_string(now - store::kHeartbeatGoodFor.count());
    const RespValue alive = connection.ask({"ZCOUNT", key, since, "+inf"});
    if (alive.kind != RespValue::Kind::integer) return;
    const auto& replicas = node.config.replicas;
    const std::string text = fmt::format("{} Tidegate{} counting there now; `replicas` is {}",
                                         alive.integer, alive.integer == 1 ? " is" : "s are",
                                         replicas ? std::to_string(*replicas) : "auto");
    const auto& assumed = node.config.replicas_assumed;
    if (!replicas && !assumed && node.config.has_shares()) {
        // The configuration's own warning says more.
        findings.note("redis.replicas",
                      text + ", and a Tidegate that starts while Redis is away does not know it",
                      "write the number that you run: `replicas: {auto: {assume: " +
                          std::to_string(std::max<std::int64_t>(alive.integer, 2)) + "}}`");
    } else if (replicas && alive.integer > *replicas) {
        findings.note("redis.replicas", text + ": more than configured",
                      "write the number: a proxy that starts without Redis takes too large a share "
                      "of each limit");
    } else {
        findings.ok("redis.replicas", text);
    }
}

bool select_database(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    if (node.settings.database == 0) return true;
    const std::string database = std::to_string(node.settings.database);
    const RespValue answer = connection.ask({"SELECT", database});
    if (!answer.is_error()) return true;
    if (report_server_error(answer, findings)) return false;
    findings.fault("redis.database",
                   fmt::format("database {} was refused: {}", database,
                               shown_error(answer.text, node.target.password)),
                   answer.is_error("NOPERM")
                       ? node.rights_advice()
                       : "correct the number in store.redis.url, or raise `databases` of Redis");
    return false;
}

}  // namespace

Findings check_node(const RedisNode& node) {
    Findings findings(node.target.name());
    RedisConnection connection(node.time_limit);
    if (!connection.open(node.target, findings)) return findings;
    const std::optional<Identity> server = identify(connection, findings);
    if (!server) return findings;
    report_version(*server, node, findings);
    if (!check_kind(*server, node, findings)) return findings;
    if (!select_database(connection, node, findings)) return findings;
    check_settings(connection, *server, node, findings);
    measure_clock(connection, node, findings);
    if (check_rights(connection, node, findings)) check_scripts(connection, node, findings);
    check_replicas(connection, node, findings);
    if (connection.is_lost()) {
        findings.fault("redis.answers", "it stopped answering: " + connection.why_lost(),
                       "try again; see its log and the network between");
    }
    return findings;
}

}  // namespace tidegate::doctor
