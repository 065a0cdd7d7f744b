// What `tidegate explain` says about anonymous clients, users and lists of clients.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "cli/explain.hpp"

namespace tidegate::cli::explain_clients_test {
namespace {

using Outcome = ask::ChargeNotes::Outcome;

constexpr const char* kYaml = R"(
identity:
  require: on
  client_ip: {trusted_proxies: [10.0.0.0/8]}
  user: [{header: {name: x-user-id, tier_header: x-tier}}]
upstreams: {api: {servers: [http://127.0.0.1:3000]}}
policies:
  anonymous: {key: [ip], limits: [9/s], exempt: [authenticated, 192.0.2.0/24]}
  members: {key: [user], on_missing: skip, limits: [9/s], exempt: ["tier:internal"], deny: ["user:mallory"]}
  needed: {key: [user], limits: [9/s]}
routes:
  - {name: open, match: {path: /open}, identity: optional, policies: [anonymous, members]}
  - {name: needed, match: {path: /needed}, identity: optional, policies: [needed]}
  - {name: own, match: {path: /own}, identity: required, policies: []}
  - {name: rest, policies: []}
)";

Explanation explained(const std::string& path, std::vector<std::string> fields = {},
                      const std::string& from = "10.0.0.1") {
    const auto loaded = config::load_text(kYaml, "t.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    ExplainQuestion question;
    question.target = path;
    question.fields = std::move(fields);
    question.from = parse_scoped_ip(from);
    return explain(loaded.config, question, [](const auto&) {});
}

bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("explain: a policy that is left out says which entry of `exempt` means the client") {
    const auto alice = explained("/open", {"X-User-Id: alice"});
    REQUIRE(alice.policies.size() == 2);
    CHECK(alice.policies[0].outcome == Outcome::exempt);
    CHECK(alice.policies[0].listed_as == "authenticated");
    CHECK(has(doc_of(alice).text(),
              "does not count it: `exempt` names the client as `authenticated`"));
    CHECK(alice.policies[1].outcome == Outcome::counted);
    CHECK(alice.policies[1].listed_as.empty());
    const auto internal = explained("/open", {"X-User-Id: alice", "X-Tier: internal"});
    CHECK(internal.policies[1].listed_as == "tier:internal");
    CHECK(explained("/open", {}, "192.0.2.7").policies[0].listed_as == "192.0.2.0/24");
    const auto mallory = explained("/open", {"X-User-Id: mallory"});
    CHECK(mallory.refusal == 403);
    CHECK(mallory.policies[0].listed_as == "user:mallory");
    const auto json = nlohmann::json::parse(doc_of(alice).json_text());
    CHECK(json["policies"][0]["listed_as"] == "authenticated");
    CHECK(json["policies"][1]["listed_as"].is_null());
}

TEST_CASE("explain: a policy without any of its keys is skipped, or needs a user") {
    const auto skipped = explained("/open");
    CHECK(skipped.policies[0].outcome == Outcome::counted);
    CHECK(skipped.policies[1].outcome == Outcome::skipped);
    CHECK(skipped.refusal == 0);
    CHECK(has(doc_of(skipped).text(), "`on_missing: skip`"));
    const auto needed = explained("/needed");
    CHECK(needed.policies[0].outcome == Outcome::no_user);
    CHECK(needed.refusal == 401);
    CHECK(has(doc_of(needed).text(), "the policy needs a user, and the request has none"));
}

// Over a Unix socket with `trusted: on`, where only `x-real-ip` names the client.
Explanation explained_over_socket(std::vector<std::string> fields) {
    const auto loaded = config::load_text(R"(
listen: {address: "unix:/run/t.sock", trusted: on}
identity: {client_ip: {header: x-real-ip}, user: [{header: {name: x-user-id}}]}
upstream: http://127.0.0.1:3000
policies: {both: {key: [ip, user], limits: [9/s]}}
routes: [{policies: [both]}]
)",
                                          "t.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    ExplainQuestion question;
    question.fields = std::move(fields);
    return explain(loaded.config, question, [](const auto&) {});
}

TEST_CASE("explain: a policy by address or user refuses a request that has neither") {
    const auto neither = explained_over_socket({});
    CHECK(neither.refusal == 401);
    CHECK(neither.refusal_reason ==
          "The request has neither a client address nor a user to count by.");
    CHECK(has(doc_of(neither).text(), "neither a client address nor a user to count by"));
    CHECK(has(doc_of(neither).text(), "there is no x-real-ip"));
    CHECK_FALSE(has(doc_of(neither).text(), "hop "));
    CHECK(explained_over_socket({"X-User-Id: alice"}).refusal == 0);
    CHECK(explained_over_socket({"X-Real-IP: 192.0.2.1"}).refusal == 0);
}

TEST_CASE("explain: the field that names the client, if it is empty or there are two") {
    for (const std::vector<std::string>& fields :
         {std::vector<std::string>{"X-Real-IP: "}, std::vector<std::string>{"X_Real_IP: 192.0.2.1"},
          std::vector<std::string>{"X-Real-IP: 192.0.2.1", "X-Real-IP: 192.0.2.1"}}) {
        CHECK(has(doc_of(explained_over_socket(fields)).text(),
                  "x-real-ip is sent twice, is empty, or has another character"));
    }
    CHECK(has(doc_of(explained_over_socket({"X-Real-IP: unknown"})).text(), "not an address"));
}

TEST_CASE("explain: says whether a route requires a user, and what says so") {
    const auto rest = explained("/rest");
    CHECK(rest.refusal == 401);
    CHECK(rest.need_of_user.is_needed);
    CHECK(rest.need_of_user.why == "by identity.require");
    CHECK(has(doc_of(rest).text(), "required"));
    CHECK(explained("/rest", {"X-User-Id: alice"}).refusal == 0);
    const auto open = explained("/open");
    CHECK_FALSE(open.need_of_user.is_needed);
    CHECK(open.need_of_user.why == "by `identity` of the route");
    CHECK(nlohmann::json::parse(doc_of(rest).json_text())["route"]["user_needed"] == true);
    const auto own = explained("/own");
    CHECK(own.need_of_user.is_needed);
    CHECK(own.need_of_user.why == "by `identity` of the route");
}

}  // namespace
}  // namespace tidegate::cli::explain_clients_test
