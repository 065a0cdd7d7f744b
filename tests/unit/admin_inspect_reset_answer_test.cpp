#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "admin/inspect_reset_answer.hpp"
#include "identity/identifier.hpp"

namespace tidegate::admin::inspect_reset_answer_test {

namespace {

std::shared_ptr<const config::Config> loaded(const std::string& policies,
                                             const std::string& more = "") {
    const auto loaded = config::load_text(
        "upstreams: {api: {servers: [\"http://127.0.0.1:1\"]}}\n" + more + "\npolicies:\n" +
            policies +
            "\nroutes: [{name: all, match: {path: \"/**\"}, upstream: api, policies: []}]\n",
        "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return loaded.config;
}

std::shared_ptr<const config::Config> some_config() {
    return loaded(
        "  by-both: {key: [ip, user], limits: [5/s], tiers: {pro: [9/s, 90/h], free: unlimited}}\n"
        "  by-user: {key: [\"user|ip\"], limits: [5/s]}\n"
        "  by-tenant: {key: [\"header:x-tenant+route\"], limits: [5/s]}\n"
        "  by-query: {key: [\"query:id\"], on_missing: shared, limits: [5/s]}\n",
        "identity: {client_ip: {ipv6_prefix: [64, 48]}}");
}

std::vector<std::string> meant(std::string_view text) {
    static const auto config = some_config();
    const auto identifiers = identifiers_meant(text, *config);
    return identifiers ? *identifiers : std::vector<std::string>{"refused"};
}

std::string counted_by(std::string_view identifier) {
    static const auto config = some_config();
    std::string names;
    for (const limit::ChargeItem& item : items_of(identifier, *config)) {
        names += item.policy->name + (item.tier != nullptr ? "/" + item.tier->name : "") + " ";
    }
    return names;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("identifier_query: an identifier of the access log means itself") {
    for (const std::string text :
         {"user:alice", "user:50%25", "user:a%20b", "user:%7Ba%7D", "ip:203.0.113.7",
          "ip:2001:db8::/64", "ip:fe80::/64", "route:search", "header:x-tenant=a b",
          "query:id=%23x", "path:name=a=b", "17:header:x-tenant=a+12:route:search",
          "shared:header:x-tenant+route"}) {
        CAPTURE(text);
        const auto first = meant(text);
        REQUIRE(first.size() == 1);
        CHECK(meant(first[0]) == first);
        if (text != "user:a%20b" && text != "query:id=%23x") CHECK(first[0] == text);
    }
    const std::string hash = "#" + std::string(64, 'a');
    for (const std::string& text :
         {hash, "user:" + hash, "header:x-key=" + hash, "query:" + hash}) {
        CHECK(meant(text) == Texts{text});
    }
}

TEST_CASE("identifier_query: hosts, methods, claims and cookies are written as the log has them") {
    const auto config = loaded(
        "  p: {key: [host, method, \"claim:https://example.com/org\", \"cookie:cart\"], "
        "limits: [5/s]}\n"
        "  q: {key: [\"claim:tenant+host\"], limits: [5/s]}\n",
        "identity: {user: [{jwt: {jwks: \"https://idp.example/k\", algorithms: [ES256]}}]}");
    const auto means = [&](std::string_view text) {
        const auto identifiers = identifiers_meant(text, *config);
        return identifiers ? identifiers->at(0) : "refused: " + identifiers.error();
    };
    const auto counts = [&](std::string_view identifier) {
        std::string names;
        for (const limit::ChargeItem& item : items_of(identifier, *config)) {
            names += item.policy->name;
        }
        return names;
    };
    CHECK(means("host:API.example.com:8080") == "host:api.example.com");
    CHECK(means("host:[2001:DB8::1]:80") == "host:[2001:db8::1]");
    CHECK(counts("host:api.example.com") == "p");
    CHECK(means("method:POST") == "method:POST");
    CHECK(means("method:HEAD") == "method:GET");
    CHECK(means("method:FOO") == "method:other");
    CHECK(counts("method:GET") == "p");
    const std::string claim = "claim:https://example.com/org=acme";
    CHECK(means(claim) == claim);
    CHECK(counts(claim) == "p");
    CHECK(counts("claim:other=acme").empty());
    CHECK(means("claim:tenant=Zo\xc3\xab") == "claim:tenant=Zo%C3%AB");
    CHECK(means("claim:tenant").starts_with("refused: The value is missing"));
    const std::string joined = "17:claim:tenant=acme+14:host:a.example";
    CHECK(means(joined) == joined);
    CHECK(counts(joined) == "q");
    std::string cookie;
    identity::append_secret_identifier("cookie", "cart", "hush", cookie);
    CHECK(means("cookie:cart=hush") == cookie);
    CHECK(means("cookie:cart=h%75sh") == cookie);
    std::string spaced;
    identity::append_secret_identifier("cookie", "cart", "a b", spaced);
    CHECK(means("cookie:cart=a+b") == spaced);
    CHECK(means("cookie:cart=a b") == spaced);
    CHECK(means(cookie) == cookie);
    CHECK(counts(cookie) == "p");
    CHECK(means("cookie:Cart=hush") == "refused: No policy has the key `cookie:Cart`.");
}

TEST_CASE("identifier_query: addresses and users may be written as people know them") {
    CHECK(meant("203.0.113.7") == Texts{"ip:203.0.113.7"});
    CHECK(meant("203.0.113.7/24") == Texts{"ip:203.0.113.0/24"});
    CHECK(meant("ip:203.0.113.0/24") == Texts{"ip:203.0.113.0/24"});
    CHECK(meant("203.0.113.7/33") == Texts{"refused"});
    CHECK(meant("2001:DB8::1") == Texts{"ip:2001:db8::/64", "ip:2001:db8::/48"});
    CHECK(meant("ip:2001:db8::1") == Texts{"ip:2001:db8::/64", "ip:2001:db8::/48"});
    CHECK(meant("ip:2001:db8::1/64") == Texts{"ip:2001:db8::/64"});
    CHECK(meant("::ffff:203.0.113.7") == Texts{"ip:203.0.113.7"});
    CHECK(meant("fe80::1%eth0/64") == Texts{"ip:fe80::/64"});
    CHECK(meant("user:Zo\xc3\xab") == Texts{"user:Zo%C3%AB"});
    CHECK(meant("user:{a}") == Texts{"user:%7Ba%7D"});
    CHECK(meant("user:50%") == Texts{"user:50%25"});
    CHECK(meant("user:a%2") == Texts{"user:a%252"});
    CHECK(meant("user:#a") == Texts{"user:%23a"});
    CHECK(meant(std::string("user:\x1b[31m\0", 11))[0] == "user:%1B[31m%00");
    // As it is counted: by its hash.
    const auto hashed = meant("user:" + std::string(200, 'x'));
    REQUIRE(hashed.size() == 1);
    CHECK(hashed[0].starts_with("user:#"));
    CHECK(hashed[0].size() == 70);
}

TEST_CASE("identifier_query: an IPv4 address is looked up by the prefixes that it is counted by") {
    const auto config = loaded("  p: {key: [ip], limits: [5/s]}\n",
                               "identity: {client_ip: {ipv4_prefix: [24, 32]}}");
    CHECK(*identifiers_meant("203.0.113.7", *config) ==
          Texts{"ip:203.0.113.0/24", "ip:203.0.113.7"});
    CHECK(*identifiers_meant("ip:::ffff:203.0.113.7", *config) ==
          Texts{"ip:203.0.113.0/24", "ip:203.0.113.7"});
    CHECK(*identifiers_meant("203.0.113.7/32", *config) == Texts{"ip:203.0.113.7"});
}

TEST_CASE("identifier_query: fields and parameters are named and written as they are counted") {
    CHECK(meant("header:X-Tenant=A") == Texts{"header:x-tenant=A"});
    CHECK(meant("query:ID=a+b") == Texts{"query:id=a b"});
    CHECK(meant("17:header:X-Tenant=a+12:route:search") ==
          Texts{"17:header:x-tenant=a+12:route:search"});
    CHECK(meant("17:header:x-tenant={+12:route:search") ==
          Texts{"19:header:x-tenant=%7B+12:route:search"});
}

TEST_CASE("identifier_query: a secret is counted by its hash, and never repeated") {
    const auto config = loaded(
        "  keys: {key: [\"header:x-api-key\", \"query:Token\"], limits: [5/s]}\n"
        "  both: {key: [\"header:x-api-key+route\"], limits: [5/s]}\n");
    // SHA-256 of `abc` (FIPS 180-4), and of `a b`.
    const std::string abc = "#ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const std::string header = "header:x-api-key=" + abc;
    const auto one = [&](const std::string& text) {
        const auto identifiers = identifiers_meant(text, *config);
        return identifiers ? identifiers->at(0) : identifiers.error();
    };
    CHECK(one("header:x-api-key=abc") == header);
    CHECK(one("header:X-API-Key=abc") == header);
    CHECK(one(header) == header);
    CHECK(one("query:token=abc") == "query:Token=" + abc);
    std::string spaced;
    identity::append_secret_identifier("query", "Token", "a b", spaced);
    CHECK(one("query:Token=a+b") == spaced);
    CHECK(items_of(one("query:token=a+b"), *config).size() == 1);
    // Encoded, the name alone is longer than other identifiers may be.
    for (const std::size_t encoded : {36, 37, 38, 48}) {
        const std::string name = std::string(encoded, '%') + std::string(48 - encoded, 'a');
        CAPTURE(name);
        const auto long_name = loaded("  keys: {key: [\"cookie:" + name + "\"], limits: [5/s]}\n");
        const auto identifiers = identifiers_meant("cookie:" + name + "=abc", *long_name);
        REQUIRE_FALSE(identifiers.has_error());
        CHECK(items_of(identifiers->at(0), *long_name).size() == 1);
    }
    CHECK(one("20:header:x-api-key=abc+12:route:search") ==
          std::to_string(header.size()) + ":" + header + "+12:route:search");
    for (const std::string text :
         {"header:x-api-key:s3cret", "header:x-api-kez=s3cret", "9:header:x-api-key=s3cret+1:a",
          "23:header:x-api-kez=s3cret+12:route:search", "23:header:x-api-key=s3cret+4:us{r",
          "x-api-key=s3cret"}) {
        CAPTURE(text);
        const auto refused = identifiers_meant(text, *config);
        REQUIRE(refused.has_error());
        CHECK(refused.error().find("s3cret") == std::string::npos);
    }
}

TEST_CASE("identifier_query: a text that is not an identifier is refused") {
    for (const std::string& text : {std::string(),
                                    std::string("alice"),
                                    std::string("user:"),
                                    std::string("ip:"),
                                    std::string("ip:203.0.113.7/33"),
                                    std::string("ip:2001:db8::/129"),
                                    std::string("ip:example.org"),
                                    std::string("header:x-tenant"),
                                    std::string("User:a"),
                                    std::string("5:user"),
                                    std::string("6:user:a"),
                                    std::string("6:user:a+"),
                                    std::string("6:user:a+99:route:x"),
                                    std::string("99999999999999999999:a"),
                                    std::string("#abc"),
                                    std::string("12:route:search+6:user:{"),
                                    std::string("header:x-other=a"),
                                    std::string("query:x-tenant=a"),
                                    std::string("16:header:x-other=a+12:route:search"),
                                    std::string("15:header:x-tenant+12:route:search"),
                                    std::string("\0", 1),
                                    std::string(2'000, 'a'),
                                    "user:" + std::string(2'000, 'a')}) {
        CAPTURE(text);
        CHECK(meant(text) == Texts{"refused"});
    }
    const auto config = some_config();
    const auto why = identifiers_meant("a\n\x1b[31mb", *config).error();
    CHECK(why.find_first_of("\n\x1b") == std::string::npos);
    CHECK(why.find("user:alice") != std::string::npos);
}

TEST_CASE("identifier_query: it is looked up in every policy that could make it, and its tiers") {
    CHECK(counted_by("user:alice") == "by-both by-both/pro by-user ");
    CHECK(counted_by("ip:203.0.113.7") == "by-both by-both/pro by-user ");
    CHECK(counted_by("17:header:x-tenant=a+12:route:search") == "by-tenant ");
    CHECK(counted_by("#" + std::string(64, 'a')) == "by-tenant ");
    CHECK(counted_by("16:header:x-other=a+12:route:search").empty());
    CHECK(counted_by("12:route:search+17:header:x-tenant=a").empty());
    CHECK(counted_by("header:x-tenant=a").empty());
    CHECK(counted_by("query:id=7") == "by-query ");
    CHECK(counted_by("query:#" + std::string(64, 'a')) == "by-query ");
    CHECK(counted_by("query:identity=7").empty());
    CHECK(counted_by("shared:query:id") == "by-query ");
    CHECK(counted_by("shared:user").empty());
    CHECK(counted_by("route:search").empty());
}

TEST_CASE("identifier_query: guesses at credentials are counted by address") {
    const auto config =
        loaded("  p: {key: [user], limits: [5/s]}\n",
               "identity: {user: [{cookie: {name: s}}], failed_credentials: 9/min}");
    const auto items = items_of("ip:203.0.113.7", *config);
    REQUIRE(items.size() == 1);
    CHECK(items[0].policy->name == "failed_credentials");
}

// By SHA-256 .776 of all identifiers are below the first, .050 below the second.
TEST_CASE("identifier_query: of a policy with `enforce`, the twin that counts the identifier") {
    const auto config =
        loaded("  p: {key: [ip], limits: [5/s], enforce: 25%, candidate: {limits: [9/s]}}\n");
    const auto modes_of = [&](const std::string& identifier) {
        std::string modes;
        for (const limit::ChargeItem& item : items_of(identifier, *config)) {
            modes += item.policy->name + (item.policy->is_enforced() ? ": live " : ": shadow ");
        }
        return modes;
    };
    CHECK(modes_of("ip:203.0.113.5") == "p: shadow p@candidate: shadow ");
    CHECK(modes_of("ip:203.0.113.9") == "p: live p@candidate: shadow ");
}

namespace {

// What is counted for `user:a` of tier pro by a policy `p` with the tiers pro and free.
struct CountedUser {
    explicit CountedUser(const std::string& limit = "{quota: 4, per: 1s}",
                         const std::string& mode = "shadow")
        : config(loaded("  p: {key: [user], mode: " + mode + ", limits: [" + limit + "]}\n")) {
        inspected.identifier = "user:a";
        inspected.items = items_of("user:a", *config);
        inspected.counts.items.resize(inspected.items.size());
        for (std::size_t i = 0; i < inspected.items.size(); ++i) {
            inspected.counts.items[i].limits.resize(inspected.items[i].limits().size());
        }
        count() = {.counted = 3, .remaining = 1, .next_unit = limit::Micros{1}};
    }

    store::LimitCount& count() { return inspected.counts.items.at(0).limits.at(0); }
    AdminAnswer answer() const { return answer_to_inspect({inspected}, *config, "redis"); }
    void says(const std::string& part) const {
        CHECK_MESSAGE(answer().text.find(part) != std::string::npos, answer().text);
    }

    std::shared_ptr<const config::Config> config;
    Inspected inspected;
};

void denied_for(std::optional<limit::Micros> time, const std::string& part,
                const std::string& mode = "shadow") {
    CountedUser user("{quota: 4, per: 1s}", mode);
    user.count().denied = true;
    user.count().denied_for = time;
    user.says(part);
}

}  // namespace

TEST_CASE("inspect text: a table with a line for each limit") {
    const AdminAnswer answer = CountedUser().answer();
    CHECK(answer.exit_code == 0);
    CHECK(answer.text ==
          "user:a, counted in Redis\n"
          "  POLICY     LIMIT  COUNTED  QUOTA  LEFT  NEXT UNIT  ALL FREE  NOW\n"
          "  p, shadow  p-1s   3        4      1     1ms        -         admits\n");
    CountedUser more;
    more.count().counted_all = false;
    more.says("3 or more");
}

TEST_CASE("inspect text: a policy with tiers labels each row with its tier") {
    const auto config = loaded("  plan: {key: [user], limits: [4/s], tiers: {pro: [9/s]}}\n");
    Inspected inspected{"user:a", "pro", items_of("user:a", *config), {}};
    inspected.counts.items = {{.limits = {{.counted = 1, .remaining = 3}}},
                              {.limits = {{.counted = 2, .remaining = 7}}}};
    CHECK(answer_to_inspect({inspected}, *config, "memory").text ==
          "user:a, counted in process, of tier pro\n"
          "  POLICY          LIMIT    COUNTED  QUOTA  LEFT  NEXT UNIT  ALL FREE  NOW\n"
          "  plan (no tier)  plan-1s  1        4      3     -          -         admits\n"
          "  plan (pro)      plan-1s  2        9      7     -          -         admits\n"
          "  A request meets one row of each policy: that of its tier. `tidegate explain` shows "
          "the tier of a request.\n");
}

TEST_CASE("inspect text: of a policy with leases it says how much of the count is in batches") {
    const auto config = loaded("  p: {key: [user], limits: [4/s], lease: {slack: 12.5%}}\n");
    Inspected inspected{"user:a", "", items_of("user:a", *config), {}, {7}};
    inspected.counts.items = {{.limits = {{.counted = 9, .remaining = 3}}}};
    const AdminAnswer answer = answer_to_inspect({inspected}, *config, "redis");
    CHECK(answer.text.find("  p: threads of this proxy hold 7 of the counted units in leases, and "
                           "all proxies at most 12.5% of each quota\n") != std::string::npos);
    CHECK(answer.body.find("\"leased\"") != std::string::npos);
}

TEST_CASE("inspect text: times are rounded up, never down") {
    using limit::Micros;
    denied_for(Micros{1}, "denies for 1ms");
    denied_for(Micros{999'000}, "denies for 999ms");
    denied_for(Micros{999'001}, "denies for 1.0s");
    denied_for(Micros{12'300'001}, "denies for 12.4s");
    denied_for(Micros{59'900'001}, "denies for 1min 0s");
    denied_for(Micros{3'599'000'001}, "denies for 1h 0min");
    denied_for(Micros{86'400'000'000}, "denies for 1d 0h");
    denied_for(std::nullopt, "denies\n");
    denied_for(limit::kNever, "always denies");
}

TEST_CASE("inspect text: a soft policy is over, as it denies nothing") {
    denied_for(limit::Micros{12'300'001}, "  over for 12.4s", "soft");
    denied_for(std::nullopt, "  over\n", "soft");
    denied_for(limit::kNever, "  always over\n", "soft");
    denied_for(limit::Micros{12'300'001}, "denies for 12.4s", "enforce");
}

TEST_CASE("inspect text: moments, and counts of an older configuration") {
    CountedUser booked("{algorithm: schedule, quota: 5, per: 1h, at: {header: x-at}}", "enforce");
    booked.count().moments = {limit::Micros{1'767'225'600'000'000}};
    booked.says("booked in p-1h-schedule:\n    2026-01-01T00:00:00Z\n    and 2 more\n");
    CountedUser older;
    older.inspected.counts.items.at(0).others = {{0x0a0b0c0d, limit::Micros{2'000'000}}};
    older.says(": still holds 0a0b0c0d, of a limit that was removed, for 2.0s\n");
    const auto config = some_config();
    const AdminAnswer none = answer_to_inspect({{"route:x", {}, {}, {}}}, *config, "memory");
    CHECK(none.text == "route:x, counted in process\n  no policy counts it\n");
    CHECK(none.exit_code == 1);
}

TEST_CASE("reset text: the policies that counted something; control characters are escaped") {
    const auto config = some_config();
    const auto items = items_of("user:alice", *config);
    std::vector<bool> any(items.size(), false);
    const AdminAnswer none = answer_to_reset({{"user:\x1b[31m", items, any}}, "memory");
    CHECK(none.text == "user:\\u001b[31m, counted in process\n  nothing was counted\n");
    CHECK(none.exit_code == 1);
    any[0] = any[1] = true;
    const AdminAnswer answer = answer_to_reset({{"user:alice", items, any}}, "redis");
    CHECK(answer.text == "user:alice, counted in Redis\n  by-both: forgotten\n");
    CHECK(answer.exit_code == 0);
}

}  // namespace tidegate::admin::inspect_reset_answer_test
