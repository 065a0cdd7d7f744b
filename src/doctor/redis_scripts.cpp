// Whether decisions work, and how long they take: the scripts are loaded as Tidegate loads them,
// and a throw-away identifier is charged.
#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "doctor/redis_node.hpp"
#include "doctor/server_errors.hpp"
#include "doctor/shown_error.hpp"
#include "doctor/thresholds.hpp"
#include "limit/limit.hpp"
#include "limit/policy.hpp"
#include "redis/resp.hpp"
#include "redis/script.hpp"
#include "store/charge_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::doctor {

namespace {

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
        return {.items = {&item_, 1}, .cost = cost, .lease = {1, 1}, .moment = now()};
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

}  // namespace

void check_scripts(RedisConnection& connection, const RedisNode& node, Findings& findings) {
    if (!load_scripts(connection, node, findings)) return;
    if (try_charges(connection, node, findings)) time_decisions(connection, node, findings);
}

}  // namespace tidegate::doctor
