// The cost of a decision for Redis, and the memory that it keeps: the script of lua/ beside the
// usual one that keeps a hash for each identifier (hash_limiter.lua). CPU time of the server, read
// from the system; rounds of all contenders take turns, and the median round counts.
//
//   bench_script [rounds] [compare|kinds|loop|memory]
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <hiredis/hiredis.h>

#include "redis_server.hpp"
#include "store/charge_script.hpp"
#include "store/scripts.hpp"

namespace tidegate {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::Limit;
using limit::LimitSpec;
using limit::Micros;

constexpr Micros kBegin{1'700'000'000'000'000};
constexpr std::size_t kPipelined = 24;
constexpr std::int64_t kPlenty = 4'000'000'000;

LimitSpec spec_of(Algorithm algorithm, std::int64_t quota, Micros duration) {
    LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = quota;
    spec.duration = duration;
    return spec;
}

Limit made(const LimitSpec& spec) {
    auto limit = limit::make_limit(spec);
    if (!limit) throw std::invalid_argument(limit.error().what);
    return *limit;
}

limit::Policy policy_of(std::vector<Limit> limits) {
    limit::Policy policy;
    policy.name = "default";
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip),
                  limit::single_key(limit::KeyPart::Kind::user)};
    policy.limits = std::move(limits);
    return policy;
}

limit::Policy three_windows(std::int64_t quota) {
    std::vector<Limit> limits;
    for (Micros duration : {Micros{1s}, Micros{1min}, Micros{1h}}) {
        limits.push_back(made(spec_of(Algorithm::sliding_window, quota, duration)));
    }
    return policy_of(std::move(limits));
}

// ---- what is measured

struct Case {
    const char* name;
    std::size_t users;
    std::int64_t quota;
    std::size_t warm_up;
    std::size_t calls;
    bool admitted;  // every answer once warm
};

constexpr std::array<Case, 3> kCases{{
    {"10,000 users, admitted", 10'000, kPlenty, 60'000, 40'000, true},
    {"one busy user, admitted", 1, kPlenty, 5'000, 40'000, true},
    {"10,000 users, denied", 10'000, 3, 60'000, 40'000, false},
}};

// A limiter that two identifiers can be charged on, at a simulated time.
struct Contender {
    const char* name;
    // Appends the command that begins with the `call`-th request of a case.
    std::function<void(const Case&, std::size_t call, std::string&)> append;
    std::function<bool(const redisReply&)> is_admission;  // of the first
    std::size_t calls = 1;                                // in a command
};

struct Names {
    std::string address;
    std::string user;
};

// Users come in an order that no cache likes, 20 us after one another.
Names names_of(const Case& some, std::size_t call) {
    const std::size_t user = call * 7'919 % some.users;
    return {"ip:10.0." + std::to_string(user >> 8) + "." + std::to_string(user & 255),
            "user:u" + std::to_string(user)};
}

Micros time_of(std::size_t call) {
    return kBegin + static_cast<std::int64_t>(call) * 20us;
}

const limit::Policy& policy_for(const Case& some) {
    static const limit::Policy plenty = three_windows(kPlenty);
    static const limit::Policy few = three_windows(3);
    return some.admitted ? plenty : few;
}

bool admits(const redisReply& reply) {
    return reply.type == REDIS_REPLY_STRING && reply.len > 8 && (reply.str[8] & 1) != 0;
}

// Our script; `digest` empty: the one that a proxy would call.
Contender ours(const char* name, std::string digest) {
    const auto append = [digest](const Case& some, std::size_t call, std::string& out) {
        const limit::Policy& policy = policy_for(some);
        const Names names = names_of(some, call);
        const limit::ChargeItem items[] = {{&policy, names.address}, {&policy, names.user}};
        const limit::Charge charge{items, 1};
        const std::size_t begin = out.size();
        store::append_charge_command({&charge, 1}, "tg:", time_of(call), out);
        if (!digest.empty()) out.replace(out.find("$40\r\n", begin) + 5, 40, digest);
    };
    return {name, append, admits};
}

// As many requests a command as a proxy under load sends.
Contender mixed(const char* name) {
    const auto append = [](const Case& some, std::size_t call, std::string& out) {
        const limit::Policy& policy = policy_for(some);
        std::array<Names, store::kMixedMax> names;
        std::array<std::array<limit::ChargeItem, 2>, store::kMixedMax> items;
        std::vector<limit::Charge> charges;
        for (std::size_t i = 0; i < store::kMixedMax; ++i) {
            names[i] = names_of(some, call + i);
            items[i] = {{{&policy, names[i].address}, {&policy, names[i].user}}};
            charges.push_back({items[i], 1});
        }
        store::append_mixed_command(charges, "tg:", time_of(call), out);
    };
    return {name, append, admits, store::kMixedMax};
}

Contender hash_of_fields(std::string digest) {
    const auto append = [digest](const Case& some, std::size_t call, std::string& out) {
        const std::string quota = std::to_string(some.quota);
        const std::string limits = "[[1000000,20000," + quota + "],[60000000,1000000," + quota +
                                   "],[3600000000,60000000," + quota + "]]";
        const Names names = names_of(some, call);
        store::append_length('*', 8, out);
        for (const std::string& word :
             {std::string("EVALSHA"), digest, std::string("2"), "tg:{" + names.address + "}",
              "tg:{" + names.user + "}", limits, std::to_string(time_of(call).count()),
              std::string("1")}) {
            store::append_string(word, out);
        }
    };
    return {"hash of fields", append, [](const redisReply& reply) { return reply.integer == 1; }};
}

// ---- measuring

// CPU time the server has had, in nanoseconds.
std::int64_t cpu_ns(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
    std::int64_t ns = 0;
    if (!(file >> ns)) throw std::runtime_error("the system does not tell CPU times");
    return ns;
}

void call_all(test::RedisConnection& redis, const Contender& contender, const Case& some,
              std::size_t from, std::size_t to, bool check) {
    std::string commands;
    while (from < to) {
        const std::size_t end = std::min(to, from + std::max(kPipelined, contender.calls));
        commands.clear();
        for (std::size_t call = from; call < end; call += contender.calls) {
            contender.append(some, call, commands);
        }
        redis.send(commands);
        for (std::size_t call = from; call < end; call += contender.calls) {
            const test::Reply reply = redis.read();
            const bool wrong = check && contender.is_admission(*reply) != some.admitted;
            if (reply->type == REDIS_REPLY_ERROR || wrong) {
                throw std::runtime_error(std::string(contender.name) + " answers wrongly");
            }
        }
        from = end;
    }
}

// Microseconds of the server's CPU time a call.
double measured(test::RedisServer& server, const Contender& contender, const Case& some) {
    test::RedisConnection redis(server.port());
    redis.command({"FLUSHALL"});
    call_all(redis, contender, some, 0, some.warm_up, false);
    const std::int64_t before = cpu_ns(server.pid());
    call_all(redis, contender, some, some.warm_up, some.warm_up + some.calls, true);
    const auto spent = static_cast<double>(cpu_ns(server.pid()) - before);
    return spent / 1'000 / static_cast<double>(some.calls);
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

std::string hash_limiter() {
    std::ifstream file(TIDEGATE_SOURCE_DIR "/bench/hash_limiter.lua");
    return {std::istreambuf_iterator<char>(file), {}};
}

void compare(test::RedisServer& server, int rounds) {
    const std::vector<Contender> contenders{
        hash_of_fields(server.text({"SCRIPT", "LOAD", hash_limiter()})),
        ours("tidegate", {}),
        mixed("tidegate, 32 a command"),
        ours("tidegate, no fast path", std::string(store::charge_script({}).sha1)),
    };
    std::printf("Redis CPU, microseconds a decision (2 identifiers, 3 windows; medians of %d)\n\n",
                rounds);
    std::printf("%-26s %-24s %8s %8s\n", "", "", "us", "of hash");
    for (const Case& some : kCases) {
        std::vector<std::vector<double>> results(contenders.size());
        for (int round = 0; round < rounds; ++round) {
            for (std::size_t i = 0; i < contenders.size(); ++i) {
                results[i].push_back(measured(server, contenders[i], some));
            }
        }
        const double usual = median(results[0]);
        for (std::size_t i = 0; i < contenders.size(); ++i) {
            const double us = median(results[i]);
            std::printf("%-26s %-24s %8.2f %8.3f\n", some.name, contenders[i].name, us, us / usual);
        }
    }
}

// ---- by kind of charge

// Under each policy one identifier is counted: the address and the user in turn.
struct Kind {
    const char* name;
    std::vector<limit::Policy> policies;
    std::size_t names = 1;  // under each policy
};

limit::Policy many_windows(std::size_t count, const char* name = "default") {
    std::vector<Limit> limits;
    for (std::size_t minutes = 1; minutes <= count; ++minutes) {
        limits.push_back(made(spec_of(Algorithm::sliding_window, kPlenty, minutes * Micros{1min})));
    }
    limit::Policy policy = policy_of(std::move(limits));
    policy.name = name;
    return policy;
}

// Each request finds all sub-buckets ended.
limit::Policy turning_windows(std::size_t count) {
    std::vector<Limit> limits;
    for (std::size_t i = 1; i <= count; ++i) {
        LimitSpec spec = spec_of(Algorithm::sliding_window, kPlenty, i * 60ms);
        spec.precision = i * 1ms;
        limits.push_back(made(spec));
    }
    return policy_of(std::move(limits));
}

limit::Policy three_of(Algorithm algorithm, limit::Anchor anchor = limit::Anchor::clock,
                       limit::Count count = limit::Count::admitted) {
    std::vector<Limit> limits;
    for (int minutes = 1; minutes <= 3; ++minutes) {
        const std::int64_t quota = algorithm == Algorithm::sliding_log ? 1'000 : 1'000'000;
        LimitSpec spec = spec_of(algorithm, quota, minutes * Micros{1min});
        spec.anchor = anchor;
        spec.count = count;
        limits.push_back(made(spec));
    }
    return policy_of(std::move(limits));
}

std::vector<Kind> kinds() {
    using limit::Anchor;
    using limit::Count;
    return {
        {"1 window", {many_windows(1)}},
        {"3 windows", {many_windows(3)}},
        {"8 windows", {many_windows(8)}},
        {"9 windows", {many_windows(9)}},
        {"12 windows", {many_windows(12)}},
        {"20 windows", {many_windows(20)}},
        {"32 windows", {many_windows(32)}},
        {"3 turning, 2 names", {turning_windows(3)}, 2},
        {"8 turning", {turning_windows(8)}},
        {"9 turning", {turning_windows(9)}},
        {"20 turning", {turning_windows(20)}},
        {"3 windows, 2 names", {many_windows(3)}, 2},
        {"20 windows, 2 names", {many_windows(20)}, 2},
        {"2 policies, 1 + 1 windows", {many_windows(1, "a"), many_windows(1, "b")}},
        {"2 policies, 3 + 3 windows", {many_windows(3, "a"), many_windows(3, "b")}},
        {"2 policies, 10 + 10", {many_windows(10, "a"), many_windows(10, "b")}},
        {"3 policies, 1 + 2 + 3",
         {many_windows(1, "a"), many_windows(2, "b"), many_windows(3, "c")}},
        {"3 of the first request", {three_of(Algorithm::fixed_window, Anchor::first_request)}},
        {"3 with count: all", {three_of(Algorithm::sliding_window, Anchor::clock, Count::all)}},
        {"3 of sliding_log", {three_of(Algorithm::sliding_log)}},
        {"3 of gcra", {three_of(Algorithm::gcra)}},
        {"3 of leaky_bucket", {three_of(Algorithm::leaky_bucket)}},
    };
}

// The same charges for our script, so many requests a command; `digest` as above.
Contender asked(const Kind& kind, std::string digest, std::size_t calls = 1) {
    const auto append = [&kind, digest, calls](const Case& some, std::size_t call,
                                               std::string& out) {
        std::vector<Names> names;
        for (std::size_t i = 0; i < calls; ++i) names.push_back(names_of(some, call + i));
        std::vector<std::vector<limit::ChargeItem>> items(calls);
        std::vector<limit::Charge> charges;
        for (std::size_t i = 0; i < calls; ++i) {
            for (const limit::Policy& policy : kind.policies) {
                const bool odd = items[i].size() % 2 == 1;
                items[i].push_back({&policy, odd ? names[i].user : names[i].address});
                if (kind.names == 2) items[i].push_back({&policy, names[i].user});
            }
            charges.push_back({items[i], 1});
        }
        const std::size_t begin = out.size();
        const auto add = calls == 1 ? store::append_charge_command : store::append_mixed_command;
        add(charges, "tg:", time_of(call), out);
        if (!digest.empty()) out.replace(out.find("$40\r\n", begin) + 5, 40, digest);
    };
    return {kind.name, append, admits, calls};
}

void compare_kinds(test::RedisServer& server, int rounds) {
    constexpr Case kSome{"", 1'000, kPlenty, 6'000, 10'000, true};
    const std::string general(store::charge_script({}).sha1);
    std::printf("\nRedis CPU, microseconds a decision (1,000 users, admitted; medians of %d)\n\n",
                rounds);
    std::printf("%-26s %8s %13s\n", "", "us", "no fast path");
    const std::vector<Kind> all = kinds();
    std::vector<std::vector<double>> us(all.size());
    std::vector<std::vector<double>> general_us(all.size());
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < all.size(); ++i) {
            us[i].push_back(measured(server, asked(all[i], {}), kSome));
            general_us[i].push_back(measured(server, asked(all[i], general), kSome));
        }
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::printf("%-26s %8.2f %13.2f\n", all[i].name, median(us[i]), median(general_us[i]));
    }
}

// ---- branches and loop

// The script with the fast path, but with its loop for every number of limits.
std::string loop_alone() {
    const limit::Policy policy = many_windows(1);
    const limit::ChargeItem item{&policy, "ip:203.0.113.7"};
    std::string text(store::charge_script({{&item, 1}, 1}).text);
    const std::string test = "if limits > 4 then";
    const std::size_t at = text.find(test);
    if (at == std::string::npos) throw std::runtime_error("the fast path has no loop");
    return text.replace(at, test.size(), "if limits > 0 then");
}

// What the branches of the fast path save. Both scripts serve the same keys, in short slices in
// turn.
void compare_with_loop(test::RedisServer& server, int slices) {
    constexpr Case kSome{"", 10'000, kPlenty, 24'000, 2'400, true};
    const std::string loop = server.text({"SCRIPT", "LOAD", loop_alone()});
    const std::vector<Kind> all{{"1 window", {many_windows(1)}},
                                {"3 windows", {three_windows(kPlenty)}},
                                {"3 windows, 2 names", {three_windows(kPlenty)}, 2}};
    std::printf("\nRedis CPU, microseconds a decision (10,000 users, admitted; medians of %d)\n\n",
                slices);
    std::printf("%-20s %10s %8s %8s %14s\n", "", "a command", "branch", "loop", "branch of loop");
    test::RedisConnection redis(server.port());
    for (const Kind& kind : all) {
        for (const std::size_t calls : {1, 4, 8}) {
            const std::array<Contender, 2> both{asked(kind, {}, calls), asked(kind, loop, calls)};
            redis.command({"FLUSHALL"});
            std::size_t call = kSome.warm_up;
            call_all(redis, both[0], kSome, 0, call, false);
            std::array<std::vector<double>, 2> us;
            std::vector<double> ratios;
            for (int slice = 0; slice < slices; ++slice) {
                for (int turn = 0; turn < 2; ++turn) {
                    const std::size_t one = (slice + turn) % 2;
                    const std::int64_t before = cpu_ns(server.pid());
                    call_all(redis, both[one], kSome, call, call + kSome.calls, true);
                    us[one].push_back(static_cast<double>(cpu_ns(server.pid()) - before) / 1'000 /
                                      static_cast<double>(kSome.calls));
                    call += kSome.calls;
                }
                ratios.push_back(us[0].back() / us[1].back());
            }
            std::printf("%-20s %10zu %8.2f %8.2f %14.3f\n", kind.name, calls, median(us[0]),
                        median(us[1]), median(ratios));
        }
    }
}

// ---- memory

struct Kept {
    std::int64_t value = 0;   // bytes of the state
    std::int64_t memory = 0;  // of all keys, as MEMORY USAGE says
};

// What is kept of one identifier, `ip:203.0.113.7`.
Kept kept(test::RedisConnection& redis) {
    const auto number = [&](const std::vector<std::string>& words) {
        return static_cast<std::int64_t>(redis.command(words)->integer);
    };
    Kept sum;
    const test::Reply keys = redis.command({"KEYS", "*"});
    for (std::size_t i = 0; i < keys->elements; ++i) {
        const std::string key(keys->element[i]->str, keys->element[i]->len);
        sum.memory += number({"MEMORY", "USAGE", key, "SAMPLES", "0"});
        const test::Reply type = redis.command({"TYPE", key});
        if (std::string(type->str) == "string") sum.value += number({"STRLEN", key});
    }
    return sum;
}

void take(test::RedisConnection& redis, const limit::Policy& policy, Micros now,
          std::uint64_t request) {
    const limit::ChargeItem item{&policy, "ip:203.0.113.7"};
    // The moments of a schedule are a minute apart.
    const Micros moment = kBegin + static_cast<std::int64_t>(request) * 1min;
    const limit::Charge charge{{&item, 1}, 1, {1, request}, moment};
    std::string command;
    store::append_charge_command({&charge, 1}, "tg:", now, command);
    redis.send(command);
    if (redis.read()->type != REDIS_REPLY_STRING) throw std::runtime_error("no verdict");
}

// Takes until no more is kept: of each limit, the widest sub-buckets first, a unit in every
// sub-bucket; of what has none, all of the quota.
void fill(test::RedisConnection& redis, const limit::Policy& policy) {
    Micros now = kBegin;
    std::uint64_t request = 1;
    for (auto limit = policy.limits.rbegin(); limit != policy.limits.rend(); ++limit) {
        const bool has_blocks = limit->algorithm == Algorithm::sliding_window;
        const std::int64_t units =
            has_blocks ? std::min(limit->blocks, limit->quota) : limit->quota;
        for (std::int64_t i = 0; i < units; ++i) {
            now += has_blocks ? limit->precision : 1us;
            take(redis, policy, now, ++request);
        }
    }
}

void tell_memory(test::RedisServer& server) {
    LimitSpec first_request = spec_of(Algorithm::fixed_window, 120, 1min);
    first_request.anchor = limit::Anchor::first_request;
    const Limit second = made(spec_of(Algorithm::sliding_window, 10, 1s));
    const Limit minute = made(spec_of(Algorithm::sliding_window, 120, 1min));
    const Limit hour = made(spec_of(Algorithm::sliding_window, 240, 1h));
    const std::pair<const char*, limit::Policy> rows[] = {
        {"sliding_window 10/s", policy_of({second})},
        {"sliding_window 120/min", policy_of({minute})},
        {"10/s, 120/min, 240/h", policy_of({second, minute, hour})},
        {"fixed_window 120/min", policy_of({made(spec_of(Algorithm::fixed_window, 120, 1min))})},
        {"  of the first request", policy_of({made(first_request)})},
        {"sliding_log 120/min", policy_of({made(spec_of(Algorithm::sliding_log, 120, 1min))})},
        {"gcra 120/min", policy_of({made(spec_of(Algorithm::gcra, 120, 1min))})},
        {"leaky_bucket 120/min", policy_of({made(spec_of(Algorithm::leaky_bucket, 120, 1min))})},
        {"schedule 5/h, 5 moments", policy_of({made(spec_of(Algorithm::schedule, 5, 1h))})},
        {"schedule 120/h, 120", policy_of({made(spec_of(Algorithm::schedule, 120, 1h))})},
        {"concurrency 10", policy_of({made(spec_of(Algorithm::concurrency, 10, 0s))})},
    };
    std::printf("\nBytes an identifier in Redis: the state, and all by MEMORY USAGE\n\n");
    std::printf("%-26s %10s %10s %10s %10s\n", "", "one unit", "all", "full", "all");
    test::RedisConnection redis(server.port());
    for (const auto& [name, policy] : rows) {
        redis.command({"FLUSHALL"});
        take(redis, policy, kBegin, 1);
        const Kept one = kept(redis);
        redis.command({"FLUSHALL"});
        fill(redis, policy);
        const Kept full = kept(redis);
        std::printf("%-26s %10ld %10ld %10ld %10ld\n", name, one.value, one.memory, full.value,
                    full.memory);
    }
}

int run(int rounds, const std::string& part) {
    test::RedisServer server;
    for (const redis::Script* script : store::all_scripts()) {
        server.command({"SCRIPT", "LOAD", std::string(script->text)});
    }
    if (part.empty() || part == "compare") compare(server, rounds);
    if (part.empty() || part == "kinds") compare_kinds(server, rounds);
    if (part.empty() || part == "loop") compare_with_loop(server, 8 * rounds);
    if (part.empty() || part == "memory") tell_memory(server);
    return 0;
}

}  // namespace
}  // namespace tidegate

int main(int count, char** words) {
    try {
        return tidegate::run(count > 1 ? std::max(1, std::atoi(words[1])) : 5,
                             count > 2 ? words[2] : "");
    } catch (const std::exception& fault) {
        std::fprintf(stderr, "bench_script: %s\n", fault.what());
        return 1;
    }
}
