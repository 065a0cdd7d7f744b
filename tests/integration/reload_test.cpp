// A configuration that changes while requests go on: no request is lost, and none sees half of a
// change.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test::reload_test {

namespace {

// Waits until `holds`, or fails.
void await(const std::string& what, const std::function<bool()>& holds) {
    const auto deadline = Clock::now() + kPatience;
    while (!holds()) {
        REQUIRE_MESSAGE(Clock::now() < deadline, what);
        std::this_thread::sleep_for(milliseconds{5});
    }
}

double generation(const Tidegate& proxy) {
    return proxy.metric("tidegate_config_generation");
}

// HUP, and wait until there has been one more reload of that result.
void hang_up(const Tidegate& proxy, const std::string& result = "ok") {
    const std::string series = "tidegate_reloads_total{result=\"" + result + "\"}";
    const double before = proxy.metric(series);
    proxy.signal(SIGHUP);
    await("the reload", [&] { return proxy.metric(series) == before + 1; });
}

nlohmann::json reload(const Tidegate& proxy, const std::string& yaml, int status = 200) {
    proxy.write_configuration(yaml);
    const Message answer = proxy.reload();
    CHECK(answer.status() == status);
    CHECK(answer.field("Content-Type") == "application/json");
    return nlohmann::json::parse(answer.body);
}

int count(const std::string& text, const std::string& part) {
    int found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
}

// Two upstreams, and a route to each; which of them `/` goes to is the first one's name.
std::string two_routes(const Upstream& first, const Upstream& second,
                       const std::string& more = "") {
    return "upstreams:\n  one: {servers: [" + first.url() + "]}\n  two: {servers: [" +
           second.url() + "]}\n" +
           "routes:\n  - {name: two, match: {path: \"/two/**\"}, upstream: two, policies: []}\n"
           "  - {name: one, match: {path: \"/**\"}, upstream: one, policies: []}\n" +
           more;
}

// Answers /slow with "slow" when the test releases it, other paths with "quick".
struct SlowUpstream {
    Upstream upstream{[this](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            const bool slow = request.target() == "/slow";
            if (slow) ++waiting;
            while (slow && !released) std::this_thread::sleep_for(milliseconds{2});
            if (!conversation.send(ok(slow ? "slow" : "quick"))) return;
        }
    }};
    std::atomic<int> waiting{0};
    std::atomic<bool> released{false};
};

}  // namespace

TEST_CASE("reload: under load, twenty times between two configurations, no request fails") {
    // Each answer takes a while, so that some hundred requests are always under way.
    const auto in_a_while = Upstream::answering([](const Message&) {
        std::this_thread::sleep_for(milliseconds{100});
        return ok();
    });
    const Upstream first(in_a_while);
    const Upstream second(in_a_while);
    const std::string one = two_routes(first, second);
    const std::string other =
        "upstreams: {one: {servers: [" + first.url() + ", " + second.url() +
        "], max_connections: 1000}}\n"
        "policies: {wide: {key: [ip], limits: [1000000/s]}}\n"
        "routes: [{name: all, match: {path: \"/**\"}, upstream: one, policies: [wide]}]\n";
    const Tidegate proxy(one);
    BackgroundLoad load(proxy.port(), 200);
    for (int i = 0; i < 20; ++i) {
        // Some have begun since the last one.
        const int before = first.requests() + second.requests();
        await("requests", [&] { return first.requests() + second.requests() > before + 50; });
        proxy.write_configuration(i % 2 == 0 ? other : one);
        if (i % 4 < 2) {
            hang_up(proxy);
        } else {
            CHECK(reload(proxy, i % 2 == 0 ? other : one)["generation"] == i + 2);
        }
    }
    const Statuses statuses = load.stop();
    CHECK(statuses.size() == 1);
    CHECK(statuses.begin()->first == 200);
    CHECK(statuses.begin()->second > 1'000);
    CHECK(generation(proxy) == 21);
    CHECK_SOON(proxy.metric("tidegate_reloads_total{result=\"ok\"}") == 20);
    CHECK_SOON(proxy.metric_sum("tidegate_requests_total", "code=\"200\"") ==
               statuses.begin()->second);
    await("the end of former configurations",
          [&] { return proxy.metric("tidegate_configs_in_use") == 1; });
}

TEST_CASE("reload: what was counted stays counted, and another quota holds from the next request") {
    const Upstream upstream(ok());
    const Tidegate proxy(simple(upstream.url(), "3/h"));
    for (const int status : {200, 200, 200, 429}) CHECK(proxy.get().status() == status);
    CHECK(reload(proxy, simple(upstream.url(), "3/h"))["result"] == "ok");
    CHECK(proxy.get().status() == 429);
    reload(proxy, simple(upstream.url(), "5/h"));
    for (const int status : {200, 200, 429}) CHECK(proxy.get().status() == status);
    reload(proxy, simple(upstream.url(), "1/h"));
    CHECK(proxy.get().status() == 429);
    // An open connection meets the new configuration with its next request.
    RawClient client = proxy.client();
    CHECK(client.get().status() == 429);
    reload(proxy, simple(upstream.url()));
    CHECK(client.get().status() == 200);
}

TEST_CASE("reload: what was counted in Redis stays counted, denials are not remembered") {
    const Upstream upstream(ok());
    const RedisServer redis;
    const std::string store =
        "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis.port()) +
        "/0\", timeout: 1s}}\n";
    const Tidegate proxy(store + simple(upstream.url(), "3/h"));
    for (const int status : {200, 200, 200, 429, 429}) CHECK(proxy.get().status() == status);
    reload(proxy, store + simple(upstream.url(), "3/h"));
    CHECK(proxy.get().status() == 429);
    reload(proxy, store + simple(upstream.url(), "4/h"));
    for (const int status : {200, 429}) CHECK(proxy.get().status() == status);
    CHECK_SOON(proxy.metric("tidegate_store_state{state=\"up\"}") == 2);
    CHECK(proxy.metric_sum("tidegate_store_failures_total") == 0);
}

TEST_CASE("reload: a request in flight keeps its upstream and limits, though they are gone") {
    SlowUpstream old;
    const Upstream next(ok("next"));
    const Tidegate proxy("upstreams: {old: {servers: [" + old.upstream.url() +
                         "]}}\n"
                         "policies: {gone: {key: [ip], limits: [7/min]}}\n"
                         "routes: [{name: gone, upstream: old, policies: [gone]}]\n");
    RawClient slow = proxy.client();
    slow.send(get_request("/slow"));
    await("the slow request", [&] { return old.waiting == 1; });

    reload(proxy, simple(next.url(), "5/min"));
    CHECK_SOON(proxy.metric("tidegate_configs_in_use") == 2);
    const Message quick = proxy.get();
    CHECK(quick.body == "next");
    CHECK(quick.field("RateLimit-Policy") == "\"default-1min\";q=5;w=60");

    old.released = true;
    const Message answer = slow.response();
    CHECK(answer.body == "slow");
    CHECK(answer.field("RateLimit-Policy") == "\"gone-1min\";q=7;w=60");
    // The same connection goes on with the new one.
    CHECK(slow.get().body == "next");
    await("the end of the first", [&] { return proxy.metric("tidegate_configs_in_use") == 1; });
    CHECK_SOON(
        proxy.metric(
            R"(tidegate_requests_total{route="gone",code="200",outcome="forwarded",face="proxy"})") ==
        1);
    await("its connection's end",
          [&] { return proxy.metric("tidegate_upstream_connections") <= 2; });
}

TEST_CASE("reload: an upstream that stays as it was keeps its idle connections") {
    const Upstream kept(ok("kept"));
    const Upstream other(ok("other"));
    const Tidegate proxy("threads: 1\n" + two_routes(kept, other));
    CHECK(proxy.get().body == "kept");
    CHECK(proxy.get("/two/x").body == "other");
    reload(proxy, "threads: 1\nupstreams: {one: {servers: [" + kept.url() +
                      "]}}\nroutes: [{name: one, upstream: one, policies: []}]\n");
    CHECK(proxy.get().body == "kept");
    CHECK(proxy.get("/two/x").body == "kept");
    CHECK(kept.connections() == 1);
    await("the end of what was removed",
          [&] { return proxy.metric("tidegate_upstream_connections") == 1; });
    // Added again it is new; its figures go on.
    reload(proxy, "threads: 1\n" + two_routes(kept, other));
    CHECK(proxy.get("/two/x").body == "other");
    CHECK(other.connections() == 2);
    CHECK(kept.connections() == 1);
    CHECK_SOON(proxy.metric("tidegate_upstream_seconds_count{upstream=\"two\"}") == 2);
    CHECK_SOON(proxy.metric("tidegate_upstream_seconds_count{upstream=\"one\"}") == 3);
}

TEST_CASE("reload: a new upstream by name is resolved before a request can meet it") {
    const Upstream first(ok("first"));
    const Upstream second(ok("second"));
    const Tidegate proxy(simple(first.url()));
    BackgroundLoad load(proxy.port(), 8);
    for (int i = 0; i < 4; ++i) {
        const auto port = std::to_string((i % 2 == 0 ? second : first).port());
        reload(proxy, simple("http://localhost:" + port));
        CHECK(proxy.get().body == (i % 2 == 0 ? "second" : "first"));
    }
    const Statuses statuses = load.stop();
    CHECK(statuses.size() == 1);
    CHECK(statuses.begin()->first == 200);
}

TEST_CASE("reload: a broken file changes nothing, and every fault is logged with its place") {
    const Upstream upstream(ok());
    Tidegate proxy(simple(upstream.url(), "5/h"));
    const std::string broken = simple(upstream.url(), "5/h") + "limit: 3\nforwarding: {via: 7}\n";
    const auto answer = reload(proxy, broken, 409);
    CHECK(answer["result"] == "refused");
    CHECK(answer["generation"] == 1);
    REQUIRE(answer["errors"].size() == 2);
    for (const auto& error : answer["errors"]) {
        CHECK(error["line"].get<int>() >= 6);
        CHECK(error["column"].get<int>() >= 1);
        CHECK(error["file"].get<std::string>().find("tidegate.yaml") != std::string::npos);
    }
    hang_up(proxy, "refused");
    CHECK(generation(proxy) == 1);
    CHECK_SOON(proxy.metric("tidegate_reloads_total{result=\"refused\"}") == 2);
    CHECK(proxy.get().field("RateLimit").starts_with("\"default-1h\";r=4;"));
    CHECK(proxy.stop() == 0);
    const std::string said = proxy.errors();
    CHECK(count(said, "tidegate.yaml:") == 4);
    CHECK(count(said, "unknown key `limit`") == 2);
    CHECK(count(said, "reload refused, 2 faults: configuration 1 stays in force") == 2);
    CHECK(count(said, "is in force") == 0);
}

TEST_CASE("reload: a change that needs a restart is refused whole, with a message that names it") {
    const Upstream upstream(ok());
    const Tidegate proxy(simple(upstream.url(), "5/h"));
    const auto answer = reload(proxy,
                               "threads: 3\nstore: {redis: {url: \"redis://127.0.0.1:1\"}}\n"
                               "replicas: 1\n" +
                                   simple(upstream.url(), "9/h"),
                               409);
    REQUIRE(answer["errors"].size() == 2);
    for (const auto& error : answer["errors"]) {
        CHECK(error["message"].get<std::string>().find("restart it") != std::string::npos);
        CHECK_FALSE(error.contains("line"));
    }
    CHECK(proxy.get().field("RateLimit-Policy") == "\"default-1h\";q=5;w=3600");
    CHECK(reload(proxy, simple(upstream.url(), "9/h"))["generation"] == 2);
}

TEST_CASE("reload: an access log that cannot be opened is named, and changes nothing") {
    const Upstream upstream(ok());
    const Tidegate proxy(simple(upstream.url(), "5/h"));
    const auto answer = reload(
        proxy, "log: {access: {path: /no/such/folder/log}}\n" + simple(upstream.url(), "9/h"), 409);
    CHECK(answer["errors"][0]["message"].get<std::string>().find("/no/such/folder/log") !=
          std::string::npos);
    CHECK(proxy.get().field("RateLimit-Policy") == "\"default-1h\";q=5;w=3600");
}

TEST_CASE("reload: the access log goes on under another path, and its form changes") {
    const Upstream upstream(ok());
    const TemporaryFolder folder;
    const std::string path = (folder.path() / "other.log").string();
    const Tidegate proxy(simple(upstream.url()));
    CHECK(proxy.get("/before").status() == 200);
    reload(proxy, "log: {access: {path: " + path + ", format: text}}\n" + simple(upstream.url()));
    CHECK(proxy.get("/after").status() == 200);
    await("the line",
          [&] { return read_file(path).find("\"GET /after HTTP/1.1\"") != std::string::npos; });
    reload(proxy, simple(upstream.url()));
    CHECK(proxy.get("/again").status() == 200);
    const auto lines = proxy.access_log(2);
    CHECK(lines.at(0)["path"] == "/before");
    CHECK(lines.at(1)["path"] == "/again");
    CHECK(proxy.metric("tidegate_access_log_dropped_total") == 0);
}

TEST_CASE("reload: ten reloads at once are all done, one after the other") {
    const Upstream upstream(ok());
    const std::string yaml = simple(upstream.url());
    const Tidegate proxy(yaml);
    std::vector<std::thread> asking;
    std::atomic<int> done{0};
    for (int i = 0; i < 10; ++i) {
        asking.emplace_back([&] { done += proxy.reload().status() == 200 ? 1 : 0; });
    }
    for (int i = 0; i < 10; ++i) proxy.signal(SIGHUP);
    for (auto& thread : asking) thread.join();
    CHECK(done == 10);
    await("the signals", [&] { return generation(proxy) >= 12; });
    CHECK(proxy.metric("tidegate_reloads_total{result=\"refused\"}") == 0);
    CHECK(proxy.get().status() == 200);
}

TEST_CASE("reload: a program that is stopping ignores it and logs that") {
    SlowUpstream upstream;
    Tidegate proxy(simple(upstream.upstream.url()));
    RawClient slow = proxy.client();
    slow.send(get_request("/slow"));
    await("the slow request", [&] { return upstream.waiting == 1; });
    proxy.signal(SIGTERM);
    await("the drain", [&] { return proxy.admin("/readyz").value().status() == 503; });
    proxy.signal(SIGHUP);
    const auto answer = reload(proxy, simple(upstream.upstream.url()), 409);
    CHECK(answer["errors"][0]["message"].get<std::string>().find("stopping") != std::string::npos);
    upstream.released = true;
    CHECK(slow.response().body == "slow");
    CHECK(proxy.wait() == 0);
    CHECK(count(proxy.errors(), "HUP ignored: Tidegate is stopping") == 1);
}

TEST_CASE("reload: a page in a browser on this machine cannot reload") {
    const Upstream upstream(ok());
    const Tidegate proxy(simple(upstream.url()));
    const auto ask = [&](const std::string& method, const std::string& fields) {
        RawClient client(proxy.admin_port());
        return client.ask(method + " /reload HTTP/1.1\r\n" + fields + "\r\n").status();
    };
    CHECK(ask("POST", "Host: evil.example\r\n") == 403);
    CHECK(ask("POST", "Host: localhost\r\nOrigin: http://localhost\r\n") == 403);
    CHECK(ask("POST", "Host: localhost\r\nContent-Length: 3\r\n") == 413);
    CHECK(ask("GET", "Host: localhost\r\n") == 405);
    CHECK(generation(proxy) == 1);
    CHECK(ask("POST", "Host: localhost\r\nContent-Length: 0\r\n") == 200);
    CHECK(generation(proxy) == 2);
}

TEST_CASE("reload: a route that is added moves no counts of routes without a name") {
    const Upstream upstream(ok());
    const std::string begin = "upstreams: {api: {servers: [" + upstream.url() +
                              "]}}\n"
                              "policies: {by-route: {key: [route], limits: [3/h]}}\n"
                              "routes:\n";
    const std::string inline_limit = ", policies: [{key: [ip], limits: [3/h]}]}\n";
    const std::string routes = "  - {match: {path: /login}" + inline_limit +
                               "  - {match: {path: /search}" + inline_limit +
                               "  - {match: {path: /shared}, policies: [by-route]}\n" +
                               "  - {match: {path: /other}, policies: [by-route]}\n";
    const Tidegate proxy(begin + routes);
    for (const int status : {200, 200, 200, 429}) {
        CHECK(proxy.get("/login").status() == status);
        CHECK(proxy.get("/shared").status() == status);
    }
    const std::string added = "  - {match: {path: /new}, policies: []}\n";
    const std::string other_order =  // and the routes move
        "  - {match: {path: /other}, policies: [by-route]}\n"
        "  - {match: {path: /search}" +
        inline_limit + "  - {match: {path: /login}" + inline_limit +
        "  - {match: {path: /shared}, policies: [by-route]}\n";
    for (const std::string& now : {added + routes, routes, other_order}) {
        CHECK(reload(proxy, begin + now)["result"] == "ok");
        CHECK(proxy.get("/login").status() == 429);
        CHECK(proxy.get("/shared").status() == 429);
        CHECK(proxy.get("/search").status() == 200);
        CHECK(proxy.get("/other").status() == 200);
    }
    CHECK(proxy.get("/search").status() == 429);
}

TEST_CASE("reload: /readyz answers while a large file is read, and so does a second HUP") {
    const Upstream upstream(ok());
    const auto yaml = [&](const std::string& limit) {
        std::string text = "upstreams: {api: {servers: [" + upstream.url() + "]}}\nroutes:\n";
        for (int i = 0; i < 3'000; ++i) {
            text += "  - {match: {path: \"regex:/v[0-9]+/item-" + std::to_string(i) +
                    "/[a-z0-9]{1,20}\"}, policies: [{key: [ip], limits: [" + limit + "]}]}\n";
        }
        return text + "  - {policies: []}\n";
    };
    const Tidegate proxy(yaml("5/s"));
    proxy.write_configuration(yaml("6/s"));
    proxy.signal(SIGHUP);
    proxy.signal(SIGHUP);
    milliseconds longest{0};
    await("the reload", [&] {
        const auto begin = Clock::now();
        const auto answer = proxy.admin("/readyz");
        longest = std::max(longest, std::chrono::ceil<milliseconds>(Clock::now() - begin));
        REQUIRE(answer);
        CHECK(answer->status() == 200);
        return proxy.errors().find("configuration 2 is in force") != std::string::npos;
    });
    CHECK(longest <= milliseconds{100} + slack());
    CHECK(proxy.get("/").status() == 200);
}

TEST_CASE("reload: TERM ends Tidegate while a reload waits for a pipe that nothing writes to") {
    const Upstream upstream(ok());
    Tidegate proxy(simple(upstream.url()));
    const std::string pipe = proxy.file() + ".keys";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    proxy.write_configuration(simple(upstream.url()) + "identity: {user: [api_key: {keys: " + pipe +
                              "}]}\n");
    proxy.signal(SIGHUP);
    CHECK(proxy.admin("/readyz").value().status() == 200);
    CHECK(proxy.stop() == 0);
}

TEST_CASE("reload: a pipe that nothing writes to is a fault with its name, wherever it stands") {
    const Upstream upstream(ok());
    const Tidegate proxy(simple(upstream.url()));
    const std::string folder = proxy.file().substr(0, proxy.file().rfind('/'));
    REQUIRE(::mkfifo((folder + "/silent").c_str(), 0600) == 0);
    for (const std::string more : {"identity: {user: [api_key: {keys: silent}]}", "include: [sil*]",
                                   "check: {secret: \"file:silent\"}",
                                   "listen: {address: 0, tls: {certificate: silent, key: silent}}",
                                   "log: {access: {path: silent}}"}) {
        CAPTURE(more);
        proxy.write_configuration(simple(upstream.url()) + more + "\n");
        const auto begin = Clock::now();
        const Message answer = proxy.reload();
        CHECK(answer.status() == 409);
        CHECK(answer.body.find("silent") != std::string::npos);
        CHECK(Clock::now() - begin < milliseconds{10'000} + slack());
        CHECK(proxy.get().status() == 200);
    }
}

}  // namespace tidegate::test::reload_test
