// The fields about the client that the upstream gets, which only the proxy can set.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "integration/limiter_world.hpp"
#include "integration/tokens.hpp"

namespace tidegate::test::identity_forward_test {

namespace {

struct World {
    TemporaryFolder folder;
    std::string keys = folder.write(
        "keys.yaml", api_key_file({{"key-of-alice", "alice", "pro"}, {"key-of-bob", "bob"}}));
    Upstream upstream{ok()};

    std::string with(const std::string& more = "") const {
        return identified(upstream, "user: [{api_key: {keys: \"" + keys + "\"}}]" + more);
    }
};

const std::string kAlice = line("X-Api-Key", "key-of-alice");
const std::string kBob = line("X-Api-Key", "key-of-bob");
const std::string kFromHere = ", client_ip: {trusted_proxies: [127.0.0.1]}";

// Each way in which a client could try to set them in the proxy's place.
std::string forged() {
    std::string fields;
    for (const char* name :
         {"X-Auth-User", "x-auth-user", "X-AUTH_USER", "x_auth_user", "X_Auth-User", "X-Auth-Tier",
          "x_auth_tier", "X-Client", "x_client", "X_CLIENT"}) {
        fields += line(name, "mallory");
    }
    return fields;
}

// The values that the upstream got under that name, in any spelling.
std::vector<std::string> told(const Message& request, const std::string& name) {
    std::vector<std::string> values;
    const auto look = [&](const FieldList& fields) {
        for (auto [spelling, value] : fields) {
            for (char& c : spelling) c = c == '_' ? '-' : c;
            if (same_name(spelling, name)) values.push_back(value);
        }
    };
    look(request.fields);
    look(request.trailers);
    return values;
}

using Values = std::vector<std::string>;

}  // namespace

TEST_CASE("forward_as: the upstream gets user, tier and address from the proxy alone") {
    const World world;
    const Tidegate tidegate(world.with());
    CHECK(tidegate.get("/", forged() + kAlice + forged()).status() == 200);
    Message request = world.upstream.last();
    CHECK(told(request, "x-auth-user") == Values{"alice"});
    CHECK(told(request, "x-auth-tier") == Values{"pro"});
    CHECK(told(request, "x-client") == Values{"127.0.0.1"});
    CHECK(request.field("x-api-key") == "key-of-alice");  // goes on as it came

    CHECK(tidegate.get("/", forged() + kBob).status() == 200);
    request = world.upstream.last();
    CHECK(told(request, "x-auth-user") == Values{"bob"});
    CHECK(told(request, "x-auth-tier").empty());
}

TEST_CASE("forward_as: an anonymous request has only the address") {
    const World world;
    std::string fields = forged();
    std::string mode;
    SUBCASE("without a credential") {}
    SUBCASE("with a wrong one") {
        fields += line("X-Api-Key", "wrong");
        mode = ", on_invalid_credentials: anonymous";
    }
    const Tidegate tidegate(world.with(mode));
    CHECK(tidegate.get("/", fields, "127.0.0.2").status() == 200);
    CHECK(told(world.upstream.last(), "x-auth-user").empty());
    CHECK(told(world.upstream.last(), "x-auth-tier").empty());
    CHECK(told(world.upstream.last(), "x-client") == Values{"127.0.0.2"});
}

TEST_CASE("forward_as: a trusted peer cannot set the fields, and its client's address is sent") {
    const World world;
    const Tidegate tidegate(world.with(kFromHere));
    const std::string through = line("X-Forwarded-For", "10.1.1.1, 198.51.100.7") + forged();
    CHECK(tidegate.get("/", through + kAlice).status() == 200);
    CHECK(told(world.upstream.last(), "x-auth-user") == Values{"alice"});
    CHECK(told(world.upstream.last(), "x-auth-tier") == Values{"pro"});
    CHECK(told(world.upstream.last(), "x-client") == Values{"198.51.100.7"});
    CHECK(tidegate.get("/", through).status() == 200);
    CHECK(told(world.upstream.last(), "x-auth-user").empty());
    CHECK(told(world.upstream.last(), "x-auth-tier").empty());
}

TEST_CASE("forward_as: naming the fields in Connection does not take them away") {
    const World world;
    const Tidegate tidegate(world.with());
    const std::string options =
        line("Connection", "x-auth-user, X-Auth-Tier, x_auth_user, x-client");
    CHECK(tidegate.client().get("/", options + forged() + kAlice).status() == 200);
    CHECK(told(world.upstream.last(), "x-auth-user") == Values{"alice"});
    CHECK(told(world.upstream.last(), "x-auth-tier") == Values{"pro"});
    CHECK(told(world.upstream.last(), "x-client") == Values{"127.0.0.1"});
    CHECK(!world.upstream.last().has("Connection"));
    CHECK(tidegate.client().get("/", options + forged()).status() == 200);
    CHECK(told(world.upstream.last(), "x-auth-user").empty());
}

TEST_CASE("forward_as: a credential that Connection names identifies no user, and goes no further" *
          only_over_http1("it has no Connection")) {
    const World world;
    const Tidegate tidegate(world.with());
    const auto answer = tidegate.client().get("/", line("Connection", "x-api-key") + kAlice);
    // The upstream does not get the credential, so here it identifies no user either.
    CHECK(answer.status() == 200);
    CHECK(told(world.upstream.last(), "x-auth-user").empty());
    CHECK_FALSE(world.upstream.last().has("X-Api-Key"));
}

TEST_CASE("forward_as: no trailer sets the fields") {
    const World world;
    std::string more;
    SUBCASE("of anybody") {}
    SUBCASE("of a trusted peer") {
        more = kFromHere;
    }
    const Tidegate tidegate(world.with(more));
    auto client = tidegate.client();
    const std::string head =
        "POST / HTTP/1.1\r\nHost: example.test\r\nTE: trailers\r\n"
        "Trailer: x-auth-user, x-sum\r\nTransfer-Encoding: chunked\r\n";
    for (const auto& credential : {kAlice, kBob, std::string()}) {
        const auto answer = client.ask(head + credential + "\r\n" + chunk("body") + "0\r\n" +
                                       forged() + line("X-Sum", "7") + "\r\n");
        CHECK(answer.status() == 200);
        const Message request = world.upstream.last();
        CHECK(request.body == "body");
        CHECK(told(request, "x-auth-user").size() == (credential.empty() ? 0 : 1));
        CHECK(told(request, "x-auth-tier").size() == (credential == kAlice ? 1 : 0));
        CHECK(told(request, "x-client") == Values{"127.0.0.1"});
        CHECK(told(request, "x-sum") == Values{"7"});
    }
}

TEST_CASE("identity: credentials in trailers go no further") {
    const World world;
    const Tidegate tidegate(world.with());
    const auto answer = tidegate.client().ask(
        "POST / HTTP/1.1\r\nHost: example.test\r\nTransfer-Encoding: chunked\r\n\r\n" +
        chunk("body") + "0\r\n" + line("Authorization", "Basic YTpi") + line("Cookie", "a=1") +
        line("X_Api_Key", "key") + line("X-Sum", "7") + "\r\n");
    CHECK(answer.status() == 200);
    const Message request = world.upstream.last();
    for (const char* name : {"authorization", "cookie", "x_api_key"}) {
        CHECK_MESSAGE(told(request, name).empty(), name);
    }
    CHECK(told(request, "x-sum") == Values{"7"});
}

TEST_CASE("forward_as: X-Real-IP is the proxy's own, and there once") {
    const World world;
    const std::string told_as = "identity: {forward_as: {client_ip: X-Real-IP}}\n";
    std::string more;
    SUBCASE("beside other forwarding fields") {}
    SUBCASE("without them") {
        more = "forwarding: {x_forwarded: off}\n";
    }
    const Tidegate tidegate(told_as + more +
                            one_policy(world.upstream, "{key: [ip], limits: [9/h]}"));
    CHECK(tidegate.get("/", line("X-Real-IP", "192.0.2.1") + line("x_real_ip", "192.0.2.1"))
              .status() == 200);
    CHECK(told(world.upstream.last(), "x-real-ip") == Values{"127.0.0.1"});
}

TEST_CASE("forward_as: without forward_as the upstream gets no fields") {
    const World world;
    const Tidegate tidegate("identity: {user: [{api_key: {keys: \"" + world.keys + "\"}}]}\n" +
                            one_policy(world.upstream, "{key: [ip, user], limits: [9/h]}"));
    CHECK(tidegate.get("/", kAlice).status() == 200);
    for (const auto& [name, value] : world.upstream.last().fields) {
        CHECK_MESSAGE(value.find("alice") == (same_name(name, "x-api-key") ? 7 : std::string::npos),
                      name);
    }
}

TEST_CASE("forward_as: a name of many letters reaches the upstream as it is") {
    const World world;
    world.folder.write("keys.yaml",
                       api_key_file({{"one", "gr\xc3\xbcn, \\\"x\\\"; <b> %41"}, {"two", "a b"}}));
    const Tidegate tidegate(world.with());
    CHECK(tidegate.get("/", line("X-Api-Key", "one")).status() == 200);
    CHECK(last_user(world.upstream) == "gr\xc3\xbcn, \"x\"; <b> %41");
    CHECK(tidegate.get("/", line("X-Api-Key", "two")).status() == 200);
    CHECK(last_user(world.upstream) == "a b");
}

}  // namespace tidegate::test::identity_forward_test
