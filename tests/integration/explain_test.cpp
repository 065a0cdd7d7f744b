// `tidegate explain`: it states for a request what the running proxy does with it, and takes
// nothing.
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/client.hpp"
#include "integration/process.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::explain_test {

using nlohmann::json;

namespace {

// SHA-256 of `the-key`.
constexpr const char* kApiKeys =
    "ad44dc8e51cfbfa55e81ddbb626b466241069045066846e7e4cd096131505290: {user: bob, tier: pro}\n";

std::string gateway(const std::string& upstream, const std::string& keys) {
    return "identity:\n"
           "  client_ip: {trusted_proxies: [127.0.0.1], ipv6_prefix: [56, 64]}\n"
           "  user:\n"
           "    - api_key: {header: x-api-key, namespace: key, keys: " +
           keys +
           "}\n"
           "    - header: {name: x-user-id, from: trusted_proxies}\n"
           "upstreams: {api: {servers: [" +
           upstream +
           "]}}\n"
           "policies:\n"
           "  per-client: {key: [ip, user], limits: [1000/s], exempt: [192.0.2.0/24]}\n"
           "  tenants: {key: ['header:x-tenant+route'], limits: [1000/min],\n"
           "            tiers: {pro: unlimited}, deny: ['user:mallory']}\n"
           "routes:\n"
           "  - {name: write, match: {path: /v1/items, methods: [POST]}, policies: []}\n"
           "  - {name: items, match: {path: '/v1/items/**'}, policies: [per-client]}\n"
           "  - {name: tenants, match: {path: '/t/{id}'}, policies: [tenants]}\n";
}

struct Asked {
    std::string path;
    std::vector<std::string> fields;
};

// From 127.0.0.1, which is trusted.
const Asked kAsked[] = {
    {"/v1/items", {}},
    {"/v1/items/7?token=1", {"X-Forwarded-For: 203.0.113.7"}},
    {"/v1/items", {"X-Forwarded-For: 192.0.2.1", "X-User-Id: alice"}},
    {"/v1/items", {"X-Forwarded-For: 198.51.100.1, [2001:db8:1:2ff::7]:4711, 127.0.0.1"}},
    {"/v1/items", {"X-Forwarded-For: unknown"}},
    {"/v1/items", {"X-Forwarded-For: fe80::7%eth0", "X-User-Id: {alice}"}},
    {"/v1/items", {"X-Api-Key: the-key"}},
    {"/v1/items", {"X-Api-Key: another"}},
    {"/v1/items", {"X-User-Id: alice", "X-User-Id: bob"}},
    {"/t/1", {"X-Tenant: acme"}},
    {"/t/1", {"X-Tenant: acme", "X-Api-Key: the-key"}},
    {"/t/1", {"X-Tenant: acme", "X-User-Id: mallory"}},
    {"/t/1", {}},
    {"/t/1", {"X-Tenant: a", "X-Tenant: b"}},
    {"/nowhere", {}},
    {"/v1%2Fitems", {}},
    {"/v1/items", {"X Y: 1"}},
    {"/v1/items", {"Transfer-Encoding: gzip"}},
};

json explained(const std::string& file, const Asked& asked) {
    std::vector<std::string> arguments = {"explain", "-c",        file,     "--json",
                                          "--from",  "127.0.0.1", "--host", "example.test",
                                          "--path",  asked.path};
    for (const std::string& field : asked.fields) {
        arguments.emplace_back("--header");
        arguments.push_back(field);
    }
    const auto finished = run_tidegate(arguments);
    REQUIRE_MESSAGE(finished.code == 0, finished.errors);
    return json::parse(finished.output);
}

json identifiers_of(const json& told) {
    json all = json::array();
    for (const json& policy : told.value("policies", json::array())) {
        for (const json& key : policy["keys"]) {
            for (const json& identifier : key["identifiers"]) all.push_back(identifier);
        }
    }
    return all;
}

}  // namespace

TEST_CASE("explain: it decides about a request as the proxy does") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string yaml = gateway(upstream.url(), folder.write("api-keys.yaml", kApiKeys));
    const std::string file = folder.write("t.yaml", yaml);
    const Tidegate tidegate(yaml);
    std::size_t lines = 0;
    for (const Asked& asked : kAsked) {
        std::string fields;
        for (const std::string& field : asked.fields) fields += field + "\r\n";
        // In HTTP/2, the one is no request, and the other not said.
        const bool is_http1 = fields.starts_with("X Y:") || fields.starts_with("Transfer-Encoding");
        if (over_http2() && is_http1) continue;
        CAPTURE(asked.path);
        CAPTURE(fields);
        const Message answer = tidegate.client().ask(
            "GET " + asked.path + " HTTP/1.1\r\nHost: example.test\r\n" + fields + "\r\n");
        const json did = tidegate.access_log(++lines).back();
        const json said = explained(file, asked);
        CAPTURE(said.dump(1));
        CHECK(did.at("status") == said["result"].value("status", 200));
        if (did.at("status") != 200) {
            CHECK(json::parse(answer.body).at("detail") == said["result"]["reason"]);
            continue;
        }
        CHECK(did.at("client") == said["client"]["address"]);
        CHECK(did.at("route") == said["route"]["name"]);
        CHECK(did.value("identifiers", json::array()) == identifiers_of(said));
    }
}

TEST_CASE("explain: it needs no network, no store and no upstream") {
    const TemporaryFolder folder;
    const auto file = folder.write("t.yaml",
                                   "upstream: http://127.0.0.1:1\nlimits: [1/h]\n"
                                   "store: {redis: {url: 'redis://127.0.0.1:1'}}\nreplicas: 1\n");
    for (int i = 0; i < 3; ++i) {
        const auto finished = run_tidegate({"explain", "-c", file, "--from", "203.0.113.7"});
        CHECK(finished.code == 0);
        CHECK(finished.errors.empty());
        CHECK(finished.output.find("forwarded if the limits admit it") != std::string::npos);
    }
    const auto socket = run_tidegate(
        {"explain", "-c", file, "--trusted-socket", "--header", "X-Forwarded-For: 2001:db8::7"});
    CHECK(socket.code == 0);
    CHECK(socket.output.find("ip:2001:db8::/64") != std::string::npos);
}

TEST_CASE("explain: of several listeners of a face one is chosen, and none is guessed") {
    const TemporaryFolder folder;
    const auto file = folder.write(
        "t.yaml",
        "listen:\n"
        "  - {address: \"127.0.0.1:8181\", face: forward_auth, dialect: envoy, path_prefix: /a}\n"
        "  - {address: \"127.0.0.1:8182\", face: forward_auth, dialect: nginx}\n"
        "  - {address: \"unix:/run/t.sock\", face: forward_auth, dialect: envoy}\n"
        "  - {address: \"127.0.0.1:8184\", face: check}\n"
        "limits: [5/h]\n");
    const auto ask = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"explain", "-c", file, "--json", "--path", "/a/x"});
        return run_tidegate(more);
    };
    const auto path_of = [](const Finished& finished) {
        REQUIRE_MESSAGE(finished.code == 0, finished.errors);
        return json::parse(finished.output).at("request").at("path");
    };
    const auto ambiguous = ask({"--face", "forward_auth", "--from", "127.0.0.1"});
    CHECK(ambiguous.code == 2);
    CHECK(ambiguous.errors.find("127.0.0.1:8181, 127.0.0.1:8182, unix:/run/t.sock") !=
          std::string::npos);
    CHECK(path_of(ask({"--listen", "127.0.0.1:8181", "--from", "127.0.0.1"})) == "/x");
    CHECK(path_of(ask({"--listen", "unix:/run/t.sock"})) == "/a/x");
    const auto nginx = ask({"--listen", "127.0.0.1:8182", "--from", "127.0.0.1"});
    CHECK(json::parse(nginx.output).at("result").at("status") == 400);

    CHECK(ask({"--listen", "127.0.0.1:8181"}).code == 2);  // without `--from`
    CHECK(ask({"--listen", "unix:/run/t.sock", "--from", "127.0.0.1"}).code == 2);
    CHECK(ask({"--listen", "unix:/run/t.sock", "--trusted-socket"}).code == 2);
    CHECK(ask({"--listen", "127.0.0.1:8184", "--face", "forward_auth"}).code == 2);
    CHECK(ask({"--listen", "127.0.0.1:1", "--from", "127.0.0.1"}).code == 2);
    CHECK(ask({"--listen", "nonsense", "--from", "127.0.0.1"}).code == 2);
}

TEST_CASE("explain: for a call of the check API it shows what the call counts, and takes nothing") {
    const std::uint16_t port = free_port();
    const Tidegate tidegate(
        "listen: {address: \"127.0.0.1:" + std::to_string(port) +
        "\", face: check}\npolicies: {per-user: {key: [user], limits: [5/h]}, per-ip: {key: [ip], "
        "limits: [5/h]}}\nroutes: [{name: api, match: {path: /v1/**}, policies: [per-ip]}]\n");
    const TemporaryFolder folder;
    const auto explain_body = [&](const std::string& body, std::vector<std::string> more = {}) {
        more.insert(more.begin(), {"explain", "-c", tidegate.file(), "--json", "--face", "check",
                                   "--body", folder.write("call.json", body)});
        return run_tidegate(more);
    };
    std::size_t calls = 0;
    for (const std::string body :
         {R"({"policy":"per-user","identifiers":{"user":"alice"},"cost":4})",
          R"({"request":{"path":"/v1/x","from":"2001:db8::7"}})", R"({"policy":"none"})",
          R"({"policy":"per-user"})", "[]"}) {
        CAPTURE(body);
        const auto finished = explain_body(body);
        REQUIRE_MESSAGE(finished.code == 0, finished.errors);
        const json told = json::parse(finished.output);
        const Message answer = RawClient(port).ask(post_request("/v1/check", body));
        ++calls;
        const json line = tidegate.access_log(calls).at(calls - 1);
        if (answer.status() == 200) {
            CHECK(identifiers_of(told) == line.at("identifiers"));
            // With all of it charged once, by the call.
            const int left = json::parse(answer.body).at("limits")[0].at("left").get<int>();
            CHECK(left == 5 - told.at("cost").at("units").get<int>());
        } else {
            CHECK(told.at("result").at("status") == answer.status());
            CHECK(json::parse(answer.body).at("detail") == told.at("result").at("reason"));
        }
    }
    CHECK(explain_body("{}", {"--from", "203.0.113.7"}).output.find("403") != std::string::npos);
    CHECK(explain_body(std::string(70'000, ' ')).code == 2);
    CHECK(explain_body("{}", {"--header", "A: 1"}).code == 2);
    CHECK(explain_body("{}", {"--path", "/v1/settle"}).code == 2);
    CHECK(run_tidegate({"explain", "-c", tidegate.file(), "--face", "check"}).code == 2);
}

TEST_CASE("explain: the exit code is 2 for wrong use and 1 for a faulty configuration") {
    const TemporaryFolder folder;
    const auto file = folder.write("t.yaml", "upstream: http://127.0.0.1:1\nlimits: [1/h]\n");
    const auto code = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"explain", "-c", file});
        const auto finished = run_tidegate(more);
        CHECK(finished.output.empty());
        CHECK_FALSE(finished.errors.empty());
        return finished.code;
    };
    CHECK(code({}) == 2);
    CHECK(code({"--from", "localhost"}) == 2);
    CHECK(code({"--from", "203.0.113.07"}) == 2);
    CHECK(code({"--from", "203.0.113.7", "--trusted-socket"}) == 2);
    CHECK(code({"--from", "203.0.113.7", "--header", "nonsense"}) == 2);
    CHECK(code({"--from", "203.0.113.7", "--header", "A: 1\r\nB: 2"}) == 2);
    CHECK(code({"--from", "203.0.113.7", "--path", "/ HTTP/1.1\r\nHost: a"}) == 2);
    CHECK(code({"--from", "203.0.113.7", "--method", "GET\n"}) == 2);
    CHECK(code({"--from", "203.0.113.7", "--host", "a\nb"}) == 2);
    CHECK(code({"--from", "203.0.113.7", "more"}) == 2);

    const auto bad = folder.write("bad.yaml", "upstream: http://127.0.0.1:1\nlimits: [1/x]\n");
    const auto finished = run_tidegate({"explain", "-c", bad, "--from", "203.0.113.7"});
    CHECK(finished.code == 1);
    CHECK(finished.output.empty());
    CHECK(finished.errors.find("bad.yaml:2:10: error:") != std::string::npos);
}

}  // namespace tidegate::test::explain_test
