#include "matrix/cell.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <iomanip>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/load.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test {
namespace {

using WallClock = std::chrono::system_clock;
using Seconds = std::chrono::duration<double>;

constexpr milliseconds kTimeout{100};
// On a busy machine answers are late; a decision that waits for Redis is later.
constexpr milliseconds kLateMax = kTimeout + milliseconds{400};
constexpr milliseconds kBackMax{10'000};
constexpr int kGates = 2;
constexpr int kConnections = 2;  // to each
constexpr int kQuota = 100;      // of a user
constexpr milliseconds kBefore{300};
constexpr milliseconds kAfter{600};

std::string settings_of_cell(const WayIn& servers, const std::string& upstream) {
    return "store: {redis: {" + servers.address() +
           ", timeout: " + std::to_string(kTimeout.count()) +
           "ms, breaker: {failures: 5, probe_every: 200ms}}}\n"
           "replicas: " +
           std::to_string(kGates) +
           "\non_store_failure: local\ndeny_cache: off\n"
           "identity: {client_ip: {trusted_proxies: [127.0.0.1]}, user: [{header: {name: "
           "x-user-id, from: trusted_proxies}}]}\n"
           "upstreams: {api: {servers: [" +
           upstream +
           "]}}\n"
           "policies: {users: {key: [user], limits: [" +
           std::to_string(kQuota) +
           "/h]}}\n"
           "routes: [{name: all, upstream: api, policies: [users]}]\n";
}

std::string fields_of(const std::string& user) {
    return "X-User-Id: " + user + "\r\n";
}

// `2026-11-21T13:27:46.778Z`
WallClock::time_point time_of(const nlohmann::json& line) {
    const auto text = line.at("time").get<std::string>();
    std::tm parts{};
    std::istringstream stream(text);
    stream >> std::get_time(&parts, "%Y-%m-%dT%H:%M:%S");
    if (stream.fail()) throw std::runtime_error("no time: " + text);
    return WallClock::from_time_t(::timegm(&parts)) +
           milliseconds{std::stoi(text.substr(text.find('.') + 1, 3))};
}

// A Tidegate, its clients, and the answers to them.
class Gate {
  public:
    Gate(const std::string& yaml, std::vector<std::string> users)
        : tidegate_(yaml), users_(std::move(users)) {}

    void begin() {
        load_.emplace(tidegate_.port(), kConnections, [this] {
            const std::string& user = users_[next_++ % users_.size()];
            return get_request("/" + user, fields_of(user));
        });
    }
    void end() {
        for (const auto& [status, count] : load_->stop()) statuses_[status] += count;
    }
    // Asks once more.
    int ask(const std::string& user) {
        const int status = tidegate_.get("/" + user, fields_of(user)).status();
        ++statuses_[status];
        return status;
    }
    bool is_well() const { return tidegate_.metric("tidegate_store_state{state=\"down\"}") == 0; }
    bool last_was_redis() const { return log().back().at("store") == "redis"; }

    const Statuses& statuses() const { return statuses_; }
    std::vector<nlohmann::json> log() const {
        std::size_t total = 0;
        for (const auto& [status, count] : statuses_) total += static_cast<std::size_t>(count);
        return tidegate_.access_log(total);
    }
    // Without a reason: all.
    int failures(const std::string& reason) const {
        const std::string label = reason.empty() ? "" : "reason=\"" + reason + "\"";
        return static_cast<int>(
            std::lround(tidegate_.metric_sum("tidegate_store_failures_total", label)));
    }

  private:
    Tidegate tidegate_;
    std::vector<std::string> users_;
    std::atomic<std::size_t> next_{0};
    std::optional<BackgroundLoad> load_;
    Statuses statuses_;
};

using Gates = std::vector<std::unique_ptr<Gate>>;

// What Redis has left, so that counts can be compared.
void use_up(const Gates& gates, const std::vector<std::string>& users) {
    for (const std::string& user : users) {
        int denials = 0;
        for (std::size_t i = 0; denials < 2 * kGates; ++i) {
            const int status = gates[i % gates.size()]->ask(user);
            denials = status == 429 ? denials + 1 : 0;
            if (i > 10 * kQuota) throw std::runtime_error("there is no end to what is admitted");
        }
    }
    for (const auto& gate : gates) {
        await("decisions of Redis", [&] {
            gate->ask(users.front());
            return gate->last_was_redis();
        });
    }
}

// What the access logs say.
struct Tally {
    std::map<std::string, int> by_redis;                   // admitted, by user
    std::vector<std::map<std::string, int>> here{kGates};  // likewise, for each gate
    WallClock::time_point last_without_redis{};
    double longest_us = 0;

    void add(std::size_t gate, const nlohmann::json& line) {
        longest_us = std::max(longest_us, line.at("decision_us").get<double>());
        const bool is_redis = line.at("store") == "redis";
        if (!is_redis) last_without_redis = std::max(last_without_redis, time_of(line));
        if (line.at("status") != 200) return;
        const std::string user = line.at("path").get<std::string>().substr(1);
        ++(is_redis ? by_redis : here[gate])[user];
    }
};

int sum(const std::map<std::string, int>& counts) {
    int all = 0;
    for (const auto& [user, count] : counts) all += count;
    return all;
}

// Collects the expectations that failed.
struct Judge {
    std::vector<std::string>& broken;

    void expect(bool holds, const std::string& what) const {
        if (!holds) broken.push_back(what);
    }
};

void judge_answers(const Gates& gates, const Judge& judge) {
    for (const auto& gate : gates) {
        int total = 0;
        for (const auto& [status, count] : gate->statuses()) {
            total += count;
            judge.expect(
                status == 200 || status == 429,
                std::to_string(count) + " requests ended with status " + std::to_string(status));
        }
        judge.expect(gate->log().size() == static_cast<std::size_t>(total),
                     "the access log has not a line for each request");
    }
}

// A unit that was taken by a command without an answer is unaccounted for; all others are accounted
// for.
void judge_counts(const Tally& tally, const std::vector<std::string>& users, int losses,
                  int unanswered, const Judge& judge) {
    int admitted = 0;
    for (const std::string& user : users) {
        const auto by_redis = tally.by_redis.find(user);
        const int count = by_redis == tally.by_redis.end() ? 0 : by_redis->second;
        admitted += count;
        judge.expect(count <= kQuota * (1 + losses),
                     user + ": Redis admitted " + std::to_string(count));
        for (const auto& here : tally.here) {
            const auto local = here.find(user);
            const int share = local == here.end() ? 0 : local->second;
            judge.expect(share <= kQuota / kGates,
                         user + ": admitted without Redis: " + std::to_string(share));
            admitted += share;
        }
    }
    const int quota = kQuota * static_cast<int>(users.size());
    judge.expect(admitted >= quota - unanswered, "only " + std::to_string(admitted) +
                                                     " were admitted of a quota of " +
                                                     std::to_string(quota));
}

std::string failures_of(const Gates& gates) {
    std::string text;
    for (const std::string reason :
         {"timeout", "disconnected", "unavailable", "refused", "overloaded"}) {
        int count = 0;
        for (const auto& gate : gates) count += gate->failures(reason);
        if (count != 0) text += (text.empty() ? "" : ", ") + reason + " " + std::to_string(count);
    }
    return text;
}

int all_failures(const Gates& gates) {
    int count = 0;
    for (const auto& gate : gates) count += gate->failures("");
    return count;
}

int unanswered(const Gates& gates) {
    int count = 0;
    for (const auto& gate : gates) {
        count += gate->failures("timeout") + gate->failures("disconnected");
    }
    return count;
}

// Until all of it is healthy, and Redis has made all decisions for a while.
void await_well(const Gates& gates) {
    const auto are_well = [&] {
        return std::all_of(gates.begin(), gates.end(),
                           [](const auto& gate) { return gate->is_well(); });
    };
    await("all to be well again", [&] {
        const int before = all_failures(gates);
        pass(kAfter);
        return all_failures(gates) == before && are_well();
    });
}

}  // namespace

Cell run_cell(WayIn& servers, Fault fault) {
    const Upstream upstream(ok());
    const auto users = servers.users();
    Gates gates;
    for (int i = 0; i < kGates; ++i) {
        gates.push_back(std::make_unique<Gate>(settings_of_cell(servers, upstream.url()), users));
    }
    for (const auto& gate : gates) gate->begin();
    pass(kBefore);
    const auto broken_at = WallClock::now();
    servers.suffer(fault);
    const auto over_at = WallClock::now();
    await_well(gates);
    servers.mend(fault);
    await_well(gates);
    for (const auto& gate : gates) gate->end();
    use_up(gates, users);

    Tally tally;
    for (std::size_t i = 0; i < gates.size(); ++i) {
        for (const auto& line : gates[i]->log()) tally.add(i, line);
    }
    Cell cell;
    cell.away_s = Seconds(over_at - broken_at).count();
    cell.back_s = std::max(0.0, Seconds(tally.last_without_redis - over_at).count());
    cell.longest_ms = tally.longest_us / 1'000;
    cell.admitted = sum(tally.by_redis);
    for (const auto& here : tally.here) cell.admitted_locally += sum(here);
    cell.quota = kQuota * static_cast<int>(users.size());
    cell.failures = failures_of(gates);
    const Judge judge{cell.broken};
    judge_answers(gates, judge);
    judge_counts(tally, users, servers.losses(fault), unanswered(gates), judge);
    judge.expect(cell.longest_ms <= static_cast<double>(kLateMax.count()),
                 "a decision took " + std::to_string(cell.longest_ms) + " ms");
    judge.expect(cell.back_s <= Seconds(kBackMax).count(),
                 "a decision without Redis " + std::to_string(cell.back_s) + " s after");
    return cell;
}

}  // namespace tidegate::test
