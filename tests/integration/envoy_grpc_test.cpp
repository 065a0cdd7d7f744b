// face: envoy_grpc, as Envoy calls it: its rate limit service, external authorization, health.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "fault_proxy.hpp"
#include "free_port.hpp"
#include "integration/grpc_world.hpp"
#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::envoy_grpc_test {

using nlohmann::json;

namespace {

const std::string kRls = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const std::string kAuthz = "/envoy.service.auth.v3.Authorization/Check";
const std::string kHealth = "/grpc.health.v1.Health/Check";

constexpr std::uint64_t kOk = 1;
constexpr std::uint64_t kOverLimit = 2;

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string descriptor(const Entries& entries, const std::string& more = "") {
    std::string made;
    for (const auto& [key, value] : entries) {
        made += pb_bytes(1, pb_bytes(1, key) + pb_bytes(2, value));
    }
    return pb_bytes(2, made + more);
}

std::string request(const std::string& domain, const std::string& descriptors,
                    std::uint64_t hits = 0) {
    return pb_bytes(1, domain) + descriptors + (hits > 0 ? pb_number(3, hits) : "");
}

// hits_addend of a descriptor, and its limit.
std::string own_hits(std::uint64_t hits) {
    return pb_bytes(3, hits > 0 ? pb_number(1, hits) : "");
}
std::string own_limit(std::uint64_t requests, std::uint64_t unit) {
    return pb_bytes(2, pb_number(1, requests) + pb_number(2, unit));
}

class Service {
  public:
    // `files` of the folder `ratelimit`, and `rest` of the configuration.
    explicit Service(const std::vector<std::string>& files, const std::string& more_rls = "",
                     const std::string& rest = "")
        : port_(free_port()) {
        for (std::size_t i = 0; i < files.size(); ++i) {
            const auto path = folder_.path() / ("limits" + std::to_string(i) + ".yaml");
            std::ofstream(path) << files[i];
        }
        const std::string rls = files.empty() ? ""
                                              : "rls: {files: ['" +
                                                    (folder_.path() / "limits*.yaml").string() +
                                                    "']" + more_rls + "}\n";
        tidegate_.emplace("listen: {address: '127.0.0.1:" + std::to_string(port_) +
                          "', face: envoy_grpc}\nthreads: 1\n" + rls + rest);
    }

    std::uint16_t port() const { return port_; }
    Tidegate& tidegate() { return *tidegate_; }

    H2Answer ask(const std::string& path, const std::string& message) const {
        return H2Client(port_).ask(grpc_call(path, message));
    }
    PbMessage answer(const std::string& path, const std::string& message) const {
        const H2Answer answer = ask(path, message);
        REQUIRE(grpc_status(answer) == 0);
        return PbMessage(grpc_message(answer));
    }
    PbMessage limit(const std::string& domain, const std::string& descriptors,
                    std::uint64_t hits = 0) const {
        return answer(kRls, request(domain, descriptors, hits));
    }
    std::uint64_t code(const std::string& domain, const std::string& descriptors,
                       std::uint64_t hits = 0) const {
        return limit(domain, descriptors, hits).number(1);
    }

  private:
    TemporaryFolder folder_;
    std::uint16_t port_;
    std::optional<Tidegate> tidegate_;
};

// The statuses of an answer.
std::vector<PbMessage> statuses(const PbMessage& answer) {
    std::vector<PbMessage> all;
    for (const std::string& one : answer.all(2)) all.emplace_back(one);
    return all;
}

const std::string kExample = R"(domain: example
descriptors:
  - key: remote_address
    rate_limit: {unit: hour, requests_per_unit: 2, name: by_address}
  - key: remote_address
    value: 192.0.2.1
    rate_limit: {unlimited: true}
  - key: plan
    value: free
    descriptors:
      - key: user
        rate_limit: {unit: day, requests_per_unit: 3}
  - key: path
    value: /files/*
    share_threshold: true
    rate_limit: {unit: HOUR, requests_per_unit: 1}
  - key: whitelisted
  - key: trial
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 1}
)";

}  // namespace

TEST_CASE("envoy_grpc: a call whose deadline has passed is DEADLINE_EXCEEDED, and not charged") {
    Service service({kExample});
    const std::string asked = request("example", descriptor({{"remote_address", "203.0.113.7"}}));
    const auto late = grpc_call(kRls, asked, {{"grpc-timeout", "1n"}});
    CHECK(grpc_status(H2Client(service.port()).ask(late)) == 4);
    CHECK(statuses(service.answer(kRls, asked))[0].number(3) == 1);
    const auto lines = service.tidegate().access_log(2);
    CHECK(lines.at(0).at("error") == "decision: late");
    CHECK(lines.at(0).at("grpc_status") == 4);
    CHECK(lines.at(0).at("status") == 504);
}

TEST_CASE("envoy_grpc: ShouldRateLimit counts by the files of envoyproxy/ratelimit") {
    Service service({kExample});
    const std::string one = descriptor({{"remote_address", "203.0.113.7"}});
    const PbMessage first = service.limit("example", one);
    CHECK(first.number(1) == kOk);
    REQUIRE(statuses(first).size() == 1);
    const PbMessage status = statuses(first)[0];
    CHECK(status.number(1) == kOk);
    CHECK(status.below(2).number(1) == 2);
    CHECK(status.below(2).number(2) == 3);
    CHECK(status.below(2).bytes(3) == "by_address");
    CHECK(status.number(3) == 1);
    CHECK(status.below(4).number(1) <= 3'600);
    CHECK(service.code("example", one) == kOk);
    const PbMessage third = service.limit("example", one);
    CHECK(third.number(1) == kOverLimit);
    CHECK(statuses(third)[0].number(1) == kOverLimit);
    CHECK(statuses(third)[0].number(3) == 0);
    CHECK(json::parse(third.bytes(5))["status"] == 429);
    std::vector<std::string> fields;
    for (const std::string& field : third.all(3)) fields.push_back(PbMessage(field).bytes(1));
    CHECK(fields == std::vector<std::string>{"RateLimit-Policy", "RateLimit", "Retry-After"});
    CHECK(service.code("example", descriptor({{"remote_address", "203.0.113.8"}})) == kOk);

    const PbMessage unlimited =
        service.limit("example", descriptor({{"remote_address", "192.0.2.1"}}));
    CHECK(unlimited.number(1) == kOk);
    CHECK(statuses(unlimited)[0].number(3) == 0xffffffff);
    for (int i = 0; i < 3; ++i) {
        CHECK(service.code("example", descriptor({{"plan", "free"}, {"user", "a"}})) == kOk);
        CHECK(service.code("example", descriptor({{"plan", "free"}})) == kOk);
        CHECK(service.code("example", descriptor({{"whitelisted", "x"}})) == kOk);
        CHECK(service.code("example", descriptor({{"trial", "x"}})) == kOk);
        CHECK(service.code("other", one) == kOk);
    }
    CHECK(service.code("example", descriptor({{"plan", "free"}, {"user", "a"}})) == kOverLimit);
    CHECK(service.code("example", descriptor({{"path", "/files/a"}})) == kOk);
    CHECK(service.code("example", descriptor({{"path", "/files/b"}})) == kOverLimit);
    const auto log = service.tidegate().access_log(3);
    CHECK(log[2]["face"] == "envoy_grpc");
    CHECK(log[2]["status"] == 429);
    CHECK(log[2]["grpc_status"] == 0);
    CHECK(log[2]["outcome"] == "limited");
    CHECK(log[2]["identifiers"][0] == "descriptor:remote_address=203.0.113.7");
}

TEST_CASE("envoy_grpc: descriptors of a call are charged together or not at all") {
    const CountedIn store = either_store();
    const Service service({kExample}, "", store.yaml());
    const std::string few = descriptor({{"path", "/files/a"}});
    const std::string more = descriptor({{"remote_address", "203.0.113.7"}});
    CHECK(service.code("example", few) == kOk);
    for (int i = 0; i < 3; ++i) {
        const PbMessage refused = service.limit("example", more + few);
        CHECK(refused.number(1) == kOverLimit);
        CHECK(statuses(refused)[0].number(1) == kOk);
        CHECK(statuses(refused)[0].number(3) == 2);
        CHECK(statuses(refused)[1].number(1) == kOverLimit);
    }
    // What is left of the others is of now, also where the refusal is a remembered one.
    const std::string tenth = descriptor({{"remote_address", "203.0.113.10"}});
    const auto left_of_tenth = [&] {
        const PbMessage refused = service.limit("example", tenth + few);
        CHECK(refused.number(1) == kOverLimit);
        const std::string told = PbMessage(refused.all(3).at(1)).bytes(2);
        const auto left = statuses(refused)[0].number(3);
        CHECK_MESSAGE(told.find(";r=" + std::to_string(left)) != std::string::npos, told);
        return left;
    };
    CHECK(left_of_tenth() == 2);
    CHECK(service.code("example", tenth) == kOk);
    CHECK(left_of_tenth() == 1);
    // Hits of their own: those that were taken come back.
    for (int i = 0; i < 3; ++i) {
        CHECK(service.code("example", descriptor({{"remote_address", "203.0.113.7"}}, own_hits(2)) +
                                          few) == kOverLimit);
    }
    CHECK_SOON(statuses(service.limit(
                   "example", descriptor({{"remote_address", "203.0.113.7"}}, own_hits(0))))[0]
                   .number(3) == 2);
    CHECK(service.code("example", more, 2) == kOk);
    CHECK(service.code("example", more) == kOverLimit);
    CHECK(service.code("example", descriptor({{"remote_address", "203.0.113.7"}}, own_hits(0))) ==
          kOk);
    // The same descriptor twice counts twice.
    const std::string other = descriptor({{"remote_address", "203.0.113.9"}});
    CHECK(service.code("example", other + other + other) == kOverLimit);
    CHECK_SOON(service.code("example", other + other) == kOk);
}

TEST_CASE(
    "envoy_grpc: a descriptor that could not have paid its own cost is over in each refusal") {
    const CountedIn store = either_store();
    const Service service({R"(domain: d
descriptors:
  - {key: none, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: five, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: six, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 6}}
)"},
                          "", store.yaml());
    const auto five = [](const std::string& value, std::uint64_t hits) {
        return descriptor({{"five", value}}, own_hits(hits));
    };
    // The first refuses; the others are asked only.
    const PbMessage refused =
        service.limit("d", descriptor({{"none", "x"}}, own_hits(1)) + five("a", 6) + five("b", 5) +
                               five("c", 9) + descriptor({{"six", "x"}}, own_hits(7)));
    CHECK(refused.number(1) == kOverLimit);
    std::vector<std::uint64_t> codes;
    for (const PbMessage& one : statuses(refused)) codes.push_back(one.number(1));
    CHECK(codes == std::vector{kOverLimit, kOverLimit, kOk, kOverLimit, kOk});
    CHECK(statuses(refused)[2].number(3) == 5);
    // The first was charged, and given back: the answer says what it has again.
    const PbMessage given_back =
        service.limit("d", five("d", 3) + descriptor({{"none", "x"}}, own_hits(1)));
    CHECK(statuses(given_back)[0].number(1) == kOk);
    CHECK(statuses(given_back)[0].number(3) == 5);
    const std::string told = PbMessage(given_back.all(3).at(1)).bytes(2);
    CHECK_MESSAGE(told.find("five-1h-fixed\";r=5") != std::string::npos, told);
}

TEST_CASE("envoy_grpc: with `count: all` a charge that is refused counts all the same") {
    const CountedIn store = either_store();
    const Service service({R"(domain: budgets
descriptors:
  - {key: tenant, rate_limit: {unit: day, requests_per_unit: 5000}}
  - {key: trial, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 5000}}
  - {key: plan, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 5000}}
  - {key: mixed, rate_limits: [5000/day, {quota: 9000, per: 1h}]}
)"},
                          ", count: all", store.yaml());
    const auto left_of = [&](const std::string& charged) {
        return statuses(service.limit("budgets", charged))[0].number(3);
    };
    for (const std::string key : {"tenant", "trial", "plan", "mixed"}) {
        CAPTURE(key);
        const std::string asked = descriptor({{key, "a"}}, own_hits(0));
        CHECK(left_of(descriptor({{key, "a"}}, own_hits(4'000))) == 1'000);
        const PbMessage over = service.limit("budgets", descriptor({{key, "a"}}, own_hits(3'000)));
        CHECK(over.number(1) == (key == "trial" ? kOk : kOverLimit));
        CHECK(left_of(asked) == 0);
        // However much is counted, the count ends with its window, and does not wrap.
        for (int i = 0; i < 3; ++i) {
            service.limit("budgets", descriptor({{key, "a"}}, own_hits(4'294'967'295)));
        }
        CHECK(left_of(asked) == 0);
        if (key != "trial") CHECK(service.code("budgets", descriptor({{key, "a"}})) == kOverLimit);
    }
    // A limit that the call brings, likewise.
    const std::string brought =
        descriptor({{"tenant", "b"}}, own_limit(5'000, 4) + own_hits(4'000));
    CHECK(service.code("budgets", brought) == kOk);
    CHECK(service.code("budgets", brought) == kOverLimit);
    CHECK(left_of(descriptor({{"tenant", "b"}}, own_limit(5'000, 4) + own_hits(0))) == 0);
}

TEST_CASE("envoy_grpc: with `count: all` each descriptor counts by itself") {
    const Service service({kExample}, ", count: all");
    const std::string few = descriptor({{"path", "/files/a"}});
    const std::string more = descriptor({{"remote_address", "203.0.113.7"}});
    CHECK(service.code("example", few) == kOk);
    CHECK(service.code("example", few + more) == kOverLimit);
    CHECK(statuses(service.limit("example", more))[0].number(3) == 0);
}

TEST_CASE("envoy_grpc: a descriptor that meets no rule passes or is refused, as configured") {
    const std::string unknown = descriptor({{"nobody", "x"}});
    CHECK(Service({kExample}).code("example", unknown) == kOk);
    const Service strict({kExample}, ", unmatched: deny");
    const PbMessage refused =
        strict.limit("example", descriptor({{"remote_address", "203.0.113.7"}}) + unknown);
    CHECK(refused.number(1) == kOverLimit);
    CHECK(statuses(refused)[0].number(3) == 2);
    CHECK(strict.code("example", descriptor({{"whitelisted", "x"}})) == kOk);
}

TEST_CASE("envoy_grpc: a limit in the call applies, unless the configuration forbids it") {
    const Service service({kExample});
    const auto brought = [](std::uint64_t requests) {
        return descriptor({{"remote_address", "203.0.113.7"}}, own_limit(requests, 4));
    };
    CHECK(service.code("example", brought(1)) == kOk);
    CHECK(service.code("example", brought(1)) == kOverLimit);
    const PbMessage raised = service.limit("example", brought(5));
    CHECK(raised.number(1) == kOk);
    CHECK(statuses(raised)[0].below(2).number(1) == 5);
    CHECK(statuses(raised)[0].below(2).number(2) == 4);
    CHECK(statuses(raised)[0].number(3) == 3);
    CHECK(PbMessage(raised.all(3)[0]).bytes(2).find("q=5") != std::string::npos);
    // Twice in one call, with different numbers: one count, charged twice.
    const auto other = [](std::uint64_t requests) {
        return descriptor({{"remote_address", "203.0.113.8"}}, own_limit(requests, 4));
    };
    CHECK(service.code("example", other(5) + other(6)) == kOk);
    CHECK(statuses(service.limit("example", other(5)))[0].number(3) == 2);
    const Service own({kExample}, ", overrides: off");
    for (int i = 0; i < 2; ++i) CHECK(own.code("example", brought(0)) == kOk);
    CHECK(own.code("example", brought(100)) == kOverLimit);
}

TEST_CASE("envoy_grpc: quota_mode refuses where all such descriptors are over; replaces drops") {
    const Service service({R"(domain: d
descriptors:
  - {key: a, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: b, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
  - {key: c, rate_limit: {unit: hour, requests_per_unit: 1, name: narrow}}
  - {key: e, rate_limit: {unit: hour, requests_per_unit: 5, replaces: [{name: narrow}]}}
  - {key: f, rate_limits: [2/h, {quota: 1, per: 1min, algorithm: gcra}]}
  - {key: g, quota_mode: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
)"});
    const std::string both = descriptor({{"a", "1"}}) + descriptor({{"b", "1"}});
    CHECK(service.code("d", both) == kOk);
    const PbMessage second = service.limit("d", both);
    CHECK(second.number(1) == kOk);
    CHECK(statuses(second)[0].number(1) == kOverLimit);
    CHECK(statuses(second)[1].number(1) == kOk);
    CHECK(service.code("d", both) == kOverLimit);
    const std::string replaced = descriptor({{"c", "1"}}) + descriptor({{"e", "1"}});
    for (int i = 0; i < 3; ++i) CHECK(service.code("d", replaced) == kOk);
    CHECK(service.code("d", descriptor({{"c", "1"}})) == kOk);
    CHECK(service.code("d", descriptor({{"f", "1"}})) == kOk);
    CHECK(service.code("d", descriptor({{"f", "1"}})) == kOverLimit);
    // In shadow nothing refuses.
    for (int i = 0; i < 3; ++i) CHECK(service.code("d", descriptor({{"g", "1"}})) == kOk);
}

TEST_CASE("envoy_grpc: malformed calls have a status of gRPC that says so") {
    const Service service({kExample});
    const std::string good = request("example", descriptor({{"remote_address", "a"}}));
    CHECK(grpc_status(service.ask(kRls, "")) == 3);
    CHECK(grpc_status(service.ask(kRls, request("", descriptor({{"a", "b"}})))) == 3);
    CHECK(grpc_status(service.ask(kRls, request("example", ""))) == 3);
    CHECK(grpc_status(service.ask(kRls, "\xff\xff")) == 3);
    std::string many;
    for (int i = 0; i < 65; ++i) many += descriptor({{"a", "b"}});
    CHECK(grpc_status(service.ask(kRls, request("example", many))) == 3);
    // A field of a head that Envoy takes, in two descriptors.
    const std::string large(60'000, 'x');
    CHECK(grpc_status(service.ask(kRls, request("example", descriptor({{"a", large}}) +
                                                               descriptor({{"b", large}})))) == 0);
    CHECK(grpc_status(service.ask(kRls, std::string(270'000, 'x'))) == 8);
    CHECK(grpc_status(service.ask("/a.B/C", good)) == 12);
    H2Request compressed = grpc_call(kRls, good);
    compressed.body = grpc_frame(good, 1);
    CHECK(grpc_status(H2Client(service.port()).ask(compressed)) == 12);
    H2Request cut = grpc_call(kRls, good);
    cut.body.pop_back();
    CHECK(grpc_status(H2Client(service.port()).ask(cut)) == 3);
    CHECK(H2Client(service.port()).get(kRls).status() == 415);
    CHECK(grpc_status(Service({}, "", "limits: [1/h]\n").ask(kRls, good)) == 12);
    // Many calls on one connection.
    H2Client client(service.port());
    std::vector<int> streams;
    for (int i = 0; i < 300; ++i) streams.push_back(client.begin(grpc_call(kRls, good)));
    for (const int stream : streams) CHECK(grpc_status(client.answer(stream)) == 0);
}

TEST_CASE("envoy_grpc: the health service reports the services") {
    const Service service({kExample});
    CHECK(service.answer(kHealth, "").number(1) == 1);
    CHECK(service.answer(kHealth, pb_bytes(1, "envoy.service.auth.v3.Authorization")).number(1) ==
          1);
    CHECK(grpc_status(service.ask(kHealth, pb_bytes(1, "another"))) == 5);
    CHECK(grpc_status(service.ask("/grpc.health.v1.Health/Watch", "")) == 12);
}

namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

std::string check_request(const std::string& path, const Fields& fields,
                          const std::string& source = "203.0.113.9",
                          const std::string& method = "GET", const std::string& more = "") {
    std::string http = pb_bytes(2, method) + pb_bytes(4, path) + pb_bytes(5, "app.example") +
                       pb_bytes(6, "https") + more;
    for (const auto& [name, value] : fields) {
        http += pb_bytes(3, pb_bytes(1, name) + pb_bytes(2, value));
    }
    const std::string peer = pb_bytes(1, pb_bytes(1, pb_bytes(2, source) + pb_number(3, 1234)));
    return pb_bytes(1, pb_bytes(1, peer) + pb_bytes(4, pb_bytes(2, http)));
}

// Name and value of each HeaderValueOption.
Fields fields_of(const PbMessage& message, unsigned id) {
    Fields found;
    for (const std::string& one : message.all(id)) {
        const PbMessage option(one);
        CHECK(option.number(3) == 2);  // it takes the place of what is there
        found.emplace_back(option.below(1).bytes(1), option.below(1).bytes(2));
    }
    return found;
}

std::string value_in(const Fields& fields, const std::string& name) {
    for (const auto& [one, value] : fields) {
        if (one == name) return value;
    }
    return "";
}

const std::string kRoutes = R"(identity:
  user: [{header: {name: x-user, from: trusted_proxies}}]
  client_ip: {trusted_proxies: [127.0.0.0/8]}
  forward_as: {user: x-auth-user, client_ip: x-real-ip}
policies: {few: {key: [ip], limits: [2/h]}}
routes:
  - {match: {path: "/few/**"}, policies: [few]}
  - {match: {path: /user}, policies: [], identity: required}
)";

}  // namespace

TEST_CASE("envoy_grpc: Check decides about the client's request as a proxy would") {
    Service service({}, "", kRoutes);
    const auto ask = [&](const std::string& path, const Fields& fields = {}) {
        return service.answer(kAuthz, check_request(path, fields));
    };
    const PbMessage admitted = ask("/few/x?q=1", {{":path", "/other"}, {"x-user", "alice"}});
    CHECK(admitted.below(1).number(1) == 0);
    const PbMessage ok = admitted.below(3);
    CHECK(value_in(fields_of(ok, 2), "x-auth-user") == "alice");
    CHECK(value_in(fields_of(ok, 2), "x-real-ip") == "203.0.113.9");
    // Where routes have paths, fields that name another target: always, as Envoy may not show them.
    const std::vector<std::string> targets{"x-original-url", "x-rewrite-url"};
    CHECK(ok.all(5) == targets);
    CHECK_FALSE(value_in(fields_of(ok, 6), "RateLimit").empty());
    // No user is known: the field that the client wrote is removed.
    std::vector<std::string> removed = targets;
    removed.emplace_back("x-auth-user");
    CHECK(ask("/few/x").below(3).all(5) == removed);

    const PbMessage refused = ask("/few/x");
    CHECK(refused.below(1).number(1) == 8);
    const PbMessage denied = refused.below(2);
    CHECK(denied.below(1).number(1) == 429);
    CHECK(json::parse(denied.bytes(3))["status"] == 429);
    CHECK_FALSE(value_in(fields_of(denied, 2), "Retry-After").empty());
    CHECK(value_in(fields_of(denied, 2), "Content-Type") == "application/problem+json");
    // The chain of addresses names another client.
    CHECK(ask("/few/x", {{"x-forwarded-for", "198.51.100.1"}}).below(1).number(1) == 0);
    CHECK(ask("/user").below(2).below(1).number(1) == 401);
    CHECK(ask("/none").below(2).below(1).number(1) == 404);
    CHECK(ask("/few/%2e%zz").below(2).below(1).number(1) == 400);
    const auto log = service.tidegate().access_log(3);
    CHECK(log[2]["path"] == "/few/x");
    CHECK(log[2]["host"] == "app.example");
    CHECK(log[2]["status"] == 429);
}

TEST_CASE("envoy_grpc: Check refuses the methods that the proxy refuses") {
    const Service service({}, "", kRoutes);
    for (const std::string method : {"TRACE", "trace", "CONNECT"}) {
        CAPTURE(method);
        const PbMessage answer =
            service.answer(kAuthz, check_request("/few/x", {}, "203.0.113.9", method));
        CHECK(answer.below(2).below(1).number(1) == 501);
    }
}

TEST_CASE("envoy_grpc: Check takes no OPTIONS with a body or credentials for a preflight") {
    const Service service({}, "", kRoutes + "response: {cors: {origins: ['https://a.test']}}\n");
    constexpr unsigned kSize = 9;
    const auto admits = [&](const std::string& source, const Fields& more,
                            const std::string& told = "") {
        Fields fields{{"origin", "https://b.test"}, {"access-control-request-method", "PUT"}};
        fields.insert(fields.end(), more.begin(), more.end());
        const auto ask = [&] {
            const std::string call = check_request("/few/x", fields, source, "OPTIONS", told);
            return service.answer(kAuthz, call).below(1).number(1) == 0;
        };
        return ask() && ask() && ask();  // the quota of `few` is 2
    };
    CHECK(admits("192.0.2.1", {}));
    CHECK(admits("192.0.2.2", {{"content-length", "0"}}));
    CHECK_FALSE(admits("192.0.2.3", {{"content-length", "7"}}));
    CHECK_FALSE(admits("192.0.2.4", {{"transfer-encoding", "chunked"}}));
    CHECK_FALSE(admits("192.0.2.5", {}, pb_number(kSize, 7)));
    CHECK_FALSE(admits("192.0.2.6", {{"authorization", "Basic YTpi"}}));
    CHECK_FALSE(admits("192.0.2.7", {{"cookie", "a=b"}}));
    CHECK_FALSE(admits("192.0.2.8", {{"x-user", "alice"}}));
}

TEST_CASE(
    "envoy_grpc: a store that hangs has `on_store_failure` decide before the caller gives up") {
    const CountedIn counted = counted_in_redis();
    FaultProxy network(counted.redis->port());
    const auto store = [&](const std::string& on_store_failure) {
        return "replicas: 1\non_store_failure: " + on_store_failure +
               "\nstore: {redis: {url: 'redis://127.0.0.1:" + std::to_string(network.port()) +
               "', timeout: 5s}}\n";
    };
    const std::string asked = request("example", descriptor({{"remote_address", "203.0.113.7"}}) +
                                                     descriptor({{"path", "/files/a"}}));
    const std::string check = check_request("/few/x", {});
    // A busy machine may miss the two milliseconds: not always.
    const auto await_status = [&](const Service& service, const std::string& path,
                                  const std::string& message, int status) {
        const auto call = grpc_call(path, message, {{"grpc-timeout", "60m"}});
        await("it is decided without the store",
              [&] { return grpc_status(H2Client(service.port()).ask(call)) == status; });
    };
    Service local({kExample}, "", store("local"));
    Service each({kExample}, ", count: all", store("local"));
    Service closed({kExample}, "", store("deny"));
    Service authz({}, "", store("local") + kRoutes);
    Service closed_authz({}, "", store("deny") + kRoutes);
    for (Service* const one : {&local, &each, &closed}) {
        CHECK(one->code("example", descriptor({{"whitelisted", "x"}})) == kOk);
    }
    CHECK(grpc_status(authz.ask(kAuthz, check)) == 0);
    network.swallow();
    constexpr int kUnavailable = 14;
    await_status(local, kRls, asked, 0);
    await_status(each, kRls, asked, 0);
    await_status(closed, kRls, asked, kUnavailable);
    await_status(authz, kAuthz, check, 0);
    const auto call = grpc_call(kAuthz, check, {{"grpc-timeout", "60m"}});
    await("the client is told that the store is down", [&] {
        const H2Answer answer = H2Client(closed_authz.port()).ask(call);
        return grpc_status(answer) == 0 &&
               PbMessage(grpc_message(answer)).below(2).below(1).number(1) == 503;
    });
}

TEST_CASE("envoy_grpc: a call cannot smuggle lines into the request that it is about") {
    const Service service({}, "", kRoutes);
    const auto status = [&](const std::string& path, const Fields& fields) {
        return grpc_status(service.ask(kAuthz, check_request(path, fields)));
    };
    CHECK(status("/few/x", {{"a", "b\r\nX-User: root"}}) == 3);
    CHECK(status("/few/x", {{"a: b\r\nx-user", "root"}}) == 3);
    CHECK(status("/few/x HTTP/1.1\r\nX-User: root\r\n\r\n", {}) == 3);
    CHECK(status("", {}) == 3);
    CHECK(grpc_status(service.ask(kAuthz, pb_bytes(1, ""))) == 3);
    CHECK(status("/few/x", {{"content-length", "7"}, {"transfer-encoding", "gzip"}}) == 0);
}

TEST_CASE("envoy_grpc: Check has Envoy remove fields that override the method, in any spelling") {
    const Service service({}, "",
                          "routes:\n  - {match: {methods: [DELETE]}, policies: []}\n"
                          "  - {policies: []}\n");
    const PbMessage admitted =
        service.answer(kAuthz, check_request("/", {{"x-http-method-override", "DELETE"},
                                                   {"x_http_method", "DELETE"},
                                                   {"x-original-url", "/x"}}));
    CHECK(admitted.below(1).number(1) == 0);
    CHECK(admitted.below(3).all(5) == std::vector<std::string>{"x-http-method-override",
                                                               "x-http-method", "x-method-override",
                                                               "x_http_method"});
}

TEST_CASE("envoy_grpc: inspect shows the counts of a descriptor, and a reset clears them") {
    const CountedIn counted_in = either_store();
    Service service({"domain: a/b\ndescriptors:\n  - key: path\n    descriptors:\n"
                     "      - key: user\n        rate_limit: {unit: day, requests_per_unit: 2}\n"
                     "        rate_limits: [90/day]\n"},
                    "", counted_in.yaml());
    const std::string call = descriptor({{"path", "/cart"}, {"user", "Zo\xc3\xab=%"}});
    const auto asked = [&](const std::string& command, const std::string& identifier) {
        return run_tidegate({command, identifier, "--json", "--admin",
                             "127.0.0.1:" + std::to_string(service.tidegate().admin_port())});
    };
    const std::string name = "descriptor:a%2Fb/path=%2Fcart/user=Zo\xc3\xab=%25";
    CHECK(asked("inspect", name).code == 1);
    CHECK(service.code("a/b", call) == kOk);
    CHECK(service.code("a/b", call) == kOk);
    CHECK(service.code("a/b", call) == kOverLimit);

    const Finished shown = asked("inspect", name);
    CAPTURE(shown.errors);
    REQUIRE(shown.code == 0);
    const json answer = json::parse(shown.output);
    CHECK(answer["store"] == counted_in.name());
    const std::string logged = service.tidegate().access_log(1)[0]["identifiers"][0];
    REQUIRE(answer["identifiers"].size() == 1);
    CHECK(answer["identifiers"][0]["identifier"] == logged);
    const json& limits = answer["identifiers"][0]["policies"][0]["limits"];
    REQUIRE(limits.size() == 2);
    CHECK(limits[0]["counted"] == 2);
    CHECK(limits[0]["quota"] == 2);
    CHECK(limits[0]["denied"] == true);
    CHECK(limits[1]["quota"] == 90);
    // As the log has it, it is the same.
    const json same = json::parse(asked("inspect", logged).output);
    CHECK(same["identifiers"][0]["identifier"] == logged);
    CHECK(same["identifiers"][0]["policies"][0]["limits"][0]["counted"] == 2);

    CHECK(asked("reset", name).code == 0);
    CHECK(asked("reset", name).code == 1);
    CHECK(service.code("a/b", call) == kOk);
    // A limit that a call brings has a count of its own, which is reset, too.
    const auto brought = [] {
        return descriptor({{"path", "/cart"}, {"user", "b"}}, own_limit(1, 4));
    };
    CHECK(service.code("a/b", brought()) == kOk);
    CHECK(service.code("a/b", brought()) == kOverLimit);
    const std::string by_call = "descriptor:a%2Fb/path=%2Fcart/user=b";
    const json of_call = json::parse(asked("inspect", by_call).output);
    CHECK(of_call["counted"] == true);
    CHECK(asked("reset", by_call).code == 0);
    CHECK(service.code("a/b", brought()) == kOk);

    const Finished unknown = asked("inspect", "descriptor:a%2Fc/path=x");
    CHECK(unknown.code == 2);
    CHECK(unknown.errors.find("Did you mean `a/b`?") != std::string::npos);
}

}  // namespace tidegate::test::envoy_grpc_test
