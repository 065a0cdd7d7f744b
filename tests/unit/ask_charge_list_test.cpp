// Which identifiers, limits, cost and moment a request is charged with.
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "ask/identifiers.hpp"
#include "identity/identifier.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::charge_list_test {

using namespace std::chrono_literals;
using limit::Micros;
using Decided = store::LimitDecision::Result;

namespace {

const std::string kTrusting =
    "identity: {client_ip: {trusted_proxies: [203.0.113.0/24], ipv6_prefix: [64, 128]},"
    " user: [{header: {name: x-user-id, from: trusted_proxies}}]}\n";
const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";

// One route, `/{id}/**` but for the last slash, named `all`, with these policies and more.
std::string with(const std::string& policies, const std::string& route = "") {
    return "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\npolicies:\n" + policies +
           "routes: [{name: all, match: {path: \"/{id}\"}, policies: [p]" + route + "}]\n" +
           kTrusting;
}

std::string with_key(const std::string& key, const std::string& more = "") {
    return with("  p: {key: [" + key + "], limits: [10/s]" + more + "}\n");
}

std::string request_for(const std::string& target, const std::string& fields = "") {
    return "GET " + target + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

// The identifiers of a request, or the name of its fault.
std::string counted(World& world, const std::string& head, bool trusted = false,
                    const std::string& peer = "203.0.113.7") {
    Request request(world, head, trusted, peer);
    const Fault fault = request.decide();
    if (fault == Fault::none) return request.identifiers();
    CHECK(request.decision.charge.items.empty());
    return std::string(traits(fault).name);
}

constexpr const char* kNobody = "client: nobody";
constexpr const char* kAmbiguous = "client: ambiguous name";

}  // namespace

TEST_CASE("charge_list: a key counts what it names") {
    World world(with_key("\"header:X-Tenant\", \"query:q\", \"path:id\", route, \"constant:all\""));
    CHECK(counted(world, request_for("/7?q=a%20b", "x-TENANT: acme\r\n")) ==
          "p=header:x-tenant=acme p=query:q=a b p=path:id=7 p=route:all p=constant:all ");
}

TEST_CASE("charge_list: an identifier says whether it is one client's or shared") {
    World world(
        with_key("\"ip+route\", \"user|constant:anonymous\", \"header:x-api-key\", "
                 "\"query:token\", \"cookie:sid\", \"header:x-tenant\", \"query:q\", "
                 "route, \"constant:all\", host, method, \"path:id\""));
    const auto of_client = [&](const std::string& head, bool trusted) {
        Request request(world, head, trusted, "203.0.113.7");
        REQUIRE(request.decide() == Fault::none);
        std::string kinds;
        for (const auto& item : request.decision.charge.items) kinds += item.of_client ? 'c' : 's';
        return kinds;
    };
    const std::string head = request_for("/7?q=a&token=b",
                                         "X-User-Id: alice\r\nX-Api-Key: k\r\nCookie: sid=1\r\n"
                                         "X-Tenant: acme\r\n");
    CHECK(of_client(head, true) == "cccccsssssss");
    // The anonymous ones share what stands in for the user.
    CHECK(of_client(head, false) == "cscccsssssss");
}

TEST_CASE("charge_list: several parts make one identifier, an address one for each prefix") {
    World world(with_key("\"header:x-tenant+route\", \"ip+constant:c\""));
    CHECK(counted(world, request_for("/7", "x-tenant: acme\r\n"), false, "2001:db8::7") ==
          "p=20:header:x-tenant=acme+9:route:all "
          "p=16:ip:2001:db8::/64+10:constant:c p=14:ip:2001:db8::7+10:constant:c ");
}

TEST_CASE("charge_list: the first choice that is there stands in, and is counted once") {
    World world(with_key("\"user|ip\", ip"));
    CHECK(counted(world, request_for("/7", "X-User-Id: alice\r\n"), true) ==
          "p=user:alice p=ip:203.0.113.7 ");
    CHECK(counted(world, request_for("/7")) == "p=ip:203.0.113.7 ");
}

TEST_CASE("charge_list: a field that is left out or empty does not escape the limit") {
    World world(with_key("\"header:x-tenant\", ip"));
    CHECK(counted(world, request_for("/7")) == kNobody);
    CHECK(counted(world, request_for("/7", "X-Tenant:  \r\n")) == kNobody);
    // Connection would have it removed on the way.
    CHECK(counted(world, request_for("/7", "X-Tenant: a\r\nConnection: x-tenant\r\n")) == kNobody);
}

TEST_CASE("charge_list: on_missing passes over, counts together, or refuses") {
    World skip(with_key("\"header:x-tenant\", ip", ", on_missing: skip"));
    CHECK(counted(skip, request_for("/7")) == "p=ip:203.0.113.7 ");
    World shared(with_key("\"header:x-tenant+route|query:t\"", ", on_missing: shared"));
    CHECK(counted(shared, request_for("/7")) == "p=shared:header:x-tenant+route|query:t ");
    World reject(with_key("user, ip", ", on_missing: reject"));
    CHECK(counted(reject, request_for("/7")) == "client: no user");
    World all_skipped(with_key("\"header:x-tenant\", \"query:t\"", ", on_missing: skip"));
    CHECK(counted(all_skipped, request_for("/7")) == "");
}

// By SHA-256 of `p`, NUL and the identifier: .050, .091, .111, .195, .209, .419, .553, .575, ...
TEST_CASE("charge_list: `enforce` takes the same share of the identifiers each time, and grows") {
    const auto enforced = [](const std::string& share) {
        World world(with_key("ip", ", enforce: " + share));
        std::string all;
        for (int i = 1; i <= 12; ++i) {
            Request request(world, request_for("/7"), false, "203.0.113." + std::to_string(i));
            REQUIRE(request.decide() == Fault::none);
            REQUIRE(request.identifiers() == "p=ip:203.0.113." + std::to_string(i) + " ");
            const limit::Policy& policy = *request.decision.charge.items[0].policy;
            CHECK(policy.is_enforced() == (policy.twin_of == nullptr));
            if (policy.is_enforced()) all += std::to_string(i) + " ";
        }
        return all;
    };
    CHECK(enforced("5.1%") == "9 ");
    CHECK(enforced("20%") == "2 7 9 12 ");
    CHECK(enforced("25%") == "1 2 7 9 12 ");
    CHECK(enforced("60%") == "1 2 3 4 7 9 10 12 ");
    CHECK(enforced("100%") == "1 2 3 4 5 6 7 8 9 10 11 12 ");
}

// By SHA-256 of `p`, NUL and `ip:ADDRESS` the first is .419 of all, the second .553.
TEST_CASE("charge_list: `enforce` refuses what has no identifier by the share of its address") {
    World world(with_key("\"header:x-tenant\"", ", enforce: 50%"));
    CHECK(counted(world, request_for("/7"), false, "203.0.113.3") == kNobody);
    CHECK(counted(world, request_for("/7"), false, "203.0.113.4") == "");
    World with_more(
        with("  p: {key: [\"header:x-tenant\"], limits: [10/s], enforce: 50%}\n"
             "  o: {key: [ip], limits: [10/s]}\n",
             "}, {name: both, match: {path: \"/a/b\"}, policies: [p, o]"));
    CHECK(counted(with_more, request_for("/a/b"), false, "203.0.113.4") == "o=ip:203.0.113.4 ");
}

TEST_CASE("charge_list: an identifier outside of the share has the limits of its tier in shadow") {
    World world(
        "upstream: http://127.0.0.1:3000\npolicies:\n"
        "  p: {key: [user], limits: [10/s], tiers: {pro: [90/s]}, enforce: 0.001%}\n"
        "default_policies: [p]\n"
        "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]}, user: [{header: {name: "
        "x-user-id, tier_header: x-tier, from: trusted_proxies}}]}\n");
    Request request(world, request_for("/7", "X-User-Id: alice\r\nX-Tier: pro\r\n"), true);
    REQUIRE(request.decide() == Fault::none);
    const limit::ChargeItem& item = request.decision.charge.items.at(0);
    CHECK(item.policy->shadow);
    REQUIRE(item.tier != nullptr);
    CHECK(item.tier == &item.policy->tiers.at(0));
    CHECK(item.limits()[0].quota == 90);
}

TEST_CASE("charge_list: a candidate counts the identifiers of its policy, behind it") {
    World world(
        with("  p: {key: [ip, \"path:id\"], limits: [10/s], enforce: 25%, exempt: "
             "[203.0.113.99], candidate: {limits: [5/s]}}\n"));
    CHECK(counted(world, request_for("/7")) ==
          "p=ip:203.0.113.7 p=path:id=7 p@candidate=ip:203.0.113.7 p@candidate=path:id=7 ");
    CHECK(counted(world, request_for("/7"), false, "203.0.113.99") == "");
}

TEST_CASE("charge_list: a candidate may limit a tier that is unlimited, and the reverse") {
    const std::string begin =
        "upstream: http://127.0.0.1:3000\npolicies:\n  p: {key: [user], limits: [10/s], ";
    const std::string end =
        "default_policies: [p]\nidentity: {client_ip: {trusted_proxies: [203.0.113.0/24]}, user: "
        "[{header: {name: x-user-id, tier_header: x-tier, from: trusted_proxies}}]}\n";
    const std::string head = request_for("/7", "X-User-Id: alice\r\nX-Tier: pro\r\n");
    World limits(begin + "tiers: {pro: unlimited}, candidate: {limits: [5/s], tiers: {}}}\n" + end);
    CHECK(counted(limits, head, true) == "p@candidate=user:alice ");
    World frees(begin +
                "tiers: {pro: [90/s]}, candidate: {limits: [5/s], tiers: {pro: "
                "unlimited}}}\n" +
                end);
    CHECK(counted(frees, head, true) == "p=user:alice ");
    World same(begin + "tiers: {pro: [90/s]}, candidate: {limits: [5/s]}}\n" + end);
    CHECK(counted(same, head, true) == "p=user:alice p@candidate=user:alice ");
}

TEST_CASE("charge_list: a value that the upstream could read differently is ambiguous") {
    World field(with_key("\"header:x-tenant\"", ", on_missing: skip"));
    for (const char* fields : {"X-Tenant: a\r\nX-Tenant: b\r\n", "X-Tenant: a\r\nX-Tenant: a\r\n",
                               "X-Tenant: a\r\nX_Tenant: b\r\n", "X_Tenant: b\r\n"}) {
        CHECK_MESSAGE(counted(field, request_for("/7", fields)) == kAmbiguous, fields);
    }
    World query(with_key("\"query:tenant\"", ", on_missing: skip"));
    for (const char* text :
         {"tenant=a&tenant=b", "tenant=a&Tenant=b", "tenant=a&tenant[]=b", "a=1;tenant=b",
          "tenant=a;b", "tenant=%zz", "tenant=a%00b", "t%65nant=a&tenant=a", "tenant[0]=a"}) {
        CHECK_MESSAGE(counted(query, request_for("/7?" + std::string(text))) == kAmbiguous, text);
    }
    CHECK(counted(query, request_for("/7?t%65nant=a%2Bb+c")) == "p=query:tenant=a b c ");
    // Some applications cut off white space: it makes no other identifier.
    for (const char* value : {"a", "a+", "+a", "%20%09a%0D%0A", "a%2B"}) {
        CHECK_MESSAGE(
            counted(query, request_for("/7?tenant=" + std::string(value))) == "p=query:tenant=a ",
            value);
    }
    CHECK(counted(query, request_for("/7?tenant=+%20")) ==
          counted(query, request_for("/7?tenant=")));
}

TEST_CASE("charge_list: a captured segment is the same however it is encoded") {
    World world(with_key("\"path:id\""));
    CHECK(counted(world, request_for("/alice")) == "p=path:id=alice ");
    CHECK(counted(world, request_for("/%61lice")) == "p=path:id=alice ");
    CHECK(counted(world, request_for("/alice/")) == "p=path:id=alice ");
    CHECK(counted(world, request_for("/a;b")) == "client: ambiguous path");
}

TEST_CASE("charge_list: secrets are counted by their hash and shown nowhere") {
    World world(with_key("\"header:authorization\", \"query:api_key\""));
    Request request(world, request_for("/7?api_key=hush", "Authorization: Bearer hush\r\n"));
    REQUIRE(request.decide() == Fault::none);
    CHECK_FALSE(has(request.identifiers(), "hush"));
    CHECK(has(request.identifiers(), "p=header:authorization=#"));
    CHECK(has(request.identifiers(), "p=query:api_key=#"));
}

TEST_CASE("charge_list: a tier's limits stand in for the policy's, `unlimited` leaves it out") {
    World world(
        with("  p: {key: [user, ip], limits: [10/s], tiers: {pro: [99/s], staff: "
             "unlimited}}\n"));
    const auto items = [&](const std::string& tier) {
        Request request(world, request_for("/7", "X-User-Id: u\r\n"), true);
        match_route(*world.rules.config, request.facts, request.decision);
        identify(world.rules, request.facts, request.decision);
        CHECK(request.decision.tier.empty());
        request.decision.tier = tier;
        list_charges(*world.rules.config, request.facts, request.decision);
        CHECK(request.decision.fault == Fault::none);
        std::string out;
        for (const auto& item : request.decision.charge.items) {
            out += std::to_string(item.limits()[0].quota) + " ";
        }
        return out;
    };
    CHECK(items("") == "10 10 ");
    CHECK(items("pro") == "99 99 ");
    CHECK(items("gold") == "10 10 ");
    CHECK(items("staff") == "");
}

TEST_CASE("charge_list: an exempt client is not counted, a denied client is refused first") {
    World world(
        with("  p: {key: [ip], limits: [10/s], exempt: [198.51.100.0/24, \"user:bot\"]}\n"
             "  d: {key: [\"header:x-t\"], limits: [10/s], deny: [192.0.2.0/24]}\n",
             "}, {name: both, match: {path: \"/a/b\"}, policies: [p, d]"));
    CHECK(counted(world, request_for("/7"), false, "198.51.100.9") == "");
    CHECK(counted(world, request_for("/7", "X-User-Id: bot\r\n"), true) == "");
    CHECK(counted(world, request_for("/7", "X-User-Id: bot\r\n"), false) == "p=ip:203.0.113.7 ");
    CHECK(counted(world, request_for("/a/b"), false, "192.0.2.1") == "client: denied");
    CHECK(counted(world, request_for("/a/b"), false, "192.0.3.1") == kNobody);
    CHECK(traits(Fault::denied).status == 403);
}

TEST_CASE("charge_list: a policy in shadow refuses no request, whatever it cannot count") {
    World world(
        with("  p: {key: [ip], limits: [10/s]}\n"
             "  s: {key: [\"header:x-t\"], limits: [1/s], mode: shadow, deny: "
             "[203.0.113.7]}\n",
             "}, {name: both, match: {path: \"/a/b\"}, policies: [s, p]"));
    CHECK(counted(world, request_for("/a/b")) == "p=ip:203.0.113.7 ");
    CHECK(counted(world, request_for("/a/b", "X-T: 1\r\n")) == "s=header:x-t=1 p=ip:203.0.113.7 ");
    CHECK(counted(world, request_for("/a/b", "X-T: 1\r\nX-T: 2\r\n")) == "p=ip:203.0.113.7 ");
}

TEST_CASE("charge_list: a denial in shadow is counted and logged; the client does not see it") {
    World world(
        with("  p: {key: [ip], limits: [10/s]}\n"
             "  s: {key: [ip], limits: [1/s], mode: shadow}\n",
             "}, {name: both, match: {path: \"/a/b\"}, policies: [s, p]"));
    Request request(world, request_for("/a/b"));
    REQUIRE(request.decide() == Fault::none);
    auto& decision = request.decision.charge;
    decision.result = Decided::admitted;
    decision.verdict.shadow_admitted = false;
    decision.verdict.limits = {{.remaining = 0, .next_unit = 1s, .denied = true},
                               {.remaining = 9, .next_unit = 1s}};
    request.apply_verdict();
    CHECK(request.decision.fault == Fault::none);
    REQUIRE(request.decision.ratelimit.size() == 1);
    CHECK(request.decision.ratelimit[0].name == "p-1s");
    CHECK(has(world.figures(), R"(policy="s",limit="1s",outcome="shadow_denied"} 1)"));
}

TEST_CASE("charge_list: a cost is believed of trusted peers, within its bounds") {
    const std::string cost = ", cost: {header: x-cost, default: 2, min: 3, max: 9}";
    World world(with("  p: {key: [ip], limits: [10/s]}\n", cost));
    std::optional<CostFault> ignored;
    const auto costs = [&](const std::string& fields, bool trusted = true) {
        Request request(world, request_for("/7", fields), trusted);
        CHECK(request.decide() == Fault::none);
        ignored = request.decision.cost_ignored;
        return request.decision.charge.cost;
    };
    CHECK(costs("X-Cost: 3\r\n") == 3);
    CHECK(costs("X-Cost: 9\r\n") == 9);
    CHECK(costs("") == 2);
    CHECK_FALSE(ignored);
    for (const char* bad : {"2", "10"}) {
        CHECK_MESSAGE(costs("X-Cost: " + std::string(bad) + "\r\n") == 2, bad);
        CHECK(ignored == CostFault::out_of_range);
    }
    for (const char* bad : {"-3", "+3", "3.5", "0x3", "03", "3 3", "99999999999999999999"}) {
        CHECK_MESSAGE(costs("X-Cost: " + std::string(bad) + "\r\n") == 2, bad);
        CHECK(ignored == CostFault::unreadable);
    }
    CHECK(costs("X-Cost: 3\r\nX-Cost: 3\r\n") == 2);
    CHECK(ignored == CostFault::unreadable);
    CHECK(costs("X-Cost: 3\r\n", false) == 2);
    CHECK(ignored == CostFault::untrusted);
}

TEST_CASE("charge_list: a schedule is asked for the moment the request names") {
    World world(
        with("  p: {key: [ip], limits: [{quota: 1, per: 1min, algorithm: schedule, "
             "at: {header: X-Send-At}, horizon: 1h}]}\n"));
    const auto moment = [&](const std::string& fields) {
        Request request(world, request_for("/7", fields));
        request.facts.began_at = std::chrono::system_clock::time_point{1'000'000s};
        const Fault fault = request.decide();
        CHECK(request.decision.charge.items.empty() == (fault != Fault::none));
        return fault == Fault::none ? std::to_string(request.decision.charge.moment.count())
                                    : std::string(request.decision.fault_detail);
    };
    CHECK(moment("X-Send-At: 1000060.5\r\n") == "1000060500000");
    CHECK(moment("X-Send-At: 1970-01-12T13:47:40Z\r\n") == "1000060000000");
    CHECK(moment("X-Send-At: 5\r\n") == "5000000");
    CHECK(moment("X-Send-At: 1003600\r\n") == "1003600000000");
    CHECK(has(moment("X-Send-At: 1003600.000001\r\n"), "further ahead than allowed"));
    CHECK(has(moment(""), "does not say when"));
    CHECK(has(moment("X-Send-At: soon\r\n"), "neither RFC 3339 nor Unix seconds"));
    CHECK(has(moment("X-Send-At: 1\r\nX-Send-At: 2\r\n"), "more than one way"));
}

TEST_CASE("charge_list: a bad moment only leaves out a schedule in shadow") {
    World world(
        with("  p: {key: [ip], limits: [5/s]}\n"
             "  s: {key: [ip], mode: shadow, limits: [{quota: 1, per: 1min, algorithm: "
             "schedule, at: {query: at}}]}\n",
             "}, {name: both, match: {path: \"/a/b\"}, policies: [s, p]"));
    CHECK(counted(world, request_for("/a/b?at=never")) == "p=ip:203.0.113.7 ");
    CHECK(counted(world, request_for("/a/b?at=1")) == "s=ip:203.0.113.7 p=ip:203.0.113.7 ");
}

TEST_CASE("charge_list: whether an admission needs settling is known beforehand") {
    const auto settles = [](const std::string& limit) {
        World world(with("  p: {key: [ip], limits: [" + limit + "]}\n"));
        Request request(world, request_for("/7"));
        CHECK(request.decide() == Fault::none);
        return request.decision.charge.needs_settling;
    };
    CHECK_FALSE(settles("10/s"));
    CHECK_FALSE(settles("{quota: 1, per: 1s, count: all}"));
    CHECK(settles("{quota: 1, per: 1s, count: [401]}"));
    CHECK(settles("{quota: 1, algorithm: concurrency}"));
    CHECK(settles("{quota: 1, per: 1s, algorithm: leaky_bucket}"));
}

TEST_CASE("charge_list: slots are shown without a window, and a burst as its window") {
    World world(
        with("  p: {key: [ip], limits: [{quota: 5, algorithm: concurrency}, {quota: 2, per: "
             "1s, algorithm: gcra, burst: 9}]}\n"));
    Request request(world, request_for("/7"));
    REQUIRE(request.decide() == Fault::none);
    request.decision.charge.result = Decided::admitted;
    request.decision.charge.verdict.limits = {{.remaining = 4}, {.remaining = 8}};
    request.apply_verdict();
    const auto& told = request.decision.ratelimit;
    REQUIRE(told.size() == 2);
    CHECK(told[0].name == "p-concurrency");
    CHECK(told[0].window_seconds == 0);
    CHECK(told[0].kind == http::RateLimitItem::Kind::in_flight);
    CHECK(told[1].window_seconds == 1);
    CHECK(told[1].remaining == 2);
}

TEST_CASE("charge_list: the address limits are those that hold for every user") {
    const auto looked_at = [](const std::string& policies, const std::string& peer = "203.0.113.7",
                              const std::string& route = "") {
        World world(with(policies, route));
        Request request(world, request_for("/a/b"), false, peer);
        match_route(*world.rules.config, request.facts, request.decision);
        if (!request.decision.goes_on()) return std::string("no route");
        identify(world.rules, request.facts, request.decision);
        const bool any = list_address_limits(*world.rules.config, request.facts, request.decision);
        CHECK(any == !request.decision.charge.items.empty());
        CHECK_FALSE(request.decision.charge.needs_settling);
        return request.identifiers();
    };
    const std::string both = "}, {name: both, match: {path: \"/a/b\"}, policies: [p, o]";
    const std::string other =
        "  o: {key: [\"user|ip\", \"header:x\", \"ip+route\"], limits: [9/s]}\n";
    const auto of = [&](const std::string& policy, const std::string& peer = "203.0.113.7") {
        return looked_at("  p: " + policy + "\n" + other, peer, both);
    };
    CHECK(of("{key: [ip], limits: [10/s]}") == "p=ip:203.0.113.7 ");
    CHECK(of("{key: [user, ip], limits: [10/s]}") == "p=ip:203.0.113.7 ");
    CHECK(of("{key: [ip], limits: [10/s]}", "2001:db8::7") ==
          "p=ip:2001:db8::/64 p=ip:2001:db8::7 ");
    CHECK(of("{key: [user], limits: [10/s]}") == "");
    // These depend on the user or on the moment, or refuse no request.
    CHECK(of("{key: [ip], limits: [10/s], tiers: {pro: [99/s]}}") == "");
    CHECK(of("{key: [ip], limits: [10/s], exempt: [\"user:bot\"]}") == "");
    CHECK(of("{key: [ip], limits: [10/s], exempt: [203.0.113.0/24]}") == "");
    CHECK(of("{key: [ip], limits: [10/s], exempt: [198.51.100.0/24]}") == "p=ip:203.0.113.7 ");
    CHECK(of("{key: [ip], limits: [10/s], mode: shadow}") == "");
    CHECK(of("{key: [ip], limits: [10/s], enforce: 0.001%}") == "");
    // A candidate counts what its policy denies, which it would never see.
    CHECK(of("{key: [ip], limits: [10/s], candidate: {limits: [20/s]}}") == "");
    CHECK(
        of("{key: [ip], limits: [{quota: 1, per: 1min, algorithm: schedule, at: {query: at}}]}") ==
        "");
}

TEST_CASE("charge_list: the address limits are asked for a cost that no body decides, or for one") {
    const auto asked = [](const std::string& cost) {
        World world(with("  p: {key: [ip], limits: [10/s], cost: " + cost + "}\n"));
        Request request(world, request_for("/a"));
        match_route(*world.rules.config, request.facts, request.decision);
        identify(world.rules, request.facts, request.decision);
        REQUIRE(list_address_limits(*world.rules.config, request.facts, request.decision));
        return request.decision.charge.items[0].own_cost;
    };
    CHECK(asked("{reserve: 7, settle: {header: x-cost}}") == 7);
    CHECK(asked("{reserve: 0, settle: {header: x-cost}}") == 0);
    CHECK(asked("{reserve: auto, settle: auto}") == 1);
}

TEST_CASE("charge_list: each key that is there has an identifier, an absent user is skipped") {
    World world(kUpstream + "limits: [10/s]\n" + kTrusting);
    Request both(world, get("X-User-Id: alice\r\nX-Forwarded-For: 198.51.100.1\r\n"), true);
    CHECK(both.decide() == Fault::none);
    CHECK(both.identifiers() == "default=ip:198.51.100.1 default=user:alice ");
    Request stranger(world, get("X-User-Id: alice\r\n"), false);
    CHECK(stranger.decide() == Fault::none);
    CHECK(stranger.identifiers() == "default=ip:203.0.113.7 ");
}

TEST_CASE("charge_list: an IPv6 client is counted by each prefix, an IPv4 client once") {
    World world(kUpstream + "limits: [10/s]\nidentity: {client_ip: {ipv6_prefix: [64, 128]}}\n");
    Request six(world, get(), false, "2001:db8:1:2:3::4");
    CHECK(six.decide() == Fault::none);
    CHECK(six.identifiers() == "default=ip:2001:db8:1:2::/64 default=ip:2001:db8:1:2:3::4 ");
    Request four(world, get());
    CHECK(four.decide() == Fault::none);
    CHECK(four.identifiers() == "default=ip:203.0.113.7 ");
}

TEST_CASE("charge_list: ipv4_prefix counts an IPv4 client by each of its networks") {
    const auto counted = [](const std::string& prefixes, const std::string& peer) {
        World world(kUpstream + "limits: [10/s]\nidentity: {client_ip: {" + prefixes + "}}\n");
        Request request(world, get(), false, peer);
        CHECK(request.decide() == Fault::none);
        return request.identifiers();
    };
    CHECK(counted("ipv4_prefix: 24", "203.0.113.7") == "default=ip:203.0.113.0/24 ");
    CHECK(counted("ipv4_prefix: [32, 24]", "203.0.113.7") ==
          "default=ip:203.0.113.7 default=ip:203.0.113.0/24 ");
    CHECK(counted("ipv4_prefix: 24", "2001:db8:1:2:3::4") == "default=ip:2001:db8:1:2::/64 ");
    CHECK(counted("ipv6_prefix: [64, 128]", "203.0.113.7") == "default=ip:203.0.113.7 ");
}

TEST_CASE("charge_list: whatever the prefix, exempt and deny look at the whole address") {
    World world(
        kUpstream +
        "identity: {client_ip: {ipv4_prefix: 24}}\npolicies: {p: {key: [ip], limits: "
        "[10/s], exempt: [203.0.113.7], deny: [203.0.113.8]}}\nroutes: [{policies: [p]}]\n");
    const auto decided = [&](const std::string& peer) {
        Request request(world, get(), false, peer);
        return std::pair{request.decide(), request.identifiers()};
    };
    CHECK(decided("203.0.113.7") == std::pair{Fault::none, std::string()});
    CHECK(decided("203.0.113.8").first == Fault::denied);
    CHECK(decided("203.0.113.9").second == "p=ip:203.0.113.0/24 ");
}

TEST_CASE("charge_list: many long identifiers keep their bytes") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "policies:\n  a: {key: [ip, user], limits: [1/s]}\n  b: {key: [user, ip], limits: [1/s]}\n"
        "routes: [{name: all, match: {path: \"/**\"}, upstream: api, policies: [a, b]}]\n" +
        kTrusting);
    const std::string name(250, 'u');
    Request request(world, get("X-User-Id: " + name + "\r\n"), true);
    CHECK(request.decide() == Fault::none);
    const auto& items = request.decision.charge.items;
    REQUIRE(items.size() == 4);
    CHECK(items[0].identifier == "ip:203.0.113.7");
    CHECK(items[1].identifier == items[2].identifier);
    CHECK(items[1].identifier.starts_with("user:#"));
    CHECK(items[3].identifier == "ip:203.0.113.7");
}

TEST_CASE("charge_list: a request with none of the keys of a policy is refused") {
    World world(
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "policies:\n  a: {key: [user], limits: [1/s]}\n"
        "routes: [{name: all, match: {path: \"/**\"}, upstream: api, policies: [a]}]\n" +
        kTrusting);
    Request request(world, get());
    CHECK(request.decide() == Fault::no_user);
    CHECK(request.decision.charge.items.empty());
}

TEST_CASE("identifiers: a part is known by its text and by no other") {
    using Kind = limit::KeyPart::Kind;
    const std::vector<limit::KeyPart> parts{
        {.kind = Kind::ip, .name = {}},
        {.kind = Kind::user, .name = {}},
        {.kind = Kind::header, .name = "x-tenant"},
        {.kind = Kind::header, .name = "tenant"},
        {.kind = Kind::query, .name = "x-tenant"},
        {.kind = Kind::constant, .name = "user"},
        {.kind = Kind::claim, .name = "org id"},
    };
    for (const limit::KeyPart& part : parts) {
        for (const limit::KeyPart& other : parts) {
            CAPTURE(part_text(part));
            CAPTURE(part_text(other));
            CHECK(is_part_text(part_text(part), other) == (&part == &other));
        }
        for (const std::string_view text : {"", "header", "header:", "header:x", ":x-tenant"}) {
            CHECK_FALSE(is_part_text(text, part));
        }
    }
}

TEST_CASE("identifiers: white space around a value makes no other, and a blank value is none") {
    struct Kind {
        std::string key;
        std::string path;  // `$` stands for the value, percent-encoded
        std::string fields;
        bool is_encoded;
        std::string counted;  // empty: a hash
    };
    const std::vector<Kind> kinds{
        {"header:x-tenant", "/a/b", "X-Tenant: $", false, "header:x-tenant=acme"},
        {"query:tenant", "/a/b?tenant=$", "", true, "query:tenant=acme"},
        {"path:tenant", "/a/$", "", true, "path:tenant=acme"},
        {"header:x-tenant+path:tenant", "/a/b", "X-Tenant: $", false,
         "20:header:x-tenant=acme+13:path:tenant=b"},
        {"header:x-api-key", "/a/b", "X-Api-Key: $", false, ""},
        {"query:token", "/a/b?token=$", "", true, ""},
        {"cookie:sid", "/a/b", "Cookie: sid=$", true, ""},
    };
    struct Blank {
        std::string bytes;
        std::string encoded;
    };
    const std::vector<Blank> blanks{{"\xc2\xa0", "%C2%A0"},
                                    {"\xe3\x80\x80", "%E3%80%80"},
                                    {"\xef\xbb\xbf", "%EF%BB%BF"},
                                    {"\t", "%09"}};
    for (const Kind& kind : kinds) {
        World world(
            "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
            "policies: {p: {key: ['" +
            kind.key +
            "'], on_missing: skip, limits: [1/s]}}\n"
            "routes: [{match: {path: '/a/{tenant}'}, policies: [p]}]\n");
        const auto identifiers = [&](const std::string& value) {
            const auto with = [&](std::string text) {
                const std::size_t at = text.find('$');
                return at == std::string::npos ? text : text.replace(at, 1, value);
            };
            const std::string field = kind.fields.empty() ? "" : with(kind.fields) + "\r\n";
            Request request(world,
                            "GET " + with(kind.path) + " HTTP/1.1\r\nHost: a\r\n" + field + "\r\n");
            CHECK(request.decide() == Fault::none);
            return request.identifiers();
        };
        CAPTURE(kind.key);
        const std::string plain = identifiers("acme");
        if (!kind.counted.empty()) CHECK(plain == "p=" + kind.counted + " ");
        for (const Blank& one : blanks) {
            const std::string& blank = kind.is_encoded ? one.encoded : one.bytes;
            CAPTURE(blank);
            CHECK(identifiers("acme" + blank) == plain);
            CHECK(identifiers(blank + "acme" + blank + blank) == plain);
            CHECK(identifiers(blank).empty());
        }
    }
}

// Quotas that tokens state.

namespace {

const std::string kPlans =
    "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
    "identity: {user: [{jwt: {secret: 0123456789abcdef0123456789abcdef, algorithms: [HS256], "
    "issuer: i, audience: a, namespace: idp}}]}\n"
    "policies:\n"
    "  p:\n"
    "    key: [ip]\n"
    "    limits: [9/s, {quota: {claim: rpm, default: 60, max: 1000}, per: 1min}]\n"
    "    tiers: {pro: [{quota: {claim: rpm, default: 200}, per: 1min}]}\n"
    "routes: [{policies: [p]}]\n";

// The limits that hold for a token with this claim.
struct Planned {
    explicit Planned(World& world, const std::string& rpm, std::string_view tier = {},
                     std::size_t items = 1)
        : request(world, get()) {
        Decision& decision = request.decision;
        match_route(*world.rules.config, request.facts, decision);
        identify(world.rules, request.facts, decision);
        decision.tier = tier;
        const std::vector<std::string> names{"rpm"};
        const std::vector<std::string> values{rpm};
        decision.authentication->method = 0;
        decision.authentication->claims = identity::pack_claims(names, values, "idp");
        list_charges(*world.rules.config, request.facts, decision);
        REQUIRE(decision.charge.items.size() == items);
    }
    const limit::ChargeItem& item() const { return request.decision.charge.items.front(); }
    const limit::Limit& last() const { return item().limits().back(); }

    Request request;
};

}  // namespace

TEST_CASE("charge_list: a quota is what the token states, at most `max`, else the default") {
    World world(kPlans);
    CHECK(Planned(world, "").last().quota == 60);
    CHECK(Planned(world, "").item().tier == nullptr);
    CHECK(Planned(world, "600").last().quota == 600);
    CHECK(Planned(world, "0").last().quota == 0);
    for (const char* const large : {"1000000", "1e3", "1e300", "99999999999999999999"}) {
        CAPTURE(large);
        CHECK(Planned(world, large).last().quota == 1000);
    }
    for (const char* const none : {"many", "-5", "1.5", "1e2"}) {
        CAPTURE(none);
        CHECK(Planned(world, none).last().quota == 60);
    }
}

TEST_CASE("charge_list: limits with quotas of tokens are the same limits, and made once") {
    World world(kPlans);
    const Planned first(world, "600");
    const Planned second(world, "600");
    const Planned other(world, "500");
    CHECK(first.item().tier == second.item().tier);
    CHECK(first.item().tier != other.item().tier);
    const limit::Policy& policy = *world.rules.config->routes.front().policies.front();
    CHECK(first.last().id == policy.limits.back().id);
    CHECK(first.last().name == policy.limits.back().name);
    CHECK(list_of(first.item()) == policy.index);
    CHECK(first.item().limits().front().quota == 9);
}

TEST_CASE("charge_list: a tier has quotas of tokens, too") {
    World world(kPlans);
    CHECK(Planned(world, "", "pro").last().quota == 200);
    const Planned pro(world, "5000", "pro");
    CHECK(pro.last().quota == 5000);
    CHECK(pro.item().tier->name == "pro");
    CHECK(list_of(pro.item()) ==
          world.rules.config->routes.front().policies.front()->tiers.front().index);
}

TEST_CASE("charge_list: a candidate, and what `enforce` leaves in shadow, have quotas of tokens") {
    const auto with_limits = [](const std::string& live, const std::string& candidate) {
        std::string yaml = kPlans;
        const std::size_t begin = yaml.find("    limits:");
        yaml.replace(begin, yaml.find("routes:") - begin,
                     "    limits: [" + live + "]\n    enforce: 0.001%\n    candidate: {limits: [" +
                         candidate + "]}\n");
        return yaml;
    };
    const std::string stated = "{quota: {claim: rpm, default: 60, max: 1000}, per: 1min}";
    World tried(with_limits("9/min", stated));
    const auto limits_of = [](const Planned& planned, std::size_t item) {
        const auto& items = planned.request.decision.charge.items;
        CHECK(items.at(0).policy->twin_of != nullptr);
        return items.at(item).limits().back().quota;
    };
    CHECK(limits_of(Planned(tried, "600", {}, 2), 0) == 9);
    CHECK(limits_of(Planned(tried, "600", {}, 2), 1) == 600);
    CHECK(limits_of(Planned(tried, "", {}, 2), 1) == 60);
    World fixed(with_limits(stated, "5/min"));
    CHECK(limits_of(Planned(fixed, "600", {}, 2), 0) == 600);
    CHECK(limits_of(Planned(fixed, "600", {}, 2), 1) == 5);
}

TEST_CASE("charge_list: a claim of another method's namespace states no quota") {
    World world(kPlans);
    Request request(world, get());
    match_route(*world.rules.config, request.facts, request.decision);
    identify(world.rules, request.facts, request.decision);
    const std::vector<std::string> names{"rpm"};
    const std::vector<std::string> values{"600"};
    request.decision.authentication->method = 0;
    request.decision.authentication->claims = identity::pack_claims(names, values, "other");
    list_charges(*world.rules.config, request.facts, request.decision);
    CHECK(request.decision.charge.items.front().limits().back().quota == 60);
}

TEST_CASE("charge_list: tokens that state too many different quotas get the default") {
    World world(kPlans);
    config::ClaimedTiers& tiers = *world.rules.config->claimed_tiers;
    const config::PolicySettings& policy = *world.rules.config->routes.front().policies.front();
    const config::ClaimedQuota* const claimed = &policy.claimed_quotas.front();
    for (std::int64_t quota = 0; quota < std::int64_t{config::ClaimedTiers::kMax}; ++quota) {
        REQUIRE(tiers.find(policy, nullptr, {&claimed, 1}, {&quota, 1}) != nullptr);
    }
    CHECK(Planned(world, "600").last().quota == 600);
    const std::int64_t further = config::ClaimedTiers::kMax;
    CHECK(tiers.find(policy, nullptr, {&claimed, 1}, {&further, 1}) == nullptr);
}

TEST_CASE("charge_list: the fields of the answer have the quota of the token") {
    World world(kPlans);
    Planned planned(world, "600");
    store::LimitDecision& charge = planned.request.decision.charge;
    charge.result = Decided::admitted;
    charge.verdict.limits = {{.remaining = 8}, {.remaining = 599}};
    planned.request.apply_verdict();
    REQUIRE(planned.request.decision.ratelimit.size() == 2);
    CHECK(planned.request.decision.ratelimit.back().quota == 600);
    // These texts have the quota of the configuration.
    CHECK(planned.request.decision.ratelimit.back().texts == nullptr);
}

}  // namespace tidegate::ask::charge_list_test
