// Anonymous clients, users and their tokens on one route: which policy counts which client, which
// clients it exempts, and which it refuses.
#include <chrono>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "ask/charge_list.hpp"
#include "ask/identifiers.hpp"
#include "ask/identify.hpp"
#include "identity/identifier.hpp"
#include "unit/ask_world.hpp"

namespace tidegate::ask::identify_test {

namespace {

const std::string kHeader = "{header: {name: x-user-id, tier_header: x-tier}}";

std::string users_by(const std::string& methods, const std::string& more = "") {
    return "identity: {client_ip: {trusted_proxies: [203.0.113.0/24]}, user: [" + methods + "]" +
           more + "}\n";
}

// One route that names all the policies.
std::string routed(const std::string& policies, const std::string& names,
                   const std::string& route = "", const std::string& who = users_by(kHeader)) {
    return who + "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\npolicies:\n" + policies +
           "routes: [{name: all, match: {path: \"/**\"" + route + "}, policies: [" + names +
           "]}]\n";
}

std::string user(const std::string& name, const std::string& tier = "") {
    return "X-User-Id: " + name + "\r\n" + (tier.empty() ? "" : "X-Tier: " + tier + "\r\n");
}

// The identifiers of a request, or the name of its fault.
std::string counted_head(World& world, const std::string& head, bool trusted = true) {
    Request request(world, head, trusted);
    const Fault fault = request.decide();
    if (fault == Fault::none) return request.identifiers();
    CHECK(request.decision.charge.items.empty());
    return std::string(traits(fault).name);
}

std::string counted(World& world, const std::string& fields, bool trusted = true) {
    return counted_head(world, get(fields), trusted);
}

const std::string kNobody = "client: nobody";
const std::string kNoUser = "client: no user";
const std::string kAmbiguous = "client: ambiguous name";

// A request whose token has these claims, by the positions of the configuration.
std::string counted_by_claims(World& world, const std::vector<std::string>& values) {
    Request request(world, get(user("alice")), true);
    match_route(*world.rules.config, request.facts, request.decision);
    identify(world.rules, request.facts, request.decision);
    request.decision.authentication->claims =
        identity::pack_claims(world.rules.config->claims, values, "");
    list_charges(*world.rules.config, request.facts, request.decision);
    const Fault fault = request.decision.fault;
    return fault == Fault::none ? request.identifiers() : std::string(traits(fault).name);
}

}  // namespace

TEST_CASE("clients: anonymous and members have limits of their own on one route") {
    World world(
        routed("  anonymous: {key: [ip], limits: [10/min], exempt: [authenticated]}\n"
               "  members: {key: [user], on_missing: skip, limits: [100/min]}\n",
               "anonymous, members"));
    CHECK(counted(world, "") == "anonymous=ip:203.0.113.7 ");
    CHECK(counted(world, user("alice")) == "members=user:alice ");
    // A user's field from anyone but a trusted proxy makes no member.
    CHECK(counted(world, user("alice"), false) == "anonymous=ip:203.0.113.7 ");
}

TEST_CASE("clients: `on_missing: skip`, written, lets a request pass that has none of the keys") {
    World skip(routed(
        "  p: {key: [\"header:x-a\", \"query:b\"], on_missing: skip, limits: [1/s]}\n", "p"));
    CHECK(counted(skip, "") == "");
    CHECK(counted(skip, "X-A: 1\r\n") == "p=header:x-a=1 ");
    // A value that can be read in two ways is not missing.
    CHECK(counted(skip, "X-A: 1\r\nX-A: 2\r\n") == kAmbiguous);
    CHECK(counted(skip, "X_A: 1\r\n") == kAmbiguous);
    CHECK(counted_head(skip, "GET /?b=1&b=2 HTTP/1.1\r\nHost: a\r\n\r\n") == kAmbiguous);
}

TEST_CASE("clients: without `on_missing: skip` leaving out a field is no way around a policy") {
    World field(routed("  p: {key: [\"header:x-a\"], limits: [1/s]}\n", "p"));
    CHECK(counted(field, "") == kNobody);
    World user_or_field(routed("  p: {key: [user], limits: [1/s]}\n", "p"));
    CHECK(counted(user_or_field, "") == kNoUser);
    World rejected(routed("  p: {key: [user, ip], on_missing: reject, limits: [1/s]}\n", "p"));
    CHECK(counted(rejected, "") == kNoUser);
    World address_or_user(routed("  p: {key: [ip, user], limits: [1/s]}\n", "p"));
    Request neither(address_or_user, get(), true, "0.0.0.0");  // an address that names no client
    CHECK(neither.decide() == Fault::no_user);
    CHECK(neither.decision.fault_detail ==
          "The request has neither a client address nor a user to count by.");
    CHECK(counted(address_or_user, "") == "p=ip:203.0.113.7 ");
    World joined(routed("  p: {key: [\"user+route\"], limits: [1/s]}\n", "p"));
    CHECK(counted(joined, "") == kNoUser);
    World of_user_and_field(routed("  p: {key: [\"user+header:x-a\"], limits: [1/s]}\n", "p"));
    CHECK(counted(of_user_and_field, user("alice")) == kNobody);  // credentials would not help
    // A later policy that is skipped does not hide an earlier one that refuses, nor the reverse.
    World both(
        routed("  p: {key: [user], limits: [1/s]}\n"
               "  q: {key: [\"header:x-a\"], on_missing: skip, limits: [1/s]}\n",
               "q, p"));
    CHECK(counted(both, "") == kNoUser);
    CHECK(counted(both, user("alice")) == "p=user:alice ");
}

TEST_CASE("clients: a user that is needed and absent is 401, in shadow it is nothing") {
    CHECK(traits(Fault::no_user).status == 401);
    World shadow(
        routed("  p: {key: [ip], limits: [1/s]}\n"
               "  s: {key: [user], mode: shadow, limits: [1/s]}\n",
               "s, p"));
    CHECK(counted(shadow, "") == "p=ip:203.0.113.7 ");
    // No method could name a user: a challenge would be useless.
    World nobody(routed("  p: {key: [user], limits: [1/s]}\n", "p", "", ""));
    CHECK(counted(nobody, "") == kNobody);
}

TEST_CASE("clients: a route that requires a user refuses anonymous requests, whatever it counts") {
    const std::string policies = "  p: {key: [ip], limits: [1/s], deny: [203.0.113.9]}\n";
    World by_route(users_by(kHeader) +
                   "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\npolicies:\n" + policies +
                   "routes: [{identity: required, policies: [p]}]\n");
    CHECK(counted(by_route, "") == kNoUser);
    CHECK(counted(by_route, user("alice")) == "p=ip:203.0.113.7 ");
    Request denied(by_route, get(), false, "203.0.113.9");
    CHECK(denied.decide() == Fault::denied);

    World everywhere(
        users_by(kHeader, ", require: on") +
        "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n"
        "routes: [{match: {path: /open}, identity: optional, policies: []}, {policies: []}]\n");
    CHECK(counted(everywhere, "") == kNoUser);
    CHECK(counted(everywhere, user("alice")) == "");
    CHECK(counted_head(everywhere, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n") == "");

    World shortest(users_by(kHeader, ", require: on") + "upstream: http://127.0.0.1:3000\n");
    CHECK(counted(shortest, "") == kNoUser);
    CHECK(counted(shortest, user("alice")) == "");
}

TEST_CASE("clients: the challenge of an anonymous request lists the methods and no error") {
    World world(routed("  p: {key: [user], limits: [1/s]}\n", "p", "",
                       users_by(kHeader + ", {cookie: {name: session}}")));
    Request request(world, get(), true);
    CHECK(request.decide() == Fault::no_user);
    std::string fields;
    append_challenges(world.rules.config->user_methods, *request.decision.authentication, fields);
    CHECK(fields == "WWW-Authenticate: Cookie realm=\"tidegate\", cookie=\"session\"\r\n");
}

TEST_CASE("clients: exempt and deny know tiers, authenticated and anonymous clients") {
    World world(
        routed("  p: {key: [ip], limits: [9/s], exempt: [\"tier:internal\"]}\n"
               "  q: {key: [ip], limits: [9/s], exempt: [anonymous], deny: [\"tier:banned\"]}\n",
               "p, q"));
    CHECK(counted(world, "") == "p=ip:203.0.113.7 ");
    CHECK(counted(world, user("a")) == "p=ip:203.0.113.7 q=ip:203.0.113.7 ");
    CHECK(counted(world, user("a", "internal")) == "q=ip:203.0.113.7 ");
    CHECK(counted(world, user("a", "banned")) == "client: denied");
    World members_only(routed("  p: {key: [ip], limits: [9/s], deny: [anonymous]}\n", "p"));
    CHECK(counted(members_only, "") == "client: denied");
    CHECK(counted(members_only, user("a")) == "p=ip:203.0.113.7 ");
}

TEST_CASE("clients: a cookie that nothing checks does not make a client authenticated") {
    const std::string cookies = users_by("{cookie: {name: session}}, " + kHeader);
    World world(
        routed("  p: {key: [ip], limits: [9/s], exempt: [authenticated]}\n", "p", "", cookies));
    CHECK(counted(world, "Cookie: session=made-up\r\n") == "p=ip:203.0.113.7 ");
    CHECK(counted(world, user("alice")) == "");
    World denied(routed("  p: {key: [ip], limits: [9/s], deny: [anonymous]}\n", "p", "", cookies));
    CHECK(counted(denied, "Cookie: session=made-up\r\n") == "client: denied");
}

TEST_CASE("clients: before a credential is checked, no list is compared with its user") {
    World world(
        routed("  p: {key: [ip], limits: [9/s], deny: [anonymous, 198.51.100.0/24]}\n"
               "  q: {key: [ip], limits: [9/s], exempt: [authenticated]}\n"
               "  r: {key: [ip], limits: [9/s], exempt: [anonymous]}\n"
               "  s: {key: [ip], limits: [9/s], exempt: [\"tier:x\"]}\n",
               "p, q, r, s"));
    Request request(world, get());
    match_route(*world.rules.config, request.facts, request.decision);
    identify(world.rules, request.facts, request.decision);
    refuse_denied_client(request.decision);
    CHECK(request.decision.goes_on());
    // Of the policies only `p` holds for the address with any user.
    CHECK(list_address_limits(*world.rules.config, request.facts, request.decision));
    CHECK(request.identifiers() == "p=ip:203.0.113.7 ");
    Request denied(world, get(), false, "198.51.100.1");
    match_route(*world.rules.config, denied.facts, denied.decision);
    identify(world.rules, denied.facts, denied.decision);
    refuse_denied_client(denied.decision);
    CHECK(denied.decision.fault == Fault::denied);
}

TEST_CASE("clients: a claim is counted, alone, joined or before an alternative") {
    World world(
        routed("  p: {key: [\"claim:tenant\"], limits: [1/s]}\n"
               "  q: {key: [\"claim:https://example.com/org+route\", \"claim:plan|ip\"], "
               "limits: [1/s]}\n",
               "p, q"));
    REQUIRE(world.rules.config->claims ==
            std::vector<std::string>{"tenant", "https://example.com/org", "plan"});
    CHECK(counted_by_claims(world, {"acme", "x", "pro"}) ==
          "p=claim:tenant=acme q=31:claim:https://example.com/org=x+9:route:all q=claim:plan=pro ");
    CHECK(counted_by_claims(world, {"acme", "x", ""}) ==
          "p=claim:tenant=acme q=31:claim:https://example.com/org=x+9:route:all "
          "q=ip:203.0.113.7 ");
    // The user is known, and so no credential is missing.
    CHECK(counted_by_claims(world, {"", "x", "pro"}) == kNobody);
    CHECK(counted_by_claims(world, {"acme", "", "pro"}) == kNobody);
    CHECK(counted(world, "") == kNoUser);
    // A client's field of that name is no claim.
    CHECK(counted(world, user("alice") + "tenant: acme\r\n") == kNobody);
}

TEST_CASE("clients: a policy by a claim beside others needs the claim unless skip is written") {
    World needed(routed("  p: {key: [ip, \"claim:tenant\"], limits: [1/s]}\n", "p"));
    CHECK(counted(needed, "") == kNoUser);
    CHECK(counted_by_claims(needed, {""}) == kNobody);
    World skipped(
        routed("  p: {key: [ip, \"claim:tenant\"], on_missing: skip, limits: [1/s]}\n", "p"));
    CHECK(counted(skipped, "") == "p=ip:203.0.113.7 ");
    CHECK(counted_by_claims(skipped, {"acme"}) == "p=ip:203.0.113.7 p=claim:tenant=acme ");
}

TEST_CASE("clients: the host is counted in one spelling, and one that is missing is refused") {
    World world(routed("  p: {key: [host], limits: [1/s]}\n", "p"));
    const auto of = [&](const std::string& host) {
        return counted_head(world, "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    };
    for (const char* host : {"api.example.com", "API.Example.com", "api.example.com:8080",
                             "api.example.com.", "api.example.com.:80"}) {
        CHECK_MESSAGE(of(host) == "p=host:api.example.com ", host);
    }
    CHECK(of("[2001:DB8:0::1]:80") == "p=host:[2001:db8::1] ");
    CHECK(counted_head(world, "GET http://B.example/ HTTP/1.1\r\nHost: a\r\n\r\n") ==
          "p=host:b.example ");
    CHECK(counted_head(world, "GET / HTTP/1.0\r\n\r\n") == kNobody);
    const std::string longest = std::string(200, 'a') + "." + std::string(50, 'b');
    const std::string counted_longest = of(longest);
    CHECK(counted_longest.starts_with("p=host:#"));
    CHECK(counted_longest.size() < 80);
    World skip(routed("  p: {key: [host], on_missing: skip, limits: [1/s]}\n", "p"));
    CHECK(counted_head(skip, "GET / HTTP/1.0\r\n\r\n") == "");
    // Too long to be a name: that is not the same as none.
    CHECK(counted_head(skip, "GET / HTTP/1.1\r\nHost: " + std::string(300, 'a') + "\r\n\r\n")
              .starts_with("client: "));
}

TEST_CASE("clients: made-up methods share one count, HEAD counts as GET") {
    World world(routed("  p: {key: [method], limits: [1/s]}\n", "p"));
    const auto of = [&](const std::string& method) {
        return counted_head(world, method + " / HTTP/1.1\r\nHost: a\r\n\r\n");
    };
    CHECK(of("GET") == "p=method:GET ");
    CHECK(of("HEAD") == "p=method:GET ");
    CHECK(of("POST") == "p=method:POST ");
    CHECK(of("PROPFIND") == "p=method:PROPFIND ");
    CHECK(of("FOO") == "p=method:other ");
    CHECK(of("BAR7") == "p=method:other ");
    World purging(routed("  p: {key: [method], limits: [1/s]}\n", "p", ", methods: [GET, PURGE]"));
    CHECK(counted_head(purging, "PURGE / HTTP/1.1\r\nHost: a\r\n\r\n") == "p=method:PURGE ");
}

TEST_CASE("clients: a cookie is counted by its hash, and an unclear one is refused") {
    World world(routed("  p: {key: [\"cookie:cart\"], limits: [1/s]}\n", "p"));
    const std::string one = counted(world, "Cookie: a=b; cart=hush\r\n");
    CHECK(one.starts_with("p=cookie:cart=#"));
    CHECK_FALSE(has(one, "hush"));
    CHECK(one == counted(world, "Cookie: cart=\"hush\"\r\nCookie: a=c\r\n"));
    CHECK(one != counted(world, "Cookie: cart=other\r\n"));
    for (const char* same :
         {"Cookie: cart=%68ush\r\n", "Cookie: cart=h%75s%68\r\n", "Cookie: cart=\"hus%68\"\r\n"}) {
        CHECK_MESSAGE(one == counted(world, same), same);
    }
    CHECK(counted(world, "") == kNobody);
    CHECK(counted(world, "Cookie: cart=\r\n") == kNobody);
    CHECK(counted(world, "Cookie: cart=a\r\nConnection: cookie\r\n") == kNobody);
    World skip(routed("  p: {key: [\"cookie:cart\"], on_missing: skip, limits: [1/s]}\n", "p"));
    CHECK(counted(skip, "") == "");
    for (const char* cookies :
         {"Cookie: cart=a; cart=b\r\n", "Cookie: cart=a\r\nCookie: cart=b\r\n",
          "Cookie: Cart=a\r\n", "Cookie: cart=a,b\r\n"}) {
        CHECK_MESSAGE(counted(skip, cookies) == kAmbiguous, cookies);
    }
}

TEST_CASE("clients: notes say why a policy does not count or refuses") {
    World world(
        routed("  p: {key: [ip], limits: [9/s], exempt: [authenticated]}\n"
               "  q: {key: [\"header:x-a\"], on_missing: skip, limits: [9/s]}\n"
               "  r: {key: [user], limits: [9/s]}\n",
               "p, q, r"));
    const auto outcomes = [&](const std::string& fields) {
        Request request(world, get(fields), true);
        match_route(*world.rules.config, request.facts, request.decision);
        identify(world.rules, request.facts, request.decision);
        ChargeNotes notes;
        list_charges(*world.rules.config, request.facts, request.decision, &notes);
        std::vector<ChargeNotes::Outcome> all;
        for (const auto& policy : notes.policies) all.push_back(policy.outcome);
        return all;
    };
    using Outcome = ChargeNotes::Outcome;
    CHECK(outcomes(user("alice")) ==
          std::vector<Outcome>{Outcome::exempt, Outcome::skipped, Outcome::counted});
    CHECK(outcomes("") ==
          std::vector<Outcome>{Outcome::counted, Outcome::skipped, Outcome::no_user});
}

TEST_CASE("clients: the text of a key is as the configuration has it") {
    World world(
        routed("  p: {key: [\"claim:a%2Bb%7Cc|cookie:s+method+host\"], limits: [1/s]}\n", "p"));
    CHECK(key_text(world.rules.config->policies[0]->key[0]) ==
          "claim:a%2Bb%7Cc|cookie:s+method+host");
}

namespace {

using namespace std::chrono_literals;
using Time = NetworkNotices::Time;

std::string network_text(const char* address) {
    const IpNetwork network = noticed_network(*parse_ip(address));
    return network.address.to_string() + "/" + std::to_string(network.prefix);
}

TEST_CASE("network notices: a network is a /24 or a /64") {
    CHECK(network_text("192.0.2.77") == "192.0.2.0/24");
    CHECK(network_text("::ffff:192.0.2.77") == "192.0.2.0/24");
    CHECK(network_text("2001:db8:1:2:3::4") == "2001:db8:1:2::/64");
}

TEST_CASE("network notices: each network has one an hour") {
    NetworkNotices notices;
    const Time start{5s};
    CHECK(notices.is_due(parse_ip("192.0.2.1"), start));
    CHECK_FALSE(notices.is_due(parse_ip("192.0.2.1"), start));
    CHECK_FALSE(notices.is_due(parse_ip("192.0.2.200"), start + 59min));
    CHECK(notices.is_due(parse_ip("192.0.3.1"), start + 59min));
    CHECK(notices.is_due(parse_ip("2001:db8::1"), start));
    CHECK_FALSE(notices.is_due(parse_ip("2001:db8::2"), start));
    CHECK(notices.is_due(std::nullopt, start));
    CHECK_FALSE(notices.is_due(std::nullopt, start + 1s));
    CHECK(notices.is_due(parse_ip("192.0.2.2"), start + 1h));
    CHECK_FALSE(notices.is_due(parse_ip("192.0.3.1"), start + 1h));
}

TEST_CASE("network notices: a crowd of networks fills the table, and its places come back") {
    NetworkNotices notices;
    const Time start{5s};
    int told = 0;
    for (int i = 0; i < 1'000; ++i) {
        const std::string address =
            "10." + std::to_string(i / 250) + "." + std::to_string(i % 250) + ".1";
        told += notices.is_due(parse_ip(address), start) ? 1 : 0;
    }
    CHECK(told == NetworkNotices::kNetworksMax);
    CHECK_FALSE(notices.is_due(parse_ip("192.0.2.1"), start + 59min));
    CHECK(notices.is_due(parse_ip("192.0.2.1"), start + 1h));
    CHECK_FALSE(notices.is_due(parse_ip("192.0.2.1"), start + 1h));
}

}  // namespace

}  // namespace tidegate::ask::identify_test
