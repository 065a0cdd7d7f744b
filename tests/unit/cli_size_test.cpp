#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "cli/size.hpp"
#include "config/config.hpp"

namespace tidegate::cli::size_test {
namespace {

// Round figures, so that sums can be done by head.
const SizeCosts kCosts{
    .proxied = 10,
    .asked = 4,
    .log_line = 1,
    .tls_request = 3,
    .body_kib = 0.5,
    .connection = 50,
    .handshake = 200,
    .resumption = 100,
    .in_process = {1, 0.5, 0.25},
    .asks = {2, 0.5, 0.25},
    .asks_alone = {5, 0.5, 0.25},
    .asks_cluster = {6, 0.5, 0.25},
    .wake = 30,
    .wake_redis = 40,
    .shared = {2, 1, 0.5},
    .alone = {10, 1, 0.5},
    .cluster = {12, 1, 0.5},
    .redis_wake = 20,
    .second_command = 8,
    .redis_bytes = {100, 50, 10},
    .process_bytes = 1'000'000,
    .thread_bytes = 100'000,
    .connection_bytes = 1'000,
    .tls_connection_bytes = 15'000,
    .http2_connection_bytes = 25'000,
    .request_bytes = 5'000,
    .redis_key_bytes = 100,
    .memory_state_bytes = 200,
};

const std::string kRedis = "store: {redis: {url: 'redis://127.0.0.1:6379'}}\n";
const std::string kCluster = "store: {redis: {cluster: ['redis://127.0.0.1:6379']}}\n";
const std::string kWindow = "policies: {one: {key: [ip], limits: [100/min]}}\n";

// A proxy with one route `all` that has the policies `names`, which `policies` defines.
std::string proxy(const std::string& store, const std::string& policies,
                  const std::string& names = "one") {
    return "log: {access: off}\nupstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n" + store +
           policies + "routes: [{name: all, match: {path: '/**'}, upstream: api, policies: [" +
           names + "]}]\n";
}

std::shared_ptr<const config::Config> read(const std::string& yaml) {
    const auto loaded = config::load_text(yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return loaded.config;
}

// Without bodies, over connections that never end.
SizeQuestion at(double requests) {
    SizeQuestion question{.requests = requests};
    question.body_bytes = 0;
    question.requests_a_connection = 1e12;
    return question;
}

Estimate sized(const std::string& yaml, const SizeQuestion& question) {
    const auto estimate = estimate_size(*read(yaml), question, kCosts);
    if (!estimate) FAIL(estimate.error());
    return *estimate;
}

std::string fault_of(const std::string& yaml, const SizeQuestion& question) {
    const auto estimate = estimate_size(*read(yaml), question, kCosts);
    REQUIRE_FALSE(estimate.has_value());
    return estimate.error();
}

bool notes(const Estimate& made, std::string_view part, bool is_fault = false) {
    for (const SizeNote& note : made.notes) {
        if (note.is_fault == is_fault && note.text.find(part) != note.text.npos) return true;
    }
    return false;
}

doctest::Approx near(double value) {
    return doctest::Approx(value).epsilon(0.0001);
}

}  // namespace

TEST_CASE("size: a request costs what its parts cost, and cores have room") {
    const Estimate made = sized(proxy("", "policies: {}\n", ""), at(60'000));
    CHECK(made.proxy_us() == near(10));
    // 60,000 x 10 us are 0.6 cores, which is what is planned of one.
    CHECK(made.cores == near(1));
    CHECK(made.instances == 1);
    CHECK(made.threads == 1);
    CHECK_FALSE(made.redis);
}

TEST_CASE("size: instances have at most so many threads, and share them evenly") {
    SizeQuestion question = at(600'000);  // 10 cores
    question.threads = 4;
    const Estimate made = sized(proxy("", "policies: {}\n", ""), question);
    CHECK(made.instances == 3);
    CHECK(made.threads == 4);
    const Estimate configured =
        sized("threads: 2\n" + proxy("", "policies: {}\n", ""), at(600'000));
    CHECK(configured.instances == 5);
    CHECK(configured.threads == 2);
}

TEST_CASE("size: bodies, TLS, new connections and log lines are added") {
    SizeQuestion question = at(1'000);
    question.body_bytes = 4'096;
    question.requests_a_connection = 10;
    question.resumed = 0.25;
    question.tls = true;
    std::string yaml = proxy("", "policies: {}\n", "");
    yaml.replace(yaml.find("access: off"), 11, "access: {path: x.log}");
    const Estimate made = sized(yaml, question);
    CHECK(made.transport_us == near(12));
    CHECK(made.connection_us == near(5));
    CHECK(made.tls_us == near(3 + (0.25 * 100 + 0.75 * 200) / 10));
    CHECK(made.log_us == near(1));
}

TEST_CASE("size: a thread that sleeps between requests uses more than its part at full load") {
    // used = rate x (10 + 30 x (1 - used)): at 10,000 requests a second on one thread.
    const Estimate made = sized(proxy("", "policies: {}\n", ""), at(10'000));
    CHECK(made.shown == near(0.01 * 40 / 1.3));
    // Redis, and each primary of a cluster, which gets two commands a request, follow that, too.
    const Estimate one = sized(proxy(kRedis, kWindow), at(10'000));
    CHECK(one.redis->shown == near(0.01 * 23.5 / 1.2));
    const Estimate cluster = sized(
        proxy(kCluster, "policies: {one: {key: [ip, 'header:x-a'], limits: [9/s]}}\n"), at(30'000));
    CHECK(cluster.redis->shown == near(3 * 0.01 * (27 + 40) / 1.4));
}

TEST_CASE("size: a decision costs by its identifiers and their limits") {
    const std::string policies =
        "policies:\n"
        "  one: {key: [ip], limits: [100/min]}\n"
        "  three: {key: [ip, 'header:x-a'], limits: [1/s, 100/min, 1000/h]}\n";
    const Estimate memory = sized(proxy("", policies, "one, three"), at(1'000));
    CHECK(memory.states == 3);
    CHECK(memory.limits == 7);
    CHECK(memory.decision_us == near(1 + 3 * 0.5 + 7 * 0.25));
    const Estimate redis = sized(proxy(kRedis, policies, "one, three"), at(1'000));
    CHECK(redis.decision_us == near(2 + 3 * 0.5 + 7 * 0.25));
    REQUIRE(redis.redis);
    CHECK(redis.redis->us == near(2 + 3 + 7 * 0.5));
    CHECK(redis.redis->primaries == 0);
    CHECK(redis.redis->one_serves == near(600'000 / 8.5));
    REQUIRE(redis.policies.size() == 2);
    CHECK(redis.policies[1].identifiers == 2);
    CHECK(redis.policies[1].limits == 3);
    CHECK(redis.policies[1].redis_us == near(2 + 3));
}

TEST_CASE("size: a tier with more limits is what counts") {
    const Estimate made = sized(
        proxy(kRedis, "policies: {one: {key: [ip], limits: [1/s], tiers: {pro: [2/s, 9/min]}}}\n"),
        at(1'000));
    CHECK(made.limits == 2);
}

TEST_CASE("size: in a cluster, each identifier has a command of its own") {
    const std::string policies =
        "policies:\n"
        "  one: {key: [ip], limits: [100/min]}\n"
        "  same: {key: [ip], limits: [1/s]}\n"
        "  other: {key: ['header:x-a'], limits: [1/s]}\n";
    const Estimate made = sized(proxy(kCluster, policies, "one, same, other"), at(1'000));
    REQUIRE(made.redis);
    // Two slots: `one` and `same` count the same identifier.
    CHECK(made.redis->us == near(2 * 12 + 3 * 1 + 3 * 0.5));
    CHECK(made.redis->primaries == 3);
    CHECK(made.decision_us == near(2 * 6 + 3 * 0.5 + 3 * 0.25));
}

TEST_CASE("size: where one Redis ends, it says how many primaries a cluster needs") {
    // One Redis: 3.5 us. Cluster: 13.5 us.
    const Estimate fits = sized(proxy(kRedis, kWindow), at(170'000));
    CHECK(fits.redis->primaries == 0);
    const Estimate made = sized(proxy(kRedis, kWindow), at(200'000));
    CHECK(made.redis->primaries == 5);  // 200,000 x 13.5 us / 0.6
    CHECK(notes(made, "write `cluster` with 5 primaries"));
    CHECK(made.has_answer());
}

TEST_CASE("size: decisions that cannot share a command cost more, and it says why") {
    const auto alone = [](const std::string& policy, const std::string& key = "ip") {
        const Estimate made = sized(
            proxy(kRedis, "policies: {one: {key: [" + key + "], " + policy + "}}\n"), at(1'000));
        return made.redis->alone;
    };
    CHECK(alone("limits: [100/min]") == "");
    CHECK(alone("limits: [100/min], mode: shadow") == "`one` is in shadow");
    CHECK(alone("limits: [{quota: 9, per: 1h, algorithm: gcra}]") == "`one` has `gcra`");
    CHECK(alone("limits: [{quota: 9, per: 1h, count: all}]") == "`one` has a limit with `count`");
    CHECK(alone("limits: [9/s]", "ip, 'header:x-a', 'header:x-b', 'header:x-c', 'header:x-d'") ==
          "a request has more than 4 identifiers");
    // Requests that count the same identifiers share it all the same.
    CHECK(alone("limits: [{quota: 9, per: 1h, algorithm: gcra}]", "'constant:all'") == "");
    const Estimate made =
        sized(proxy(kRedis,
                    "policies: {one: {key: [ip], limits: [{quota: 9, algorithm: concurrency}]}}\n"),
              at(1'000));
    CHECK(made.redis->us == near(10 + 1 + 0.5 + 8));  // and the end gives the slot back
}

TEST_CASE("size: one key of all requests is one primary's, and there is an end to that") {
    const std::string policies =
        "policies:\n"
        "  one: {key: [ip], limits: [100/min]}\n"
        "  global: {key: ['constant:all'], limits: [9999/s]}\n";
    const std::string yaml = proxy(kCluster, policies, "one, global");
    const Estimate fits = sized(yaml, at(40'000));
    CHECK(fits.has_answer());
    CHECK(fits.redis->hot_requests_max == near(600'000 / 13.5));
    const Estimate made = sized(yaml, at(50'000));
    CHECK_FALSE(made.has_answer());
    CHECK(notes(made, "no answer above 44444 requests a second", true));
    CHECK(notes(made, "`constant:all` is one key for all", true));
    CHECK(doc_of(made, at(50'000)).exit_code == 1);
}

TEST_CASE("size: a key of all requests costs Redis a batch for many requests where it has leases") {
    const auto policies = [](const std::string& limit, const std::string& more) {
        return "policies: {one: {key: ['constant:all'], limits: [" + limit + "]" + more + "}}\n";
    };
    const Estimate without = sized(proxy(kRedis, policies("1000000/s", "")), at(80'000));
    CHECK(without.redis->us == near(2 + 1 + 0.5));
    const Estimate made = sized(proxy(kRedis, policies("1000000/s", ", lease: auto")), at(80'000));
    // Two threads (80,000 x 12.75 us / 0.6) have 800 requests each in a sub-bucket of 20 ms.
    CHECK(made.instances * made.threads == 2);
    const double share = 2.0 / 800;
    CHECK(made.redis->us == near(share * (10 + 1 + 0.5)));
    CHECK(made.policies[0].redis_us == near(share * 1.5));
    CHECK(made.redis_bytes == near(80'000 * share * 160));
    CHECK(made.decision_us == without.decision_us);
    CHECK(notes(made, "with batches of up to 5000 units and 2 commands for each"));
    CHECK(made.has_answer());
    // Batches of five units.
    const Estimate few = sized(proxy(kRedis, policies("1000/s", ", lease: auto")), at(80'000));
    CHECK(few.redis->us == near(2.0 / 5 * 11.5));
    // In longer windows what is left of batches is given back.
    const Estimate minute =
        sized(proxy(kRedis, policies("60000000/min", ", lease: auto")), at(80'000));
    CHECK(minute.redis->us == near(4.0 / 40'000 * 11.5));
    CHECK(notes(minute, "and 4 commands for each"));
    const Estimate small = sized(proxy(kRedis, policies("1000/min", ", lease: auto")), at(80'000));
    CHECK(small.redis->us == near(2.0 / 5 * 11.5));
    // Where a thread has few requests, or its batch would be one unit, there are no leases.
    const Estimate cold = sized(proxy(kRedis, policies("1000000/s", ", lease: auto")), at(199));
    CHECK(cold.redis->us == near(3.5));
    const Estimate one = sized(proxy(kRedis, policies("300/s", ", lease: auto")), at(80'000));
    CHECK(one.redis->us == near(3.5));
    // In a cluster the other identifiers are all that is asked about.
    const Estimate cluster =
        sized(proxy(kCluster,
                    "policies:\n  one: {key: [ip], limits: [100/min]}\n"
                    "  global: {key: ['constant:all'], limits: [1000000/s], lease: auto}\n",
                    "one, global"),
              at(80'000));
    CHECK(cluster.has_answer());
    CHECK(cluster.redis->us > 13.5);
    CHECK(cluster.redis->us < 13.6);
    CHECK(cluster.redis->hot_requests_max > 1'000'000);
}

TEST_CASE("size: an absurd rate has no answer of one cluster") {
    const Estimate made = sized(proxy(kRedis, kWindow), at(100'000'000));
    CHECK_FALSE(made.has_answer());
    CHECK(notes(made, "are more than the 1000", true));
}

TEST_CASE("size: memory of Redis grows with identifiers, and not with keys of all") {
    SizeQuestion question = at(1);
    question.identifiers = 1'000'000;
    const Estimate made = sized(proxy(kRedis, kWindow), question);
    CHECK(made.redis->memory_bytes == near(1e6 * (100 + 16 + 33)));
    const Estimate bucket =
        sized(proxy(kRedis,
                    "policies: {one: {key: ['constant:x'], limits: [{quota: 9, per: 1h, "
                    "algorithm: gcra}]}}\n"),
              question);
    CHECK(bucket.redis->memory_bytes == near(100 + 16 + 33));
}

TEST_CASE("size: identifiers that are busy use all sub-buckets of their windows") {
    SizeQuestion question = at(1'000'000);
    question.identifiers = 10;
    // 60 sub-buckets of 6 bytes, the newest for nothing.
    const Estimate made =
        sized(proxy(kRedis, "policies: {one: {key: [ip], limits: [1000000/min]}}\n"), question);
    CHECK(made.policies[0].state_bytes == near(100 + 16 + 33 + 6 * 60));
}

TEST_CASE("size: the store in process counts by itself, and says so") {
    SizeQuestion question = at(600'000);
    question.identifiers = 2'000'000;
    const Estimate made = sized(proxy("", kWindow), question);
    CHECK_FALSE(made.redis);
    CHECK(notes(made, "each of 2 instances counts by itself"));
    CHECK(notes(made, "`max_keys` is 1000000"));
    CHECK(made.memory_store_bytes <= 1e6 * 400);
    CHECK(doc_of(made, question).text().find("`store: memory` counts in process") !=
          std::string::npos);
}

TEST_CASE("size: memory and open files follow connections and requests in flight") {
    SizeQuestion question = at(1'000);
    question.connections = 10'000;
    question.response = std::chrono::milliseconds{100};
    const Estimate made = sized(proxy("", "policies: {}\n", ""), question);
    CHECK(made.in_flight == 100);
    CHECK(made.memory_bytes == near(1'000'000 + 100'000 + 10'000 * 1'000 + 100 * 5'000));
    CHECK(made.open_files > 10'100);
    question.tls = true;
    CHECK(sized(proxy("", "policies: {}\n", ""), question).memory_bytes ==
          near(1'000'000 + 100'000 + 10'000 * 15'000 + 100 * 5'000));
}

TEST_CASE("size: bounds of the configuration that are in the way are named") {
    SizeQuestion question = at(100'000);
    question.connections = 1'000'000;
    const Estimate made = sized(proxy("", "policies: {}\n", ""), question);
    CHECK(notes(made, "`max_connections` is 512"));
    CHECK(notes(made, "`max` is 20000"));
}

TEST_CASE("size: a question of a gateway is not forwarded") {
    const Estimate made = sized(
        "log: {access: off}\nlisten: {address: 127.0.0.1:8181, face: forward_auth, dialect: "
        "nginx}\n" +
            kWindow + "routes: [{name: all, policies: [one]}]\n",
        at(1'000));
    CHECK(made.transport_us == near(4));
    CHECK(made.upstream_bytes == 0);
    CHECK(made.in_flight == 0);
}

TEST_CASE("size: the route that costs most counts, or the one that is named") {
    const std::string yaml =
        "log: {access: off}\nupstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n" + kWindow +
        "routes:\n"
        "  - {name: free, match: {path: /free}, upstream: api, policies: []}\n"
        "  - {name: dear, match: {path: '/**'}, upstream: api, policies: [one]}\n";
    CHECK(sized(yaml, at(1)).route == "dear");
    SizeQuestion question = at(1);
    question.route = "free";
    CHECK(sized(yaml, question).decision_us == 0);
    question.route = "fre";
    CHECK(fault_of(yaml, question) == "test.yaml has no route `fre`; did you mean `free`?");
}

TEST_CASE("size: a configuration without routes has no requests to estimate") {
    const std::string fault =
        fault_of("listen: {address: 127.0.0.1:8181, face: check}\n" + kWindow, at(1));
    CHECK(fault.find("has no `routes`") != std::string::npos);
    CHECK(fault.find("Write a route with the policies") != std::string::npos);
}

TEST_CASE("size: numbers are written with k and M") {
    CHECK(*parse_count("3000", 1e8) == 3'000);
    CHECK(*parse_count("200k", 1e8) == 200'000);
    CHECK(*parse_count("1.5M", 1e8) == 1'500'000);
    for (const std::string_view text : {"", "k", "-1", "1e6", "2G", "200kk", "1,000", " 1"}) {
        CAPTURE(text);
        CHECK(parse_count(text, 1e8).error().find("is not a number") != std::string::npos);
    }
    CHECK(parse_count("0", 1e8).error() == "`0` is below 1");
    CHECK(parse_count("101M", 1e8).error() == "`101M` is above 100000000");
}

TEST_CASE("size: programs get what people read") {
    const SizeQuestion question = at(200'000);
    const Doc doc = doc_of(sized(proxy(kRedis, kWindow), question), question);
    CHECK(doc.exit_code == 0);
    CHECK(doc.json["answer"] == true);
    CHECK(doc.json["redis"]["primaries"] == 5);
    CHECK(doc.json["policies"][0]["name"] == "one");
    CHECK(doc.text().find("5 primaries") != std::string::npos);
    CHECK(doc.text().find("200,000/s") != std::string::npos);
}

TEST_CASE("size: the table of the document has a row for each rate and decision") {
    const std::string table = size_table();
    CHECK(std::count(table.begin(), table.end(), '\n') == 2 + 4 * 5);
    CHECK(table.find("| 1,000,000 | 2 x 3 |") != std::string::npos);
}

}  // namespace tidegate::cli::size_test
