#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "config/config.hpp"

// `upstreams` as the configuration reads them: how a server is chosen, what ejects one, which
// requests wait and are held.
namespace tidegate::config_upstreams_test {

using namespace std::chrono_literals;
using config::Balance;
using config::StatusRange;
using config::Upstream;

namespace {

constexpr const char* kTwo = "[http://10.0.0.5:3000, http://10.0.0.6:3000]";
constexpr const char* kNamed = "[http://api.internal:3000]";
constexpr const char* kRoutes = "routes: [{policies: []}]\n";

config::Loaded load(const std::string& text) {
    auto loaded = config::load_text(text, "t");
    CAPTURE(text);
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded;
}

std::string upstreams(const std::string& servers, const std::string& settings) {
    return "upstreams: {api: {servers: " + servers + (settings.empty() ? "" : ", ") + settings +
           "}}\n";
}

Upstream read(const std::string& settings, const std::string& servers = kNamed) {
    return load(upstreams(servers, settings) + kRoutes).config->upstreams.at(0);
}

}  // namespace

TEST_CASE("upstreams: missing keys have the documented defaults") {
    for (const Upstream& upstream :
         {read(""), load("upstream: http://127.0.0.1:3000\n").config->upstreams.at(0)}) {
        CHECK(upstream.balance == Balance::round_robin);
        CHECK(upstream.hash_key.choices.empty());
        CHECK_FALSE(upstream.health_check);
        CHECK_FALSE(upstream.eject);
        CHECK(upstream.slow_start == 0ms);
        CHECK(upstream.queue.max == 128);
        CHECK(upstream.queue.wait == 1s);
        CHECK(upstream.retries == 1);
        CHECK(upstream.request_buffer == 65'536);
    }
    CHECK(load(upstreams(kTwo, "") + kRoutes).config->routes.at(0).buffer == 0);
}

TEST_CASE("upstreams: balance is a word or the key of a hash") {
    using Kind = limit::KeyPart::Kind;
    CHECK(read("balance: round_robin").balance == Balance::round_robin);
    CHECK(read("balance: least_connections").balance == Balance::least_connections);
    CHECK(read("balance: least_connections").hash_key.choices.empty());
    const Upstream hashed = read("balance: {hash: \"header:X-Tenant+route|ip\"}");
    CHECK(hashed.balance == Balance::hash);
    REQUIRE(hashed.hash_key.choices.size() == 2);
    REQUIRE(hashed.hash_key.choices[0].size() == 2);
    CHECK(hashed.hash_key.choices[0][0] == limit::KeyPart{Kind::header, "x-tenant"});
    CHECK(hashed.hash_key.choices[0][1].kind == Kind::route);
    CHECK(hashed.hash_key.choices[1][0].kind == Kind::ip);
    // A policy would reject a request without the field; a server can always be found.
    CHECK(hashed.hash_key.on_missing == limit::OnMissing::skip);
}

TEST_CASE("upstreams: claims that a hash needs are kept of tokens") {
    const auto config =
        load(upstreams(kTwo, "balance: {hash: \"claim:tenant|ip\"}") + kRoutes).config;
    CHECK(config->claims == std::vector<std::string>{"tenant"});
    CHECK(config->upstreams[0].hash_key.choices.at(0).at(0).claim == 0);
}

TEST_CASE("upstreams: a hash by a capture fits the routes that have it") {
    const auto config = load(
                            "upstreams: {api: {servers: [http://a, http://b], balance: {hash: "
                            "\"path:id\"}}, web: {servers: [http://c]}}\nroutes:\n"
                            "  - {match: {path: \"/u/{id}\"}, upstream: api, policies: []}\n"
                            "  - {upstream: web, policies: []}\n")
                            .config;
    CHECK(config->routes.at(0).captures == std::vector<std::string>{"id"});
}

TEST_CASE("upstreams: a health check asks for a path, or only connects") {
    const auto plain = read("health_check: {path: \"/healthz?deep=1\"}").health_check;
    REQUIRE(plain);
    CHECK(plain->path == "/healthz?deep=1");
    CHECK(plain->host.empty());
    CHECK(plain->every == 5s);
    CHECK(plain->timeout == 2s);
    CHECK(plain->unhealthy_after == 3);
    CHECK(plain->healthy_after == 2);
    CHECK(plain->status == std::vector<StatusRange>{{200, 399}});

    const auto full = read(
                          "health_check: {path: /up, host: \"api.internal:81\", every: 10s, "
                          "timeout: 10s, unhealthy_after: 1, healthy_after: 100, status: "
                          "[200-204, 301]}")
                          .health_check;
    REQUIRE(full);
    CHECK(full->host == "api.internal:81");
    CHECK(full->every == 10s);
    CHECK(full->timeout == 10s);
    CHECK(full->unhealthy_after == 1);
    CHECK(full->healthy_after == 100);
    CHECK(full->status == std::vector<StatusRange>{{200, 204}, {301, 301}});
    CHECK(read("health_check: {path: /, status: 204}").health_check->status ==
          std::vector<StatusRange>{{204, 204}});
    CHECK(read("health_check: {path: /, host: \"[::1]\"}").health_check->host == "[::1]");

    for (const char* tcp : {"tcp", "{tcp: on}"}) {
        const auto connects = read("health_check: " + std::string(tcp)).health_check;
        REQUIRE(connects);
        CHECK(connects->path.empty());
        CHECK(*connects == config::HealthCheck{});
    }
    CHECK(read("health_check: {tcp: true, every: 1min}").health_check->every == 1min);
    CHECK(read("health_check: {tcp: off, path: /x}").health_check->path == "/x");
    CHECK_FALSE(read("health_check: off").health_check);
}

TEST_CASE("upstreams: a check that comes often has a default timeout that fits") {
    CHECK(read("health_check: {path: /, every: 500ms}").health_check->timeout == 500ms);
    CHECK(read("health_check: {path: /, every: 1h}").health_check->timeout == 2s);
}

TEST_CASE("upstreams: a range of statuses contains both its ends") {
    const StatusRange range{200, 204};
    CHECK(range.contains(200));
    CHECK(range.contains(204));
    CHECK_FALSE(range.contains(199));
    CHECK_FALSE(range.contains(205));
}

TEST_CASE("upstreams: eject is off, on, or says when") {
    for (const char* on : {"on", "true", "{}"}) {
        CAPTURE(on);
        const auto eject = read("eject: " + std::string(on)).eject;
        REQUIRE(eject);
        CHECK(eject->failures == 5);
        CHECK(eject->duration == 10s);
        CHECK(eject->at_most_percent == 50);
    }
    for (const char* off : {"off", "false"}) CHECK_FALSE(read("eject: " + std::string(off)).eject);
    const auto eject = read("eject: {failures: 1, for: 5min, at_most: 100%}").eject;
    REQUIRE(eject);
    CHECK(eject->failures == 1);
    CHECK(eject->duration == 5min);
    CHECK(eject->at_most_percent == 100);
    CHECK(read("eject: {at_most: 1%}").eject->at_most_percent == 1);
}

TEST_CASE("upstreams: the slow start, the queue and the buffer can be set and switched off") {
    CHECK(read("slow_start: 10s").slow_start == 10s);
    CHECK(read("slow_start: off").slow_start == 0ms);
    CHECK(read("queue: {max: 7}").queue == config::Queue{7, 1s});
    CHECK(read("queue: {wait: 250ms}").queue == config::Queue{128, 250ms});
    CHECK(read("queue: {}").queue == config::Queue{});
    CHECK(read("queue: off").queue.max == 0);
    CHECK(read("request_buffer: 16MiB").request_buffer == 16'777'216);
    CHECK(read("request_buffer: 1").request_buffer == 1);
    CHECK(read("request_buffer: off").request_buffer == 0);
}

TEST_CASE("upstreams: a route's buffer may be as large as the bodies it takes") {
    const auto config =
        load(upstreams(kTwo, "") +
             "limits_on_requests: {body_bytes: 1MiB}\nroutes:\n"
             "  - {match: {path: /a}, buffer: 1MiB, policies: []}\n"
             "  - {match: {path: /b}, buffer: 2MiB, limits_on_requests: {body_bytes: "
             "unlimited}, policies: []}\n"
             "  - {buffer: off, policies: []}\n")
            .config;
    CHECK(config->routes.at(0).buffer == 1'048'576);
    CHECK(config->routes.at(1).buffer == 2'097'152);
    CHECK(config->routes.at(2).buffer == 0);
}

TEST_CASE("upstreams: a reload sees each change of a setting, and none where there is none") {
    const char* const kAll =
        "balance: {hash: ip}, health_check: {path: /a}, eject: {failures: 5}, slow_start: 1s, "
        "queue: {max: 5}, request_buffer: 1KiB";
    CHECK(read(kAll) == read(kAll));
    for (const char* other :
         {"balance: {hash: route}, health_check: {path: /a}, eject: {failures: 5}, slow_start: 1s, "
          "queue: {max: 5}, request_buffer: 1KiB",
          "balance: {hash: ip}, health_check: {path: /a, status: 200}, eject: {failures: 5}, "
          "slow_start: 1s, queue: {max: 5}, request_buffer: 1KiB",
          "balance: {hash: ip}, health_check: {path: /a}, eject: {failures: 6}, slow_start: 1s, "
          "queue: {max: 5}, request_buffer: 1KiB",
          "balance: {hash: ip}, health_check: {path: /a}, eject: {failures: 5}, slow_start: 2s, "
          "queue: {max: 5}, request_buffer: 1KiB",
          "balance: {hash: ip}, health_check: {path: /a}, eject: {failures: 5}, slow_start: 1s, "
          "queue: {max: 6}, request_buffer: 1KiB",
          "balance: {hash: ip}, health_check: {path: /a}, eject: {failures: 5}, slow_start: 1s, "
          "queue: {max: 5}, request_buffer: 2KiB"}) {
        CHECK_FALSE(read(kAll) == read(other));
    }
}

TEST_CASE("upstreams: the weight of the server at the top is warned about, as it is the only one") {
    const auto loaded = load("upstream: {url: \"http://a\", weight: 2}\n");
    REQUIRE(loaded.warnings.size() == 1);
    CHECK(loaded.warnings[0].message ==
          "upstream.weight: has no effect: the upstream lists one server");
}

TEST_CASE("upstreams: among a thousand servers, none gets so little that check warns about it") {
    std::string servers = "[{url: \"http://a\", weight: 1}";
    for (int i = 0; i < 999; ++i) servers += ", http://s" + std::to_string(i);
    CHECK(load(upstreams(servers + "]", "") + kRoutes).warnings.empty());
}

TEST_CASE("upstreams: requests go in HTTP/2 where the URL or `http` says so") {
    const auto speak_http2 = [](const std::string& servers, const std::string& settings) {
        std::vector<bool> all;
        for (const auto& server : read(settings, servers).servers) all.push_back(server.is_http2);
        return all;
    };
    const std::string mixed = "[\"h2c://a:1\", \"http://b:1\", \"https://c:1\"]";
    CHECK(speak_http2(mixed, "") == std::vector<bool>{true, false, false});
    const std::string others = "[\"https://c:1\", \"unix:/run/app.sock\"]";
    CHECK(speak_http2(others, "http: h2") == std::vector<bool>{true, true});
    CHECK(speak_http2(others, "http: http1") == std::vector<bool>{false, false});
    const Upstream upstream = read("", "[\"h2c://a.internal:50051\"]");
    CHECK(upstream.servers[0].authority == "a.internal:50051");
    CHECK_FALSE(upstream.servers[0].is_tls);
}

// `https://` servers and `tls` of an upstream.

namespace {

// A folder with the files that a configuration names.
class UpstreamFiles {
  public:
    UpstreamFiles() {
        std::string name = (std::filesystem::temp_directory_path() / "tidegate-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        folder_ = name;
    }
    ~UpstreamFiles() { std::filesystem::remove_all(folder_); }
    UpstreamFiles(const UpstreamFiles&) = delete;
    UpstreamFiles& operator=(const UpstreamFiles&) = delete;

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(folder_ / name) << text;
        std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_read);
    }
    config::Loaded load(const std::string& settings,
                        const std::string& servers = "[https://api.internal]") const {
        write_configuration("upstreams: {api: {servers: " + servers + settings + "}}\n" +
                            "routes: [{policies: []}]\n");
        return config::load_file((folder_ / "t.yaml").string());
    }

  private:
    void write_configuration(const std::string& text) const {
        std::ofstream(folder_ / "t.yaml") << text;
    }
    std::filesystem::path folder_;
};

config::Upstream upstream_of(const config::Loaded& loaded) {
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded.config->upstreams.at(0);
}

bool says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "upstream tls: `https` alone is verified with the system's authorities, from TLS 1.2 on") {
    const UpstreamFiles files;
    const auto loaded = files.load("");
    const auto upstream = upstream_of(loaded);
    CHECK(loaded.warnings.empty());
    CHECK(upstream.servers.at(0).is_tls);
    CHECK(upstream.servers.at(0).address.port == 443);
    CHECK(upstream.servers.at(0).authority == "api.internal");
    CHECK(upstream.tls == TlsSettings{});
    CHECK(upstream.tls.verify);
    CHECK_FALSE(upstream_of(files.load("", "[http://api.internal]")).servers.at(0).is_tls);
}

TEST_CASE("upstream tls: all keys are read, and files with them") {
    const UpstreamFiles files;
    const test::Authority authority;
    const test::Certificate own = authority.issue();
    files.write("ca.pem", authority.pem());
    files.write("own.pem", own.pem());
    files.write("own.key", own.key_pem());
    const std::string settings =
        ", tls: {ca: ca.pem, certificate: own.pem, key: own.key, server_name: other.internal, "
        "verify: on, min_version: 1.3}";
    const auto upstream = upstream_of(files.load(settings));
    CHECK(upstream.tls.ca == authority.pem());
    CHECK(upstream.tls.certificate == own.pem());
    CHECK(upstream.tls.key == own.key_pem());
    CHECK(upstream.tls.server_name == "other.internal");
    CHECK(upstream.tls.min_version == TlsVersion::tls_1_3);
    // A reload compares these: other files are another upstream.
    CHECK(upstream_of(files.load(settings)) == upstream);
    files.write("other.pem", test::Authority().pem());
    CHECK_FALSE(upstream_of(files.load(", tls: {ca: other.pem}")) ==
                upstream_of(files.load(", tls: {ca: ca.pem}")));
}

TEST_CASE("upstream tls: `verify: off` is warned of, and that `ca` then means nothing") {
    const UpstreamFiles files;
    files.write("ca.pem", test::Authority().pem());
    const auto alone = files.load(", tls: {verify: off}");
    CHECK_FALSE(upstream_of(alone).tls.verify);
    REQUIRE(alone.warnings.size() == 1);
    CHECK(says(alone.warnings[0].message, "tls.verify: Tidegate takes any certificate"));
    const auto with_ca = files.load(", tls: {verify: off, ca: ca.pem}");
    REQUIRE(with_ca.warnings.size() == 2);
    CHECK(says(with_ca.warnings[0].message + with_ca.warnings[1].message,
               "tls.ca: has no effect with `verify: off`"));
}

TEST_CASE("upstream tls: one encrypted server is enough for `tls`") {
    const UpstreamFiles files;
    const auto upstream =
        upstream_of(files.load(", tls: {server_name: a}", "[http://a:80, https://b:443]"));
    CHECK_FALSE(upstream.servers.at(0).is_tls);
    CHECK(upstream.servers.at(1).is_tls);
}

}  // namespace tidegate::config_upstreams_test
