// What the tests of limiters share: where proxies count, upstreams that answer when a test says so,
// and the fate of requests.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "integration/client.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "redis_server.hpp"

namespace tidegate::test {

// Where the proxies of a test count.
struct CountedIn {
    std::unique_ptr<RedisServer> redis;  // null: each in its process

    // The key `store` of the configuration. With a long timeout: Redis decides also on a busy
    // machine, and not the local share.
    std::string yaml() const;
    // As the access log says it.
    std::string name() const { return redis ? "redis" : "memory"; }
};

// Runs the test case once for each store.
CountedIn either_store();
CountedIn counted_in_redis();

// `upstreams` with `api`; the test appends the rest of the configuration.
std::string api(const Upstream& upstream, const std::string& rest);
// One route, `all`, of the policy `p` with this text, such as `{key: [ip], limits: [5/h]}`.
std::string one_policy(const Upstream& upstream, const std::string& policy);
// 127.0.0.1 is trusted to name the user in x-user-id.
inline const std::string kUsersFromHere =
    "identity: {client_ip: {trusted_proxies: [127.0.0.1]}, user: [{header: {name: x-user-id, "
    "from: trusted_proxies}}]}\n";

// Waits until `holds`, or fails.
void await(const std::string& what, const std::function<bool()>& holds,
           milliseconds patience = kPatience);
// How often Redis got `command`.
long calls(const RedisServer& redis, const std::string& command);
// How often the one limit of `policy` (all its limits together, if it has more) answered so.
double decisions(const Tidegate& tidegate, const std::string& outcome,
                 const std::string& policy = "p");
// The line of the access log whose path is `path`, once it is there; of several, any.
nlohmann::json logged(const Tidegate& tidegate, const std::string& path);

// Answers 200 to the requests that the test releases, one after the other or all.
class GatedUpstream {
  public:
    GatedUpstream();
    ~GatedUpstream() { ending_ = true; }
    GatedUpstream(const GatedUpstream&) = delete;
    GatedUpstream& operator=(const GatedUpstream&) = delete;

    const Upstream& upstream() const { return upstream_; }
    // Requests that have come, and were not answered yet.
    int waiting() const { return come_ - gone_; }
    int come() const { return come_; }
    void let_go(int requests = 1) { may_go_ += requests; }
    void open() { may_go_ = 1'000'000; }

  private:
    void serve(Conversation& conversation);

    std::atomic<bool> ending_{false};
    std::atomic<int> come_{0};
    std::atomic<int> gone_{0};
    std::atomic<int> may_go_{0};
    Upstream upstream_;  // ends first, as its threads use the rest
};

// A request that was admitted: it was decided between the two.
struct Admitted {
    Clock::time_point sent;
    Clock::time_point answered;
};

// GETs of `path` from each of `ports`, `connections` in all, as fast as they are answered, for
// `time`: those with 200, in the order of sending. Anything but 200 and 429 fails the test.
std::vector<Admitted> admitted_in(const std::vector<std::uint16_t>& ports, int connections,
                                  const std::string& path, milliseconds time);

}  // namespace tidegate::test
