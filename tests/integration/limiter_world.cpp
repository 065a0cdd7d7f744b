#include "integration/limiter_world.hpp"

#include <algorithm>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/soon.hpp"

namespace tidegate::test {

std::string CountedIn::yaml() const {
    if (!redis) return "store: memory\n";
    return "store: {redis: {url: \"redis://127.0.0.1:" + std::to_string(redis->port()) +
           "/0\", timeout: 5s}}\n";
}

CountedIn either_store() {
    CountedIn counted;
    SUBCASE("in process") {}
    SUBCASE("in Redis") {
        counted = counted_in_redis();
    }
    return counted;
}

CountedIn counted_in_redis() {
    return {std::make_unique<RedisServer>()};
}

std::string api(const Upstream& upstream, const std::string& rest) {
    return "upstreams: {api: {servers: [" + upstream.url() + "]}}\n" + rest;
}

std::string one_policy(const Upstream& upstream, const std::string& policy) {
    return api(upstream, "policies: {p: " + policy +
                             "}\nroutes: [{name: all, upstream: api, policies: [p]}]\n");
}

void await(const std::string& what, const std::function<bool()>& holds, milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    for (Pause pause; !holds(); pause.take()) REQUIRE_MESSAGE(Clock::now() < deadline, what);
}

long calls(const RedisServer& redis, const std::string& command) {
    const auto statistics = redis.text({"INFO", "commandstats"});
    const std::string name = "cmdstat_" + command + ":calls=";
    const auto found = statistics.find(name);
    return found == std::string::npos ? 0 : std::stol(statistics.substr(found + name.size()));
}

double decisions(const Tidegate& tidegate, const std::string& outcome, const std::string& policy) {
    double sum = 0;
    const auto text = tidegate.admin("/metrics").value().body;
    const std::string name = "tidegate_decisions_total{policy=\"" + policy + "\"";
    for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
        const auto line = text.substr(at, text.find('\n', at) - at);
        if (line.find("outcome=\"" + outcome + '"') == std::string::npos) continue;
        sum += std::stod(line.substr(line.rfind(' ') + 1));
    }
    return sum;
}

nlohmann::json logged(const Tidegate& tidegate, const std::string& path) {
    nlohmann::json found;
    await("the line of " + path, [&] {
        for (const auto& line : tidegate.access_log(0)) {
            if (line.at("path") == path) found = line;
        }
        return !found.is_null();
    });
    return found;
}

GatedUpstream::GatedUpstream()
    : upstream_([this](Conversation& conversation) { serve(conversation); }) {}

void GatedUpstream::serve(Conversation& conversation) {
    Message request;
    while (conversation.read(request)) {
        const int mine = ++come_;
        while (mine > may_go_ && !ending_) std::this_thread::sleep_for(milliseconds{1});
        ++gone_;
        if (ending_ || !conversation.send(ok())) return;
    }
}

std::vector<Admitted> admitted_in(const std::vector<std::uint16_t>& ports, int connections,
                                  const std::string& path, milliseconds time) {
    std::mutex mutex;
    std::vector<Admitted> admitted;
    int others = 0;
    const auto end = Clock::now() + time;
    const auto ask = [&](std::uint16_t port) {
        RawClient client(port);
        while (Clock::now() < end) {
            const auto sent = Clock::now();
            const int status = client.get(path).status();
            const auto answered = Clock::now();
            const std::lock_guard lock(mutex);
            if (status == 200) {
                admitted.push_back({sent, answered});
            } else if (status != 429) {
                ++others;
            }
        }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < connections; ++i) {
        threads.emplace_back(ask, ports[static_cast<std::size_t>(i) % ports.size()]);
    }
    for (auto& thread : threads) thread.join();
    CHECK(others == 0);
    std::sort(admitted.begin(), admitted.end(),
              [](const Admitted& a, const Admitted& b) { return a.sent < b.sent; });
    return admitted;
}

}  // namespace tidegate::test
