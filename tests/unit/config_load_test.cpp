#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "places.hpp"

namespace tidegate::config_load_test {

using namespace std::chrono_literals;
using config::load_file;
using config::load_text;
using config::Loaded;

namespace {

const std::string kExamples = test::source_folder() + "/config";
constexpr const char* kUpstream = "upstream: http://127.0.0.1:3000\n";

std::string content_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    REQUIRE(file.is_open());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::string> environment(std::string_view name) {
    if (name == "PORT") return "3001";
    if (name == "TRICKY") return "a: b # [c]";
    return std::nullopt;
}

// The configuration of `text`, which must have no fault.
std::shared_ptr<const config::Config> read(const std::string& text) {
    const Loaded loaded = load_text(text, "test.yaml", environment);
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded.config;
}

std::string first_error(const std::string& text) {
    const Loaded loaded = load_text(text, "e", environment);
    CHECK(loaded.config == nullptr);
    return loaded.errors.empty() ? "" : loaded.errors[0].to_string();
}

// A folder for one test, removed with all that is in it.
struct Folder {
    std::string path;

    Folder() {
        std::string name = std::filesystem::temp_directory_path() / "tidegate-config-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::string write(const std::string& name, const std::string& content) const {
        std::ofstream(path + "/" + name, std::ios::binary) << content;
        return path + "/" + name;
    }
};

constexpr const char* kLong = R"(
upstreams:
  api: {servers: [http://a:81, {url: "http://b", weight: 3}, "unix:/run/c.sock"], retries: 0}
  web: {servers: http://w, max_connections: 8, timeouts: {connect: 1s}}
policies:
  one: {key: ip, limits: [10/s], on_store_failure: deny}
  two: {key: [user, ip], limits: [[60, 100], {quota: 9, per: 1h, algorithm: fixed_window, anchor: first_request}]}
default_policies: [one]
on_store_failure: allow
routes:
  - {name: login, match: {path: /login, methods: [POST]}, upstream: api, cost: 5, policies: [{key: [ip], limits: [5/15min]}, two]}
  - {match: {host: "Web.Example.", headers: {X-Beta: "1"}}, upstream: web, policies: []}
  - {upstream: api, policies: [two]}
)";

}  // namespace

TEST_CASE("config: every example is read without a warning") {
    std::size_t examples = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kExamples)) {
        if (entry.path().extension() != ".yaml" || entry.path().stem() == "prices") continue;
        ++examples;
        const Loaded loaded = load_file(entry.path().string(), environment);
        for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
        for (const auto& warning : loaded.warnings) FAIL_CHECK(warning.to_string());
        CHECK(loaded.config != nullptr);
    }
    CHECK(examples >= 5);
}

TEST_CASE("config: the quickstart is config/quickstart.yaml, and ten a minute") {
    CHECK(config::quickstart_text() == content_of(kExamples + "/quickstart.yaml"));
    const Loaded loaded = config::quickstart();
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.warnings.empty());
    CHECK(loaded.config->listen.at(0).address.to_string() == "127.0.0.1:8080");
    CHECK(loaded.config->admin->address.to_string() == "127.0.0.1:9901");
    CHECK(loaded.config->upstreams.at(0).servers.at(0).address.to_string() == "127.0.0.1:9000");
    CHECK(loaded.config->policies.at(0)->limits.at(0).quota == 10);
    CHECK(loaded.config->policies.at(0)->limits.at(0).duration == 60s);
}

TEST_CASE("config: the quickstart over TLS is the quickstart but for its listeners") {
    std::string text(config::quickstart_tls_text());
    CHECK(text.find(config::kQuickstartCertificate) != std::string::npos);
    CHECK(text.find(config::kQuickstartKey) != std::string::npos);
    const std::size_t rest = text.find("admin:");
    REQUIRE(rest != std::string::npos);
    const Loaded plain = config::quickstart();
    const Loaded loaded =
        config::load_text("listen: 127.0.0.1:8080\n" + text.substr(rest), "quickstart");
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.warnings.empty());
    CHECK(loaded.config->admin->address == plain.config->admin->address);
    CHECK(loaded.config->upstreams.at(0).servers.at(0).address ==
          plain.config->upstreams.at(0).servers.at(0).address);
    const auto& limit = loaded.config->policies.at(0)->limits.at(0);
    CHECK(limit.quota == plain.config->policies.at(0)->limits.at(0).quota);
    CHECK(limit.duration == plain.config->policies.at(0)->limits.at(0).duration);
}

TEST_CASE("config: missing keys have the documented defaults") {
    const auto config = read(kUpstream);
    REQUIRE(config->listen.size() == 1);
    CHECK(config->listen[0].address.to_string() == "[::]:8080");
    CHECK_FALSE(config->listen[0].trusted);
    REQUIRE(config->admin);
    CHECK(config->admin->address.to_string() == "127.0.0.1:9901");
    CHECK(config->admin->token.empty());
    CHECK(config->threads == 0);
    CHECK_FALSE(config->replicas);
    CHECK(std::holds_alternative<config::MemoryStoreSettings>(config->store));
    CHECK(config->client_ip.trusted_proxies.empty());
    CHECK(config->client_ip.prefixes.ipv4 == std::vector<int>{32});
    CHECK(config->client_ip.prefixes.ipv6 == std::vector<int>{64});
    CHECK(config->forwarding.x_forwarded);
    CHECK_FALSE(config->forwarding.forwarded);
    CHECK(config->response.status == 429);
    CHECK(config->limits_on_requests.header_bytes == 32 * 1024);
    CHECK(config->limits_on_requests.body_bytes == config::RequestBounds::kUnlimited);
    CHECK(config->limits_on_requests.body_rate == 240);
    CHECK(config->timeouts.client_idle == 80s);
    CHECK(config->timeouts.hold_aborted == 5s);
    CHECK(config->timeouts.request_body_total == 1h);
    CHECK(config->timeouts.tunnel_idle == 10min);
    CHECK(config->timeouts.drain_tunnels == 30s);
    CHECK_FALSE(config->routes.at(0).takes_websockets);
    CHECK(config->log.access_path == "-");
}

TEST_CASE("config: the pace of bodies is a size a second and a time, and each can be off") {
    const auto paced = [](const std::string& rate, const std::string& total) {
        return read(std::string(kUpstream) + "limits_on_requests: {body_rate: " + rate +
                    "}\ntimeouts: {request_body_total: " + total + "}\n");
    };
    CHECK(paced("10KiB", "5min")->limits_on_requests.body_rate == 10'240);
    CHECK(paced("10KiB", "5min")->timeouts.request_body_total == 5min);
    CHECK(paced("off", "off")->limits_on_requests.body_rate == 0);
    CHECK(paced("off", "off")->timeouts.request_body_total == 0s);
}

TEST_CASE("config: hold_aborted is a time up to an hour, and may be none") {
    const std::string upstream = "upstream: http://127.0.0.1:3000\n";
    CHECK(read(upstream + "timeouts: {hold_aborted: 0s}\n")->timeouts.hold_aborted == 0s);
    CHECK(read(upstream + "timeouts: {hold_aborted: 1h}\n")->timeouts.hold_aborted == 1h);
}

TEST_CASE("config: the short form is one upstream, one policy and one route") {
    const auto config = read("upstream: http://127.0.0.1:3000\nlimits: [10/s, 120/min, 240/h]\n");
    REQUIRE(config->upstreams.size() == 1);
    CHECK(config->upstreams[0].name == "default");
    REQUIRE(config->policies.size() == 1);
    const config::PolicySettings& policy = *config->policies[0];
    CHECK(policy.name == "default");
    CHECK(policy.key == std::vector<limit::Key>{limit::single_key(limit::KeyPart::Kind::ip),
                                                limit::single_key(limit::KeyPart::Kind::user)});
    REQUIRE(policy.limits.size() == 3);
    CHECK(policy.limits[2].quota == 240);
    CHECK(policy.limits[2].duration == 1h);
    CHECK(policy.limits[2].precision == 1min);
    REQUIRE(config->routes.size() == 1);
    CHECK(config->routes[0].name == "default");
    CHECK(config->routes[0].policies == std::vector<const config::PolicySettings*>{&policy});
    const http::Fields none;
    const auto matched = config->router.match({"DELETE", "/any/where", "h", &none});
    CHECK(matched.outcome == routing::MatchOutcome::matched);
    CHECK(matched.route == 0);
}

TEST_CASE("config: without limits no request is limited") {
    const auto config = read(kUpstream);
    CHECK(config->policies.empty());
    CHECK(config->routes.at(0).policies.empty());
}

TEST_CASE("config: a list of seconds and quota is a window that begins anew") {
    const auto config =
        read(std::string(kUpstream) + "limits: [[60, 10], [3600, 100, 60], [0.5, 2]]\n");
    const auto& limits = config->policies.at(0)->limits;
    REQUIRE(limits.size() == 3);
    CHECK(limits[0].duration == 60s);
    CHECK(limits[0].precision == 60s);
    CHECK(limits[0].blocks == 1);
    CHECK(limits[1].precision == 60s);
    CHECK(limits[1].blocks == 60);
    CHECK(limits[2].duration == 500ms);
}

TEST_CASE("config: routes meet default_policies first, then their own") {
    const auto config = read(kLong);
    REQUIRE(config->routes.size() == 3);
    const auto names = [&](std::size_t route) {
        std::vector<std::string> out;
        for (const auto* policy : config->routes[route].policies) out.push_back(policy->name);
        return out;
    };
    CHECK(names(0) == std::vector<std::string>{"one", "login/0", "two"});
    CHECK(names(1) == std::vector<std::string>{"one"});
    CHECK(names(2) == std::vector<std::string>{"one", "two"});
    for (std::size_t i = 0; i < config->policies.size(); ++i) {
        CHECK(config->policies[i]->index == i);
    }
}

TEST_CASE("config: routes keep their order, names, costs and upstreams") {
    const auto config = read(kLong);
    CHECK(config->routes[0].name == "login");
    CHECK(config->routes[0].cost == 5);
    CHECK(config->routes[1].name.starts_with("web.example/**~"));
    CHECK(config->routes[1].cost == 1);
    CHECK(config->upstreams.at(config->routes[1].upstream).name == "web");
    const http::Fields beta{{http::FieldName::other, "x-beta", "1"}};
    const http::Fields none;
    CHECK(config->router.match({"POST", "/login", "h", &none}).route == 0);
    CHECK(config->router.match({"GET", "/login", "web.example:80", &beta}).route == 1);
    CHECK(config->router.match({"GET", "/login", "web.example", &none}).route == 2);
}

TEST_CASE("config: servers carry weight and the authority they are asked by") {
    const auto config = read(kLong);
    const auto& servers = config->upstreams.at(0).servers;
    REQUIRE(servers.size() == 3);
    CHECK(servers[0].authority == "a:81");
    CHECK(servers[1].authority == "b");
    CHECK(servers[1].address.port == 80);
    CHECK(servers[1].weight == 3);
    CHECK(servers[2].address.unix_path == "/run/c.sock");
    CHECK(servers[2].authority == "localhost");
    CHECK(config->upstreams[0].retries == 0);
    CHECK(config->upstreams[1].idle_connections == 8);  // never more than there may be in all
    CHECK(config->upstreams[1].connect_timeout == 1s);
}

TEST_CASE("config: a policy's own store failure goes before the general one") {
    const auto config = read(kLong);
    CHECK(config->policies[0]->on_store_failure == limit::OnStoreFailure::deny);
    CHECK(config->policies[1]->on_store_failure == limit::OnStoreFailure::allow);
    CHECK(config->policies[1]->limits.at(1).anchor == limit::Anchor::first_request);
}

TEST_CASE("config: the only upstream need not be named") {
    const auto config = read("upstreams: {a: {servers: [http://a]}}\nroutes: [{policies: []}]\n");
    CHECK(config->routes.at(0).upstream == 0);
}

TEST_CASE("config: Redis has all its settings") {
    const auto config = read(std::string(kUpstream) + R"(
store:
  redis:
    url: redis://u:p%40@[::1]:7000/3
    timeout: 250ms
    max_in_flight: 7
    key_prefix: "x:"
    clock: local
    breaker: {failures: 2, probe_every: 500ms}
replicas: 3
)");
    const auto& redis = std::get<config::RedisSettings>(config->store);
    CHECK(redis.address.to_string() == "[::1]:7000");
    CHECK(redis.username == "u");
    CHECK(redis.password == "p@");
    CHECK(redis.database == 3);
    CHECK(redis.timeout == 250ms);
    CHECK(redis.max_in_flight == 7);
    CHECK(redis.key_prefix == "x:");
    CHECK(redis.local_clock);
    CHECK(redis.breaker_failures == 2);
    CHECK(redis.probe_every == 500ms);
    CHECK(config->replicas == 3);
}

TEST_CASE("config: a cluster is a list of nodes with one user") {
    const auto config = read(R"(upstream: http://127.0.0.1:3000
store:
  redis:
    cluster: ["rediss://u:p@a", "rediss://u:p@[::1]:7000"]
    tls: {server_name: redis.internal}
)");
    const auto& redis = std::get<config::RedisSettings>(config->store);
    REQUIRE(redis.cluster.size() == 2);
    CHECK(redis.cluster[0].to_string() == "a:6379");
    CHECK(redis.cluster[1].to_string() == "[::1]:7000");
    CHECK(redis.username == "u");
    CHECK(redis.password == "p");
    CHECK(redis.tls);
    CHECK_FALSE(redis.sentinel);
}

TEST_CASE("config: sentinels say where Redis is, with a password and a port of their own") {
    const auto config = read(R"(upstream: http://127.0.0.1:3000
store:
  redis:
    username: u
    password: p
    database: 3
    sentinel:
      master: main-1
      nodes: [redis://s1, "redis://[::1]:7000"]
      username: su
      password: sp
)");
    const auto& redis = std::get<config::RedisSettings>(config->store);
    REQUIRE(redis.sentinel);
    CHECK(redis.sentinel->master == "main-1");
    REQUIRE(redis.sentinel->nodes.size() == 2);
    CHECK(redis.sentinel->nodes[0].to_string() == "s1:26379");
    CHECK(redis.sentinel->nodes[1].to_string() == "[::1]:7000");
    CHECK(redis.sentinel->username == "su");
    CHECK(redis.sentinel->password == "sp");
    CHECK_FALSE(redis.sentinel->tls);
    CHECK(redis.username == "u");
    CHECK(redis.password == "p");
    CHECK(redis.database == 3);
}

TEST_CASE("config: sentinels are encrypted where their URLs say so; Redis where `tls` says so") {
    const auto config = read(R"(upstream: http://127.0.0.1:3000
store:
  redis:
    sentinel: {master: m, nodes: [rediss://s1]}
    tls: {server_name: redis.internal}
)");
    const auto& redis = std::get<config::RedisSettings>(config->store);
    REQUIRE(redis.sentinel);
    CHECK(redis.sentinel->tls);
    REQUIRE(redis.tls);
    CHECK(redis.tls->server_name == "redis.internal");
}

TEST_CASE("config: the store in memory has its settings") {
    const auto config =
        read(std::string(kUpstream) + "store: {memory: {max_keys: 5000, on_full: deny}}\n");
    const auto& memory = std::get<config::MemoryStoreSettings>(config->store);
    CHECK(memory.max_keys == 5'000);
    CHECK(memory.deny_when_full);
    CHECK_FALSE(std::get<config::MemoryStoreSettings>(
                    read(std::string(kUpstream) + "store: memory\n")->store)
                    .deny_when_full);
}

TEST_CASE("config: busy_poll is a short time, in microseconds if need be, or off") {
    CHECK(read(std::string(kUpstream) + "busy_poll: off\n")->busy_poll.count() == 0);
    CHECK(read(kUpstream)->busy_poll.count() == 0);
}

TEST_CASE("config: answers in the form of providers of models") {
    using Form = config::AnswerBody::Form;
    const auto config = read(std::string(kUpstream) + R"(
response: {headers: [openai, anthropic], body: openai}
policies:
  a: {key: [ip], limits: [1/s], body: anthropic}
  b: {key: [ip], limits: [1/s], body: problem}
  c: {key: [ip], limits: [1/s]}
default_policies: [a, b, c]
)");
    CHECK(config->response.body.form == Form::openai);
    CHECK(config->response.body.is_of_provider());
    CHECK(config->response.limit_fields.has(http::LimitFields::openai));
    CHECK(config->response.limit_fields.has(http::LimitFields::anthropic));
    CHECK_FALSE(config->response.limit_fields.has(http::LimitFields::ratelimit));
    // Their libraries wait for it.
    CHECK(config->response.limit_fields.has(http::LimitFields::retry_after));
    const auto body_of = [&](std::string_view name) {
        for (const auto& policy : config->policies) {
            if (policy->name == name) return policy->body;
        }
        return std::optional<config::AnswerBody>();
    };
    CHECK(body_of("a")->form == Form::anthropic);
    CHECK(body_of("b")->form == Form::problem);
    CHECK_FALSE(body_of("c"));
}

TEST_CASE("config: switches, lists and words are read as people mean them") {
    const auto config = read(std::string(kUpstream) + R"(
listen: [8081, "[::1]:8082", {address: "unix:/run/x.sock", trusted: on}]
admin: off
threads: "2"
busy_poll: 0.1ms
deny_cache: off
forwarding: {x_forwarded: off, forwarded: on, via: false, host: upstream}
identity:
  client_ip: {trusted_proxies: 10.0.0.0/8, header: CF-Connecting-IP, ipv4_prefix: 24, ipv6_prefix: [48, 64]}
  user: [{header: {name: X-User, from: trusted_proxies}}]
response: {status: 503, headers: [x-ratelimit], body: {content_type: text/plain, text: "Wait {retry_after}"}}
limits_on_requests: {header_bytes: 8k, headers: 10, uri_bytes: 1KiB, body_bytes: 0}
connections: {max: 10, per_ip: 0}
timeouts: {request_head: 1s, drain: 1min, shutdown_delay: 0s}
log: {access: off, level: error}
telemetry: {top: off}
)");
    CHECK(config->listen.size() == 3);
    CHECK(config->listen[2].trusted);
    CHECK_FALSE(config->admin);
    CHECK(config->threads == 2);
    CHECK(config->busy_poll == std::chrono::microseconds{100});
    CHECK_FALSE(config->forwarding.x_forwarded);
    CHECK(config->forwarding.forwarded);
    CHECK_FALSE(config->forwarding.via);
    CHECK_FALSE(config->forwarding.preserve_host);
    CHECK(config->client_ip.source == identity::ClientIpSettings::Source::single);
    CHECK(config->client_ip.single_field == "cf-connecting-ip");
    CHECK(config->client_ip.prefixes.ipv4 == std::vector<int>{24});
    CHECK(config->client_ip.prefixes.ipv6 == std::vector<int>{48, 64});
    CHECK(dynamic_cast<const identity::HeaderMethod&>(*config->user_methods.at(0).how).field ==
          "x-user");
    CHECK(config->response.status == 503);
    auto only_x_ratelimit = http::LimitFieldsChoice::none();
    only_x_ratelimit.add(http::LimitFields::x_ratelimit);
    CHECK(config->response.limit_fields == only_x_ratelimit);
    CHECK(config->response.body.form == config::AnswerBody::Form::text);
    CHECK(config->response.body.text == "Wait {retry_after}");
    CHECK(config->limits_on_requests.header_bytes == 8'192);
    CHECK(config->limits_on_requests.body_bytes == 0);
    CHECK(config->timeouts.drain == 60s);
    CHECK(config->log.access_path.empty());
    CHECK(config->log.level == config::LogLevel::error);
    CHECK(config->telemetry.top == 0);
}

TEST_CASE("config: the environment fills scalars and never becomes YAML") {
    CHECK(read("upstream: http://a:${PORT}\n")->upstreams[0].servers[0].address.port == 3'001);
    CHECK(read("upstream: http://a:${NONE:-81}\n")->upstreams[0].servers[0].address.port == 81);
    const auto config =
        read(std::string(kUpstream) +
             "response: {body: {content_type: text/plain, text: \"${TRICKY}$$\"}}\n");
    CHECK(config->response.body.text == "a: b # [c]$");
    CHECK(first_error(std::string(kUpstream) + "threads: \"${TRICKY}\"\n") ==
          "e:2:10: threads: `a: b # [c]` is not a whole number from 1 to 256");
}

TEST_CASE("config: every IPv4 and every IPv6 address may be two listeners") {
    for (const char* listen : {"[0.0.0.0:80, \"[::]:80\"]", "[80, 0.0.0.0:80]"}) {
        CAPTURE(listen);
        const auto config = read(std::string(kUpstream) + "listen: " + listen + "\n");
        REQUIRE(config->listen.size() == 2);
        for (const auto& one : config->listen) {
            CHECK(one.ipv6_only == (one.address.host == "::"));
        }
    }
    CHECK_FALSE(read(std::string(kUpstream) + "listen: [80, 0.0.0.0:81]\n")->listen[0].ipv6_only);
}

std::optional<std::string> words(std::string_view name) {
    if (name == "AUTO") return "auto";
    if (name == "OFF") return "off";
    if (name == "MEMORY") return "memory";
    if (name == "UNLIMITED") return "unlimited";
    return std::nullopt;
}

TEST_CASE("config: what is on by default may be written as `on`") {
    for (const std::string on : {"on", "true", "\"on\""}) {
        CAPTURE(on);
        const auto config = read("upstreams: {a: {servers: [http://a], queue: " + on +
                                 "}}\nroutes: [{policies: []}]\ndeny_cache: " + on + "\n");
        CHECK(config->deny_cache.entries == config::DenyCacheSettings().entries);
        CHECK(config->deny_cache.max_ttl == config::DenyCacheSettings().max_ttl);
        CHECK(config->upstreams.at(0).queue.max == config::Queue().max);
    }
}

TEST_CASE("config: a variable may hold any scalar, also a word that is not text") {
    const Loaded loaded = load_text(
        "upstreams: {a: {servers: [http://a]}}\nroutes: [{policies: [p]}]\n"
        "threads: ${T:-auto}\nreplicas: ${AUTO}\nadmin: ${OFF}\nstore: ${MEMORY}\n"
        "deny_cache: ${OFF}\nlog: {access: \"${OFF}\"}\n"
        "policies: {p: {key: ip, limits: [1/s], tiers: {pro: \"${UNLIMITED}\"}}}\n",
        "t.yaml", words);
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.config->threads == 0);
    CHECK_FALSE(loaded.config->replicas);
    CHECK_FALSE(loaded.config->admin);
    CHECK(loaded.config->deny_cache.entries == 0);
    CHECK(loaded.config->log.access_path.empty());
    CHECK(loaded.config->policies[0]->tiers[0].limits.empty());
}

TEST_CASE("config: a switch may stand in quotes, as JSON has no bare words") {
    const auto config = read(R"({"upstream": "http://a", "admin": "off", "deny_cache": "off",
        "log": {"access": "off"}, "forwarding": {"via": "off", "forwarded": "on"},
        "limits_on_requests": {"body_rate": "off"}, "timeouts": {"request_body_total": "false"}})");
    CHECK_FALSE(config->admin);
    CHECK(config->deny_cache.entries == 0);
    CHECK(config->log.access_path.empty());
    CHECK_FALSE(config->forwarding.via);
    CHECK(config->forwarding.forwarded);
    CHECK(config->limits_on_requests.body_rate == 0);
    CHECK(config->timeouts.request_body_total == 0ms);
}

std::optional<std::string> kubernetes(std::string_view name) {
    if (name == "KUBERNETES_SERVICE_HOST") return "10.96.0.1";
    return std::nullopt;
}

TEST_CASE("config: the shutdown delay is 5s in Kubernetes and 0s outside, unless it is written") {
    using Origin = config::Timeouts::Origin;
    const auto delay_of = [](const std::string& more, config::Environment environment_of) {
        const Loaded loaded = load_text(kUpstream + more, "t.yaml", environment_of);
        REQUIRE(loaded.config != nullptr);
        return std::pair(loaded.config->timeouts.shutdown_delay,
                         loaded.config->timeouts.shutdown_delay_origin);
    };
    const std::string other = "timeouts: {drain: 1s}\n";
    const std::string written = "timeouts: {shutdown_delay: 7s}\n";
    for (const std::string& more : {std::string(), other}) {
        CHECK(delay_of(more, environment) == std::pair(0ms, Origin::outside_kubernetes));
        CHECK(delay_of(more, kubernetes) == std::pair(5000ms, Origin::in_kubernetes));
    }
    CHECK(delay_of(written, environment) == std::pair(7000ms, Origin::written));
    CHECK(delay_of(written, kubernetes) == std::pair(7000ms, Origin::written));
    CHECK(delay_of("timeouts: {shutdown_delay: 0s}\n", kubernetes) ==
          std::pair(0ms, Origin::written));
}

TEST_CASE("config: a secret comes from a file beside the configuration, without its line end") {
    const Folder folder;
    folder.write("admin.token", "s3cret\n");
    folder.write("redis.password", "p \r\n");
    folder.write("access.log", "");
    const std::string path = folder.write("tidegate.yaml", std::string(kUpstream) + R"(
listen: unix:in.sock
admin: {address: 127.0.0.1:9901, token: "file:admin.token"}
store: {redis: {url: redis://h, password: file:redis.password}}
log: {access: {path: access.log, format: text, sample: 0.25}}
)");
    const Loaded loaded = load_file(path);
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.config->admin->token == "s3cret");
    CHECK(std::get<config::RedisSettings>(loaded.config->store).password == "p ");
    CHECK(loaded.config->listen[0].address.unix_path == folder.path + "/in.sock");
    CHECK(loaded.config->log.access_path == folder.path + "/access.log");
    CHECK(loaded.config->log.access_format == LogFormat::text);
    CHECK(loaded.config->log.sample == 0.25);
}

TEST_CASE("config: a socket whose path grows too long by its folder is a fault") {
    const Folder folder;
    const std::string name(104, 'x');
    const std::string path =
        folder.write("t.yaml", "upstream: unix:" + name + "\nlisten: unix:" + name + "\n");
    const Loaded loaded = load_file(path);
    REQUIRE(loaded.errors.size() == 2);
    CHECK(loaded.errors[0].column == 11);
    CHECK(loaded.errors[1].message.find("too long for a Unix socket") != std::string::npos);
}

TEST_CASE("config: a secret that is an empty file, a folder or too large is a fault") {
    const Folder folder;
    folder.write("empty", "\n");
    folder.write("large", std::string(65'537, 'x'));
    for (const char* file : {"empty", "large", "nothing", "."}) {
        CAPTURE(file);
        const std::string path = folder.write(
            "t.yaml", std::string(kUpstream) +
                          "admin: {address: 127.0.0.1:1, token: \"file:" + file + "\"}\n");
        const Loaded loaded = load_file(path);
        REQUIRE(loaded.errors.size() == 1);
        CHECK(loaded.errors[0].line == 2);
    }
}

TEST_CASE("config: no message shows a password") {
    for (const char* store : {"store: {redis: {url: \"redis://u:hunter2@h:99999\"}}",
                              "store: {redis: {url: \"redis://u:hunter2@h/x\"}}",
                              "store: {redis: {url: \"redis://u:x@h\", password: hunter2}}"}) {
        CAPTURE(store);
        const std::string error = first_error(std::string(kUpstream) + store + "\n");
        CHECK_FALSE(error.empty());
        CHECK(error.find("hunter2") == std::string::npos);
    }
    CHECK(first_error("upstream: http://u:hunter2@h\n").find("hunter2") == std::string::npos);
}

TEST_CASE("config: a file that is not there, a folder, and none that can be read are named") {
    const Folder folder;
    CHECK(load_file(folder.path + "/none.yaml").errors.at(0).to_string() ==
          folder.path + "/none.yaml: there is no such file");
    CHECK(load_file(folder.path).errors.at(0).to_string() == folder.path + ": this is a folder");
    // Opens for its own process, and has nothing at its beginning.
    CHECK(load_file("/proc/self/mem").errors.at(0).to_string() ==
          "/proc/self/mem: the file cannot be read: Input/output error");
    const std::string large = folder.write("large.yaml", std::string(2'097'152, '#'));
    CHECK(load_file(large).errors.at(0).message == "the file is larger than 1 MiB");
}

TEST_CASE("config: a fault has its place, one without a place only its file") {
    CHECK(config::Diagnostic{"a.yaml", 3, 5, "m"}.to_string() == "a.yaml:3:5: m");
    CHECK(config::Diagnostic{"a.yaml", 0, 0, "m"}.to_string() == "a.yaml: m");
}

TEST_CASE("config: a quota of 0 stands beside any cost") {
    const auto config = read(
        "upstreams: {a: {servers: [http://a]}}\n"
        "policies: {p: {key: ip, limits: [0/s]}}\n"
        "routes: [{cost: 7, policies: [p]}]\n");
    CHECK(config->routes.at(0).cost == 7);
}

TEST_CASE("config: whatever is cut off or garbled gives a configuration or a fault, not both") {
    const std::string whole = content_of(kExamples + "/gateway.yaml");
    const auto check = [&](const std::string& text) {
        const Loaded loaded = load_text(text, "garbled", environment);
        CHECK((loaded.config == nullptr) == !loaded.errors.empty());
    };
    for (std::size_t end = 0; end < whole.size(); end += 13) check(whole.substr(0, end));
    for (std::size_t at = 5; at < whole.size(); at += 17) {
        for (const char c : {'\0', '{', '[', ':', '\t', '"', '\n', '*', '\xff'}) {
            std::string garbled = whole;
            garbled[at] = c;
            check(garbled);
        }
    }
}

TEST_CASE("config: listeners that forward nothing need no upstream") {
    const std::string gateway =
        "listen: {address: \"127.0.0.1:8181\", face: forward_auth, dialect: envoy, path_prefix: "
        "/check, from: [10.0.0.0/8]}\n";
    const auto asked = read(gateway + "limits: [5/h]\n");
    CHECK(asked->upstreams.empty());
    REQUIRE(asked->routes.size() == 1);
    CHECK(asked->routes[0].policies.size() == 1);
    const config::Listen& listen = asked->listen.at(0);
    CHECK(listen.face == Face::forward_auth);
    CHECK(listen.dialect == config::Dialect::envoy);
    CHECK(listen.path_prefix == "/check");
    CHECK(listen.admits(parse_ip("10.1.2.3")));
    CHECK_FALSE(listen.admits(parse_ip("127.0.0.1")));
    CHECK(listen.admits(std::nullopt));
    CHECK(read("listen: {address: \"127.0.0.1:8181\", face: forward_auth, dialect: "
               "ingress-nginx}\nlimits: [5/h]\n")
              ->listen.at(0)
              .dialect == config::Dialect::ingress_nginx);

    const auto routed =
        read(gateway + "policies: {p: {key: [ip], limits: [5/h]}}\nroutes: [{policies: [p]}]\n");
    CHECK(routed->upstreams.empty());

    const std::string check = "listen: {address: \"127.0.0.1:8181\", face: check}\n";
    const std::string policies = "policies: {p: {key: [user], limits: [5/h]}}\n";
    const auto called = read(check + policies + "check: {secret: 0123456789abcdef}\n");
    CHECK(called->routes.empty());
    CHECK(called->check_secret == "0123456789abcdef");
    CHECK(called->listen.at(0).admits(parse_ip("127.0.0.1")));
    CHECK_FALSE(called->listen.at(0).admits(parse_ip("192.0.2.1")));
    CHECK(load_text(check + policies, "test.yaml").warnings.empty());
    const auto with_token =
        read("listen: {address: \"0.0.0.0:8181\", face: check, token: letmein}\n" + policies);
    CHECK(with_token->listen.at(0).admits(parse_ip("192.0.2.1")));
}

TEST_CASE("config: the quickstart of each face is a configuration without a warning") {
    for (const Face face : {Face::proxy, Face::forward_auth, Face::check}) {
        CAPTURE(to_string(face));
        const Loaded loaded = config::quickstart(face);
        REQUIRE(loaded.config != nullptr);
        CHECK(loaded.warnings.empty());
        CHECK(loaded.config->has_face(face));
    }
}

}  // namespace tidegate::config_load_test
