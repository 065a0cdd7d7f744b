// A message service: each request names the moment that it is for.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/limiter_world.hpp"
#include "integration/soon.hpp"

namespace tidegate::test::schedule_test {

namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::int64_t kDay = 86'400 * kSecond;

struct Window {
    std::int64_t length;
    int quota;
    std::string name;
};
const std::vector<Window> kWindows{
    {60 * kSecond, 1, "minute"}, {3600 * kSecond, 5, "hour"}, {kDay, 10, "day"}};

std::string schedule(const std::string& name, int quota, const std::string& per,
                     const std::string& at = "at: {header: x-send-at}",
                     const std::string& more = "") {
    return "{name: " + name + ", quota: " + std::to_string(quota) + ", " + per +
           ", algorithm: schedule, " + at + more + "}";
}

// "One a minute, five an hour, ten a day."
std::string message_service(const std::string& at = "at: {header: x-send-at}") {
    return schedule("minute", 1, "per: 1min", at) + ", " + schedule("hour", 5, "per: 1h", at) +
           ", " + schedule("day", 10, "per: 1day", at);
}

std::int64_t now_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

// A midnight (UTC) that is two days away or more: a day and a quarter before it is not over yet.
std::int64_t midnight() {
    return (now_us() / kDay + 3) * kDay;
}

std::string digits(std::int64_t number, int width) {
    std::string text = std::to_string(number);
    return std::string(
               static_cast<std::size_t>(std::max<int>(0, width - static_cast<int>(text.size()))),
               '0') +
           text;
}

std::string unix_seconds(std::int64_t moment_us) {
    return std::to_string(moment_us / kSecond) + "." + digits(moment_us % kSecond, 6);
}

// As a client two hours east of Greenwich writes it.
std::string rfc3339(std::int64_t moment_us, const char* offset = "%2B02:00") {
    const std::time_t there = moment_us / kSecond + 7200;
    std::tm parts{};
    ::gmtime_r(&there, &parts);
    char text[32];
    const auto size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    return std::string(text, size) + "." + digits(moment_us % kSecond, 6) + offset;
}

// `2026-11-23T00:00:00Z`, with a fraction of six digits or without.
std::int64_t moment_of(const std::string& text) {
    std::tm parts{};
    const char* const rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
    REQUIRE(rest != nullptr);
    const std::string fraction = *rest == '.' ? std::string(rest + 1, 6) : "0";
    return std::int64_t{::timegm(&parts)} * kSecond + std::stoll(fraction);
}

// The model: the accepted moments, and every window there is.
class Accepted {
  public:
    void add(std::int64_t moment) { moments_.push_back(moment); }
    std::size_t size() const { return moments_.size(); }

    // The most that a half-open window of this length holds. One that holds the most can begin
    // with something it holds.
    int fullest(std::int64_t length) const {
        int most = 0;
        for (const auto begin : moments_) most = std::max(most, held(begin, length));
        return most;
    }
    bool fits(std::int64_t moment) const {
        Accepted with = *this;
        with.add(moment);
        return std::all_of(kWindows.begin(), kWindows.end(), [&](const Window& window) {
            return with.fullest_around(moment, window.length) <= window.quota;
        });
    }
    // Nothing in between begins to fit but where something leaves a window.
    std::int64_t earliest(std::int64_t from) const {
        std::vector<std::int64_t> candidates{from};
        for (const auto moment : moments_)
            for (const auto& window : kWindows) candidates.push_back(moment + window.length);
        std::sort(candidates.begin(), candidates.end());
        return *std::find_if(candidates.begin(), candidates.end(), [&](std::int64_t candidate) {
            return candidate >= from && fits(candidate);
        });
    }

  private:
    int held(std::int64_t begin, std::int64_t length) const {
        return static_cast<int>(std::count_if(
            moments_.begin(), moments_.end(),
            [&](std::int64_t moment) { return moment >= begin && moment < begin + length; }));
    }
    int fullest_around(std::int64_t moment, std::int64_t length) const {
        int most = 0;
        for (const auto begin : moments_) {
            if (begin <= moment && moment < begin + length)
                most = std::max(most, held(begin, length));
        }
        return most;
    }

    std::vector<std::int64_t> moments_;
};

struct MessageService {
    explicit MessageService(const std::vector<const Tidegate*>& proxies) : proxies_(proxies) {}

    Message ask(std::size_t proxy, const std::string& to, const std::string& at) const {
        return proxies_[proxy % proxies_.size()]->get("/send?to=" + to,
                                                      "X-Send-At: " + at + "\r\n");
    }

    std::vector<const Tidegate*> proxies_;
};

using ByRecipient = std::map<std::string, Accepted>;

void check_windows(const ByRecipient& accepted) {
    for (const auto& [to, moments] : accepted) {
        CAPTURE(to);
        for (const auto& window : kWindows) {
            CAPTURE(window.name);
            CHECK(moments.fullest(window.length) <= window.quota);
        }
    }
}

std::string recipient(unsigned number) {
    return "friend" + std::to_string(number % 3);
}

// Eight clients, each of which asks for moments within six hours of `around`, in no order.
ByRecipient asked_by_eight(const MessageService& service, std::int64_t around) {
    std::mutex mutex;
    ByRecipient accepted;
    std::atomic<int> unclear{0};
    std::vector<std::thread> clients;
    for (unsigned number = 0; number < 8; ++number) {
        clients.emplace_back([&, number] {
            std::mt19937 random(number);
            std::uniform_int_distribution<std::int64_t> offset(-6 * 3600, 6 * 3600);
            for (unsigned i = 0; i < 60; ++i) {
                const auto moment = around + offset(random) * kSecond + i % 2;
                const auto answer = service.ask(number, recipient(i), unix_seconds(moment));
                const std::lock_guard lock(mutex);
                if (answer.status() == 200) accepted[recipient(i)].add(moment);
                if (answer.status() != 200 && answer.status() != 429) ++unclear;
            }
        });
    }
    for (auto& client : clients) client.join();
    CHECK(unclear == 0);
    return accepted;
}

// A moment that fits passes; else the answer has the first one that does.
void ask_one_by_one(const MessageService& service, std::int64_t around, ByRecipient& accepted) {
    std::mt19937 random(99);
    std::uniform_int_distribution<std::int64_t> offset(-30 * 3600, 30 * 3600);
    for (unsigned i = 0; i < 90; ++i) {
        const std::string to = recipient(i);
        Accepted& moments = accepted[to];
        const auto moment = around + offset(random) * kSecond + i;
        const bool fits = moments.fits(moment);
        const auto answer = service.ask(i, to, rfc3339(moment, "+02:00"));
        REQUIRE(answer.status() == (fits ? 200 : 429));
        if (fits) {
            moments.add(moment);
            continue;
        }
        CHECK_FALSE(answer.has("Retry-After"));
        const std::string earliest = nlohmann::json::parse(answer.body).at("earliest");
        REQUIRE(moment_of(earliest) == moments.earliest(moment));
        if (i % 2 == 0) continue;
        const auto just_before = unix_seconds(moment_of(earliest) - 1);
        CHECK(service.ask(i, to, just_before).status() == 429);
        CHECK(service.ask(i + 1, to, earliest).status() == 200);
        moments.add(moment_of(earliest));
    }
}

}  // namespace

TEST_CASE(
    "schedule: a message service keeps all its windows, asked in any order by eight at once") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const std::string yaml =
        counted.yaml() +
        one_policy(upstream, "{key: [\"query:to\"], limits: [" + message_service() + "]}");
    const Tidegate first(yaml);
    const Tidegate second(yaml);
    std::vector<const Tidegate*> proxies{&first};
    if (counted.redis) proxies.push_back(&second);
    const MessageService service(proxies);
    // Around midnight, where calendar days would forget the moments on the other side.
    const std::int64_t around = midnight();
    ByRecipient accepted = asked_by_eight(service, around);
    check_windows(accepted);
    CHECK(accepted.size() == 3);
    for (const auto& [to, moments] : accepted) CHECK(moments.size() >= 8);  // of ten that may
    ask_one_by_one(service, around, accepted);
    check_windows(accepted);
}

TEST_CASE("schedule: the answer, the log and the metrics name the limit that refused") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(counted.yaml() +
                            one_policy(upstream, "{key: [\"header:x-to\"], limits: [" +
                                                     message_service("at: {query: at}") + "]}"));
    const std::int64_t around = midnight();
    const auto ask = [&](const std::string& path, const std::string& at) {
        return tidegate.get(path + "?at=" + at, "X-To: ann\r\n");
    };
    CHECK(ask("/a", unix_seconds(around)).status() == 200);
    CHECK(ask("/b", rfc3339(around + 60 * kSecond)).status() == 200);  // just a minute apart
    const auto refusal = ask("/c", rfc3339(around - 59 * kSecond));
    CHECK(refusal.status() == 429);
    CHECK_FALSE(refusal.has("Retry-After"));
    CHECK_FALSE(refusal.has("RateLimit"));
    const auto problem = nlohmann::json::parse(refusal.body);
    CHECK(problem.at("violated-policies") == nlohmann::json::array({"p-minute"}));
    CHECK(moment_of(problem.at("earliest")) == around + 120 * kSecond);
    const auto line = logged(tidegate, "/c");
    CHECK(line.at("verdict") == "limited");
    CHECK(line.at("limited_by") == "p-minute");
    CHECK(line.at("store") == counted.name());
    CHECK(line.at("identifiers").at(0) == "header:x-to=ann");
    CHECK_SOON(decisions(tidegate, "denied") == 1);
    CHECK_SOON(decisions(tidegate, "admitted") == 8);
}

TEST_CASE(
    "schedule: a moment missing, unreadable, stated twice or too far ahead is refused, with the "
    "reason") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        one_policy(upstream,
                   "{key: [ip], limits: [" +
                       schedule("few", 2, "per: 1h", "at: {header: x-send-at}", ", horizon: 2h") +
                       "]}"));
    const auto soon = unix_seconds(now_us() + 3600 * kSecond);
    const auto far = unix_seconds(now_us() + 7300 * kSecond);
    const std::vector<std::pair<std::string, std::string>> refused{
        {"", "does not say when"},
        {"X-Send-At:\r\n", "does not say when"},
        {"X-Send-At: tomorrow\r\n", "neither RFC 3339 nor Unix seconds"},
        {"X-Send-At: 2026-13-01T00:00:00Z\r\n", "neither RFC 3339 nor Unix seconds"},
        {"X-Send-At: -5\r\n", "neither RFC 3339 nor Unix seconds"},
        {"X-Send-At: 1e9\r\n", "neither RFC 3339 nor Unix seconds"},
        {"X-Send-At: 99999999999999999999999\r\n", ""},
        {"X-Send-At: " + soon + "\r\nX-Send-At: " + soon + "\r\n", "more than one way"},
        {"X-Send-At: " + soon + "\r\nX_Send_At: " + far + "\r\n", "more than one way"},
        {"X-Send-At: " + far + "\r\n", "further ahead than allowed"},
    };
    for (const auto& [fields, why] : refused) {
        CAPTURE(fields);
        const auto answer = tidegate.get("/", fields);
        CHECK(answer.status() == 400);
        CHECK_MESSAGE(answer.body.find(why) != std::string::npos, answer.body);
    }
    CHECK(upstream.requests() == 0);
    CHECK(decisions(tidegate, "denied") == 0);
    CHECK_SOON(tidegate.metric("tidegate_request_faults_total{fault=\"client: bad moment\"}") ==
               refused.size());
    CHECK(tidegate.get("/", "X-Send-At: " + soon + "\r\n").status() == 200);
}

TEST_CASE(
    "schedule: a moment in the past counts as now, or passes unrecorded, as the limit is "
    "configured") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const auto at = "at: {header: x-send-at}";
    const Tidegate tidegate(
        counted.yaml() +
        api(upstream, "policies:\n  now: {key: [ip], limits: [" + schedule("few", 2, "per: 1h") +
                          "]}\n  forward: {key: [ip], limits: [" +
                          schedule("few", 1, "per: 1h", at, ", past: forward") +
                          "]}\nroutes:\n"
                          "  - {name: now, match: {path: /now}, upstream: api, policies: [now]}\n"
                          "  - {name: forward, match: {path: /forward}, upstream: api, policies: "
                          "[forward]}\n"));
    const auto ask = [&](const std::string& path, const std::string& moment) {
        return tidegate.get(path, "X-Send-At: " + moment + "\r\n");
    };
    const auto before = now_us();
    CHECK(ask("/now", "0").status() == 200);
    CHECK(ask("/now", "2001-09-09T01:46:40Z").status() == 200);
    const auto after = now_us();
    const auto refusal = ask("/now", "1000");
    CHECK(refusal.status() == 429);
    const auto earliest = moment_of(nlohmann::json::parse(refusal.body).at("earliest"));
    CHECK(earliest >= before + 3600 * kSecond - 2000);
    CHECK(earliest <= after + 3600 * kSecond + 2000);
    CHECK(ask("/now", unix_seconds(earliest)).status() == 200);

    for (int i = 0; i < 5; ++i) CHECK(ask("/forward", "1000").status() == 200);
    CHECK(ask("/forward", unix_seconds(now_us() + 60 * kSecond)).status() == 200);
    CHECK(ask("/forward", unix_seconds(now_us() + 70 * kSecond)).status() == 429);
    CHECK(ask("/forward", "1000").status() == 200);
}

TEST_CASE("schedule: days of UTC end at midnight, and a cost of two is two moments") {
    const CountedIn counted = either_store();
    const Upstream upstream(ok());
    const Tidegate tidegate(
        counted.yaml() +
        api(upstream, "policies: {p: {key: [\"header:x-to\"], limits: [" +
                          schedule("daily", 3, "window: utc_day") +
                          "]}}\nroutes:\n"
                          "  - {name: two, match: {path: /two}, cost: 2, upstream: api, policies: "
                          "[p]}\n  - {name: all, upstream: api, policies: [p]}\n"));
    const std::int64_t day = midnight();
    const auto ask = [&](const std::string& path, std::int64_t moment) {
        return tidegate.get(path, "X-To: a\r\nX-Send-At: " + unix_seconds(moment) + "\r\n");
    };
    CHECK(ask("/two", day - 1).status() == 200);
    CHECK(ask("/two", day - kDay + 1).status() == 429);
    CHECK(ask("/one", day - 2).status() == 200);
    const auto refusal = ask("/one", day - 3);
    CHECK(refusal.status() == 429);
    CHECK(moment_of(nlohmann::json::parse(refusal.body).at("earliest")) == day);
    CHECK(ask("/two", day).status() == 200);
    CHECK(ask("/one", day + kDay - 1).status() == 200);
    CHECK(ask("/one", day + 5).status() == 429);
}

}  // namespace tidegate::test::schedule_test
