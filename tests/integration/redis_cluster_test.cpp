// Two Tidegates on a cluster of six: counts are exact wherever identifiers lie; nodes die, are
// added and removed, slots move, scripts are forgotten, all under load.
#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "cluster_world.hpp"
#include "integration/client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::redis_cluster_test {

namespace {

constexpr milliseconds kTimeout{100};

// `more` goes into `redis`. Where exact counts are asked for, it is patient: on a busy machine,
// too, Redis decides.
std::string on(const ClusterWorld& world, const std::string& more) {
    return "store: {redis: {cluster: " + world.urls() + more + "}}\n" + kUsersFromHere;
}
const std::string kPatient = ", timeout: 5s";

std::string as(const std::string& user) {
    return "X-User-Id: " + user + "\r\n";
}

// Users whose counts are on that node.
std::vector<std::string> users_on(const ClusterWorld& world, std::size_t node, std::size_t count) {
    std::vector<std::string> users;
    const auto slots = world.slots_of(node);
    for (int i = 0; users.size() < count; ++i) {
        const std::string user = "u" + std::to_string(i);
        const auto slot = world.slot_of("{user:" + user + "}");
        if (std::binary_search(slots.begin(), slots.end(), slot)) users.push_back(user);
    }
    return users;
}

// The fates of each name's requests.
using ByName = std::map<std::string, Statuses>;

// Each client in `fields` (a name and its fields) sends `requests`, on four connections to each
// port, all at once.
ByName ask_as(const std::vector<std::uint16_t>& ports,
              const std::map<std::string, std::string>& fields, int requests,
              const std::string& path = "/") {
    std::mutex mutex;
    ByName statuses;
    std::vector<std::string> turns;
    for (int i = 0; i < requests; ++i) {
        for (const auto& [name, text] : fields) turns.push_back(name);
    }
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < 4 * ports.size(); ++i) {
        threads.emplace_back([&, port = ports[i % ports.size()]] {
            RawClient client(port);
            for (std::size_t turn = next++; turn < turns.size(); turn = next++) {
                const int status = client.get(path, fields.at(turns[turn])).status();
                const std::lock_guard lock(mutex);
                ++statuses[turns[turn]][status];
            }
        });
    }
    for (auto& thread : threads) thread.join();
    return statuses;
}

std::map<std::string, std::string> fields_of(const std::vector<std::string>& users) {
    std::map<std::string, std::string> fields;
    for (const std::string& user : users) fields[user] = as(user);
    return fields;
}

// Requests of some users in turn, until it is stopped.
class UsersLoad {
  public:
    UsersLoad(std::uint16_t port, int connections, std::vector<std::string> users)
        : users_(std::move(users)) {
        for (int i = 0; i < connections; ++i) threads_.emplace_back([this, port] { run(port); });
    }
    ~UsersLoad() { stop(); }
    UsersLoad(const UsersLoad&) = delete;
    UsersLoad& operator=(const UsersLoad&) = delete;

    ByName stop() {
        stopping_ = true;
        for (auto& thread : threads_) thread.join();
        threads_.clear();
        return statuses_;
    }

  private:
    void run(std::uint16_t port) {
        RawClient client(port);
        while (!stopping_) {
            const std::string& user = users_[next_++ % users_.size()];
            const int status = client.get("/" + user, as(user)).status();
            {
                const std::lock_guard lock(mutex_);
                ++statuses_[user][status];
            }
            std::this_thread::sleep_for(milliseconds{2});
        }
    }

    std::vector<std::string> users_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> stopping_{false};
    std::mutex mutex_;
    ByName statuses_;  // guarded by mutex_
    std::vector<std::thread> threads_;
};

int total(const ByName& statuses, int status = -1) {
    int sum = 0;
    for (const auto& [name, counts] : statuses) {
        for (const auto& [one, count] : counts) sum += status == -1 || one == status ? count : 0;
    }
    return sum;
}

int admitted_in(const ByName& statuses, const std::string& name) {
    const auto found = statuses.find(name);
    if (found == statuses.end()) return 0;
    const auto ok_count = found->second.find(200);
    return ok_count == found->second.end() ? 0 : ok_count->second;
}

double longest_decision_us(const std::vector<nlohmann::json>& log) {
    double longest = 0;
    for (const auto& line : log) longest = std::max(longest, line.at("decision_us").get<double>());
    return longest;
}

// A user's request from that address.
std::string fields(const std::string& user, const std::string& ip) {
    return as(user) + "X-Forwarded-For: " + ip + "\r\n";
}

}  // namespace

TEST_CASE("redis cluster: two proxies admit each user exactly as often as one Redis would") {
    const ClusterWorld world({.masters = 3, .replicas = true});
    const Upstream upstream(ok());
    const std::string yaml =
        on(world, kPatient) + one_policy(upstream, "{key: [user], limits: [7/h, 20/day]}");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    std::vector<std::string> users;
    for (std::size_t node = 0; node < 3; ++node) {
        for (const std::string& user : users_on(world, node, 5)) users.push_back(user);
    }
    const auto statuses = ask_as({first.port(), second.port()}, fields_of(users), 20);
    for (const auto& [user, counts] : statuses) {
        CAPTURE(user);
        CHECK(counts == Statuses{{200, 7}, {429, 13}});
    }
    for (const auto& line : first.access_log(1)) CHECK(line.at("store") != "local");
    CHECK(first.metric_sum("tidegate_store_failures_total") == 0);
    // Both proxies register, in the slot of the key.
    const auto replicas = world.slot_of("{replicas}");
    for (std::size_t node = 0; node < 3; ++node) {
        const auto slots = world.slots_of(node);
        if (!std::binary_search(slots.begin(), slots.end(), replicas)) continue;
        await("both are counted", [&] {
            return world.node(node).text({"ZCARD", "tg:{replicas}"}) == "2";
        });
    }

    // Each request is counted once, though scripts are forgotten.
    world.command_all({"SCRIPT", "FLUSH"});
    world.command_all({"FLUSHALL"});
    first.reload();  // and remembers no denials
    second.reload();
    for (const auto& [user, counts] : ask_as({first.port(), second.port()}, fields_of(users), 20)) {
        CAPTURE(user);
        CHECK(counts == Statuses{{200, 7}, {429, 13}});
    }
    CHECK(first.metric_sum("tidegate_store_failures_total") == 0);
}

TEST_CASE("redis cluster: a request in several slots is counted in all or in none") {
    const ClusterWorld world({.masters = 3});
    const Upstream upstream(ok());
    // Under load, users at one address are denied by the address or by their own limit.
    const std::string yaml =
        on(world, kPatient) + "deny_cache: off\n" +
        api(upstream,
            "policies: {addresses: {key: [ip], limits: [60/h]}, users: {key: [user], limits: "
            "[10/h]}}\n"
            "routes:\n"
            "  - {name: one, match: {path: /ip}, upstream: api, policies: [addresses]}\n"
            "  - {name: all, upstream: api, policies: [addresses, users]}\n");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    const std::vector<std::uint16_t> ports{first.port(), second.port()};

    SUBCASE("one user, whose own limit denies: the address is charged for who was let in") {
        const auto statuses = ask_as(ports, {{"alice", fields("alice", "192.0.2.1")}}, 80);
        CHECK(admitted_in(statuses, "alice") == 10);
        CHECK(total(statuses, 429) == 70);
        CHECK_SOON(first.metric("tidegate_store_given_back_total") +
                       second.metric("tidegate_store_given_back_total") >
                   0);
        // The units of denied requests are back.
        const auto rest = ask_as(ports, {{"ip", fields("bob", "192.0.2.1")}}, 80, "/ip");
        CHECK(admitted_in(rest, "ip") == 50);
    }
    SUBCASE("many users at one address: never too much, and in the end all of it") {
        std::map<std::string, std::string> all;
        for (int i = 0; i < 12; ++i) {
            const std::string user = "user" + std::to_string(i);
            all[user] = fields(user, "192.0.2.2");
        }
        const auto statuses = ask_as(ports, all, 15);
        CHECK(total(statuses, 200) <= 60);
        CHECK(total(statuses, 200) + total(statuses, 429) == 12 * 15);
        for (const auto& [user, counts] : statuses) CHECK(admitted_in(statuses, user) <= 10);
        // Requests one after the other do not get in each other's way.
        int more = 0;
        for (const auto& [user, text] : all) {
            for (int i = 0; i < 10; ++i) more += first.get("/", text).status() == 200 ? 1 : 0;
        }
        CHECK(total(statuses, 200) + more == 60);
    }
    for (const Tidegate* one : {&first, &second}) {
        CHECK(one->metric_sum("tidegate_store_failures_total") == 0);
    }
}

TEST_CASE("redis cluster: a candidate in another slot than what it depends on counts the same") {
    const ClusterWorld world({.masters = 3});
    const Upstream upstream(ok());
    const Tidegate tidegate(
        on(world, kPatient) +
        api(upstream,
            "policies: {addresses: {key: [ip], limits: [60/h], candidate: {limits: [6/h]}}, users: "
            "{key: [user], limits: [4/h], candidate: {limits: [8/h]}}}\n"
            "routes: [{name: all, upstream: api, policies: [addresses, users]}]\n"));
    const auto requests = [&](const std::string& policy, const std::string& live,
                              const std::string& candidate) {
        return tidegate.metric("tidegate_candidate_total{policy=\"" + policy + "\",live=\"" + live +
                               "\",candidate=\"" + candidate + "\"}");
    };
    REQUIRE(world.slot_of("{user:alice}") != world.slot_of("{ip:192.0.2.1}"));
    for (int i = 0; i < 10; ++i) {
        CHECK(tidegate.get("/", fields("alice", "192.0.2.1")).status() == (i < 4 ? 200 : 429));
    }
    // Users deny the rest, so the candidate of addresses gives it back.
    CHECK_SOON(requests("addresses", "admitted", "admitted") == 4);
    CHECK_SOON(requests("addresses", "denied", "denied") == 6);
    CHECK_SOON(requests("users", "admitted", "admitted") == 4);
    CHECK_SOON(requests("users", "denied", "admitted") == 4);
    CHECK_SOON(requests("users", "denied", "denied") == 2);
    for (int i = 0; i < 3; ++i) {
        CHECK(tidegate.get("/", fields("bob", "192.0.2.1")).status() == 200);
    }
    CHECK_SOON(requests("addresses", "admitted", "admitted") == 6);
    CHECK_SOON(requests("addresses", "admitted", "denied") == 1);
}

TEST_CASE("redis cluster: a client over its own limit leaves a shared one to the others") {
    const ClusterWorld world({.masters = 3});
    const Upstream upstream(ok());
    // What they share has room for both, and for none beside.
    const Tidegate tidegate(
        on(world, kPatient) +
        api(upstream,
            "policies: {own: {key: [user], limits: [5/h]}, shared: {key: [\"constant:all\"], "
            "limits: [10/h]}}\n"
            "routes: [{name: all, upstream: api, policies: [shared, own]}]\n"));
    std::atomic<bool> ends{false};
    std::atomic<int> admitted{0};
    std::vector<std::thread> hammering;
    for (int i = 0; i < 4; ++i) {
        hammering.emplace_back([&] {
            while (!ends) admitted += tidegate.get("/", as("greedy")).status() == 200 ? 1 : 0;
        });
    }
    await("the greedy one has its five", [&] { return admitted == 5; });
    const double denied = tidegate.metric_sum("tidegate_deny_cache_hits_total");
    // Each of the others' requests passes, though the greedy one goes on.
    for (int i = 0; i < 5; ++i) {
        CHECK(tidegate.get("/", as("modest")).status() == 200);
        await("it goes on", [&, before = tidegate.metric_sum("tidegate_deny_cache_hits_total")] {
            return tidegate.metric_sum("tidegate_deny_cache_hits_total") > before;
        });
    }
    CHECK(tidegate.metric_sum("tidegate_deny_cache_hits_total") > denied);
    ends = true;
    for (std::thread& one : hammering) one.join();
    CHECK(admitted == 5);
    CHECK(tidegate.metric("tidegate_store_given_back_total") == 0);
    CHECK(tidegate.get("/", as("third")).status() == 429);
}

TEST_CASE("redis cluster: slots of concurrency are held on all nodes or on none") {
    const ClusterWorld world({.masters = 3});
    GatedUpstream gated;
    const std::string yaml =
        on(world, kPatient) +
        api(gated.upstream(),
            "policies: {addresses: {key: [ip], limits: [{quota: 3, algorithm: concurrency}]}, "
            "users: {key: [user], limits: [{quota: 1, algorithm: concurrency}]}}\n"
            "routes: [{name: all, upstream: api, policies: [addresses, users]}]\n");
    const Tidegate tidegate(yaml);
    std::vector<RawClient> held;
    for (const std::string user : {"a", "b"}) {
        held.emplace_back(tidegate.port());
        CHECK(held.back().send(get_request("/", fields(user, "192.0.2.1"))));
        await("it is held", [&] { return gated.waiting() == static_cast<int>(held.size()); });
    }
    // Denied by the user's own, so the address has still one to give.
    for (int i = 0; i < 5; ++i) {
        CHECK(tidegate.get("/", fields("a", "192.0.2.1")).status() == 429);
    }
    held.emplace_back(tidegate.port());
    CHECK(held.back().send(get_request("/", fields("c", "192.0.2.1"))));
    await("a third is held", [&] { return gated.waiting() == 3; });
    CHECK(tidegate.get("/", fields("d", "192.0.2.1")).status() == 429);
    gated.open();
    for (RawClient& client : held) CHECK(client.response().status() == 200);
    await("all are released",
          [&] { return tidegate.get("/", fields("d", "192.0.2.1")).status() == 200; });
}

TEST_CASE("redis cluster: under load a node is killed: the others serve, its replica takes over") {
    ClusterWorld world({.masters = 3, .replicas = true, .node_timeout = milliseconds{1'000}});
    const Upstream upstream(ok());
    const std::string yaml = on(world, ", breaker: {failures: 5, probe_every: 200ms}") +
                             "replicas: 2\non_store_failure: local\n" +
                             one_policy(upstream, "{key: [user], limits: [1000000/h]}");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    const auto lost = users_on(world, 0, 3);
    std::vector<std::string> users = lost;
    for (std::size_t node = 1; node < 3; ++node) {
        for (const std::string& user : users_on(world, node, 3)) users.push_back(user);
    }
    ByName statuses;
    std::size_t requests[2] = {0, 0};
    long recovered_ms = 0;
    {
        UsersLoad to_first(first.port(), 3, users);
        UsersLoad to_second(second.port(), 3, users);
        std::this_thread::sleep_for(milliseconds{500});
        const auto began = Clock::now();
        bool pause = false;
        SUBCASE("killed") {
            world.node(0).stop();
        }
        SUBCASE("stopped, as a machine that hangs") {
            pause = true;
            world.node(0).pause();
        }
        const auto state = [](const Tidegate& one) {
            return one.metric("tidegate_store_state{state=\"down\"}");
        };
        await("both have noticed", [&] { return state(first) > 0 && state(second) > 0; });
        CHECK(first.admin("/readyz").value().status() == 200);
        await(
            "both are well again", [&] { return state(first) == 0 && state(second) == 0; },
            milliseconds{30'000});
        recovered_ms = static_cast<long>(
            std::chrono::duration_cast<milliseconds>(Clock::now() - began).count());
        std::this_thread::sleep_for(milliseconds{300});
        if (pause) world.node(0).resume();
        std::this_thread::sleep_for(milliseconds{700});
        for (UsersLoad* load : {&to_first, &to_second}) {
            const ByName part = load->stop();
            requests[load == &to_first ? 0 : 1] = static_cast<std::size_t>(total(part));
            for (const auto& [user, counts] : part) {
                for (const auto& [status, count] : counts) statuses[user][status] += count;
            }
        }
    }
    MESSAGE("a master lost: all slots were served again after "
            << recovered_ms << " ms (cluster-node-timeout 1000 ms), " << total(statuses)
            << " requests");
    CHECK(total(statuses, 200) == total(statuses));
    const double deadline =
        static_cast<double>(std::chrono::microseconds(kTimeout + slack()).count());
    for (const Tidegate* one : {&first, &second}) {
        const auto log = one->access_log(requests[one == &first ? 0 : 1]);
        CHECK(longest_decision_us(log) <= deadline);
        std::size_t local = 0;
        std::size_t local_of_others = 0;
        for (const auto& line : log) {
            if (line.at("store") == "redis") continue;
            const std::string user = line.at("path").get<std::string>().substr(1);
            const bool was_lost = std::find(lost.begin(), lost.end(), user) != lost.end();
            ++(was_lost ? local : local_of_others);
        }
        CHECK(local > 0);
        // A busy machine may keep a healthy node from answering one in time.
        CHECK(local_of_others <= 10);
        CHECK(ends_with_redis(log));
    }
    CHECK_SOON(first.errors().find("Redis is down, on_store_failure decides: Redis at 127.0.0.1:" +
                                   std::to_string(world.node(0).port())) != std::string::npos);
}

TEST_CASE("redis cluster: a request of which one slot is away is decided by the others' Redis") {
    ClusterWorld world({.masters = 3});
    const Upstream upstream(ok());
    const std::string yaml =
        on(world, "") + "replicas: 1\ndeny_cache: off\n" +
        api(upstream,
            "policies: {users: {key: [user], limits: [5/h]}, open: {key: [\"header:x-open\"], "
            "limits: [1/h], on_store_failure: allow}, share: {key: [\"header:x-share\"], limits: "
            "[2/h], on_missing: skip}, hard: {key: [\"header:x-hard\"], limits: [9/h], "
            "on_missing: skip, on_store_failure: deny}}\n"
            "routes:\n"
            "  - {name: a, match: {path: /open}, upstream: api, policies: [users, open]}\n"
            "  - {name: b, match: {path: /share}, upstream: api, policies: [users, share]}\n"
            "  - {name: c, match: {path: /hard}, upstream: api, policies: [users, hard]}\n"
            "  - {name: d, match: {path: /user}, upstream: api, policies: [users]}\n");
    const Tidegate tidegate("threads: 1\n" + yaml);
    const auto users = users_on(world, 1, 3);
    // A value of a header whose identifier is on node 0.
    const auto on_lost_node = [&](const std::string& header) {
        // The identifier as the access log and the store have it: the test looks at what is stored.
        for (int i = 0;; ++i) {
            const std::string value = "v" + std::to_string(i);
            world.command_all({"FLUSHALL"});
            CHECK(tidegate.get("/" + header, as("someone") + "x-" + header + ": " + value + "\r\n")
                      .status() == 200);
            if (world.keys_like(0, "*:" + header + ":*") > 0) {
                return "x-" + header + ": " + value + "\r\n";
            }
        }
    };
    const std::string open = on_lost_node("open");
    const std::string share = on_lost_node("share");
    const std::string hard = on_lost_node("hard");
    world.command_all({"FLUSHALL"});
    world.node(0).stop();
    await("the loss is noticed",
          [&] { return tidegate.metric("tidegate_store_state{state=\"down\"}") > 0; });

    const auto ask = [&](const std::string& path, std::size_t user, const std::string& more) {
        return tidegate.get(path, as(users[user]) + more).status();
    };
    // allow: the user's own limit, as Redis counts it.
    for (int i = 0; i < 5; ++i) CHECK(ask("/open", 0, open) == 200);
    CHECK(ask("/open", 0, open) == 429);
    CHECK(ask("/user", 0, "") == 429);
    // local: denied here after two, and the user gets back the units of the denied requests.
    CHECK(ask("/share", 1, share) == 200);
    CHECK(ask("/share", 1, share) == 200);
    for (int i = 0; i < 5; ++i) CHECK(ask("/share", 1, share) == 429);
    for (int i = 0; i < 3; ++i) CHECK(ask("/user", 1, "") == 200);
    CHECK(ask("/user", 1, "") == 429);
    // deny: nothing is taken anywhere.
    for (int i = 0; i < 3; ++i) CHECK(ask("/hard", 2, hard) == 503);
    for (int i = 0; i < 5; ++i) CHECK(ask("/user", 2, "") == 200);
    CHECK(ask("/user", 2, "") == 429);
}

namespace {

// Six users, whose slots move from node to node, six times, while two proxies ask for them; then
// they ask for what is left. How often each was admitted in all, and how often that is unknown.
struct Moved {
    std::map<std::string, int> admitted;
    int unavailable = 0;
};

Moved move_under_load(const std::string& policies, const std::string& names, int quota) {
    ClusterWorld world({.masters = 3});
    const Upstream upstream(ok());
    const std::string yaml =
        on(world, kPatient) + "on_store_failure: deny\ndeny_cache: off\n" +
        api(upstream, "policies: " + policies +
                          "\nroutes: [{name: all, upstream: api, policies: " + names + "}]\n");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    const auto users = users_on(world, 0, 6);
    std::vector<std::uint16_t> slots;
    for (const std::string& user : users) slots.push_back(world.slot_of("{user:" + user + "}"));
    std::sort(slots.begin(), slots.end());
    slots.erase(std::unique(slots.begin(), slots.end()), slots.end());

    UsersLoad to_first(first.port(), 3, users);
    UsersLoad to_second(second.port(), 3, users);
    const auto pass_time = [] { std::this_thread::sleep_for(milliseconds{20}); };
    std::size_t from = 0;
    for (int round = 0; round < 6; ++round) {
        const std::size_t to = (from + 1) % 3;
        world.move_slots(slots, from, to, pass_time);
        from = to;
    }
    ByName statuses = to_first.stop();
    for (const auto& [user, counts] : to_second.stop()) {
        for (const auto& [status, count] : counts) statuses[user][status] += count;
    }
    const int unavailable = total(statuses, 503);
    MESSAGE(slots.size() << " slots moved six times under " << total(statuses) << " requests, "
                         << world.calls("asking") << " commands were asked for elsewhere, "
                         << unavailable << " requests got 503");
    CHECK(world.calls("asking") > 0);
    CHECK(total(statuses, 200) + total(statuses, 429) + unavailable == total(statuses));
    const auto rest = ask_as({first.port(), second.port()}, fields_of(users), quota);
    CHECK(total(rest, 503) == 0);
    Moved moved;
    moved.unavailable = unavailable;
    for (const std::string& user : users) {
        moved.admitted[user] = admitted_in(statuses, user) + admitted_in(rest, user);
    }
    return moved;
}

}  // namespace

TEST_CASE("redis cluster: slots move under load, and every request is counted once") {
    SUBCASE("one key for each user: nobody notices") {
        const auto moved = move_under_load("{p: {key: [user], limits: [150/h]}}", "[p]", 150);
        for (const auto& [user, admitted] : moved.admitted) CHECK(admitted == 150);
        CHECK(moved.unavailable == 0);
    }
    SUBCASE("several keys, which leave one by one: meanwhile the failure policy decides") {
        const auto moved = move_under_load(
            "{p: {key: [user], limits: [150/h]}, q: {key: [user], limits: [200/h]}}", "[p, q]",
            150);
        for (const auto& [user, admitted] : moved.admitted) CHECK(admitted == 150);
    }
    SUBCASE("several slots, of which some move: what was taken is given back wherever it is") {
        const auto moved = move_under_load(
            "{p: {key: [user], limits: [50/h]}, all: {key: [ip], limits: [100000/h]}}", "[p, all]",
            50);
        for (const auto& [user, admitted] : moved.admitted) CHECK(admitted == 50);
        CHECK(moved.unavailable == 0);
    }
}

TEST_CASE("redis cluster: nodes are added and removed under load, without a restart") {
    ClusterWorld world({.masters = 3});
    const Upstream upstream(ok());
    const std::string yaml = on(world, kPatient) + "on_store_failure: deny\ndeny_cache: off\n" +
                             one_policy(upstream, "{key: [user], limits: [150/h]}");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    const auto users = users_on(world, 0, 4);
    UsersLoad to_first(first.port(), 2, users);
    UsersLoad to_second(second.port(), 2, users);
    const std::size_t added = world.add_master();
    world.move_slots(world.slots_of(0), 0, added);
    // As long as it takes them to read the list of the nodes again.
    std::this_thread::sleep_for(milliseconds{2'500});
    world.remove(0);
    std::this_thread::sleep_for(milliseconds{500});
    ByName statuses = to_first.stop();
    for (const auto& [user, counts] : to_second.stop()) {
        for (const auto& [status, count] : counts) statuses[user][status] += count;
    }
    CHECK(total(statuses, 503) == 0);
    const auto rest = ask_as({first.port(), second.port()}, fields_of(users), 150);
    for (const std::string& user : users) {
        CAPTURE(user);
        CHECK(admitted_in(statuses, user) + admitted_in(rest, user) == 150);
    }
    for (const Tidegate* one : {&first, &second}) {
        CHECK(one->metric("tidegate_store_state{state=\"down\"}") == 0);
        CHECK(one->metric_sum("tidegate_store_failures_total") == 0);
        CHECK_MESSAGE(one->errors().find("Redis is down") == std::string::npos, one->errors());
    }
    CHECK(world.node(added).text({"DBSIZE"}) != "0");
}

TEST_CASE("redis cluster: a user of the access list with the rights that are needed, and no more") {
    // As docs/redis.md has them, and what a cluster needs besides.
    const std::string rights =
        "~tg:* -@all +script|load +select +ping +evalsha +time +mget +set +setrange +pttl +pexpire "
        "+zadd +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore +zcard +expire";
    const std::string more = " +cluster|nodes +asking";
    const auto words_of = [](const std::string& text) {
        std::istringstream in("ACL SETUSER proxy reset on >pw " + text);
        return std::vector<std::string>{std::istream_iterator<std::string>(in), {}};
    };
    ClusterWorld world({.masters = 3});
    const Upstream upstream(ok());
    const std::string yaml =
        on(world, kPatient + ", username: proxy, password: pw") + "on_store_failure: deny\n" +
        api(upstream,
            "policies: {addresses: {key: [ip], limits: [30/h, {quota: 5, algorithm: concurrency}]},"
            " users: {key: [user], limits: [{quota: 20, per: 1h, count: [404]}]}}\n"
            "routes: [{name: all, upstream: api, policies: [addresses, users]}]\n");
    world.command_all(words_of(rights));
    const std::string refusal = refusal_by_store(yaml);
    CHECK_MESSAGE(refusal.find("+cluster|nodes +asking") != std::string::npos, refusal);

    world.command_all(words_of(rights + more));
    const Tidegate tidegate(yaml);
    const auto user = users_on(world, 0, 1).front();
    for (int i = 0; i < 10; ++i) CHECK(tidegate.get("/", as(user)).status() == 200);
    world.begin_move({world.slot_of("{user:" + user + "}")}, 0, 1);
    world.command_all({"FLUSHALL"});
    for (int i = 0; i < 30; ++i) CHECK(tidegate.get("/", as(user)).status() == 200);
    CHECK(tidegate.get("/", as(user)).status() == 429);
    CHECK(world.calls("asking") > 0);
    CHECK(tidegate.metric_sum("tidegate_store_failures_total") == 0);
}

TEST_CASE("redis cluster: with a server that is no cluster's it is not ready; it says why") {
    const RedisServer redis;
    const std::string said = refusal_by_store(
        "store: {redis: {cluster: [\"redis://127.0.0.1:" + std::to_string(redis.port()) +
        "\"]}}\nreplicas: 1\n" + simple("http://127.0.0.1:1", "5/h"));
    CHECK_MESSAGE(said.find("cluster support disabled") != std::string::npos, said);
}

}  // namespace tidegate::test::redis_cluster_test
