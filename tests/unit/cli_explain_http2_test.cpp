#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "cli/explain.hpp"

namespace tidegate::cli::explain_http2_test {
namespace {

constexpr const char* kConfig = R"(
identity: {user: [cookie: {name: session}]}
upstreams: {api: {servers: [http://127.0.0.1:3000]}}
policies: {per-user: {key: ["user|ip"], limits: [10/s]}}
limits_on_requests: {header_bytes: 4KiB, headers: 10}
routes:
  - {name: beta, match: {path: /search, host: b.example, headers: {x-beta: "1"}}, policies: []}
  - {name: search, match: {path: /search}, policies: [per-user]}
)";

ExplainQuestion asked(std::vector<std::string> fields = {}, const std::string& method = "GET") {
    ExplainQuestion question;
    question.method = method;
    question.target = "/search?q=1";
    question.fields = std::move(fields);
    question.from = parse_scoped_ip("203.0.113.7");
    question.is_http2 = true;
    return question;
}

Explanation explained(const ExplainQuestion& question) {
    const auto loaded = config::load_text(kConfig, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return explain(loaded.config, question, [](const auto&) { FAIL_CHECK("keys are not needed"); });
}

// The status of the refusal and what it says; empty: none.
std::string refusal(const ExplainQuestion& question) {
    const Explanation told = explained(question);
    return told.refusal == 0 ? "" : std::to_string(told.refusal) + " " + told.refusal_reason;
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST_CASE("explain: a request over HTTP/2 takes the route that it takes over HTTP/1") {
    ExplainQuestion question = asked({"X-Beta: 1"});
    question.host = "b.example";
    const Explanation over_2 = explained(question);
    CHECK(over_2.route == "beta");
    CHECK(over_2.path == "/search");
    CHECK(over_2.host == "b.example");
    CHECK(over_2.version == HttpVersion::http_2);
    CHECK(has(doc_of(over_2).text(), "\nprotocol  HTTP/2"));
    CHECK(nlohmann::json::parse(doc_of(over_2).json_text())["request"]["protocol"] == "HTTP/2");
    question.is_http2 = false;
    const Explanation over_1 = explained(question);
    CHECK(over_1.route == "beta");
    CHECK_FALSE(has(doc_of(over_1).text(), "\nprotocol"));
}

TEST_CASE("explain: over HTTP/2 cookies in crumbs are one field") {
    std::vector<std::string> crumbs(20, "Cookie: a=b");
    crumbs.emplace_back("Cookie: session=hush");
    ExplainQuestion question = asked(std::move(crumbs));
    const Explanation told = explained(question);
    CHECK(told.refusal == 0);
    CHECK(told.user.has_value());
    question.is_http2 = false;
    CHECK(refusal(question).starts_with("431 "));
}

TEST_CASE("explain: over HTTP/2 what belongs to one hop is refused") {
    for (const std::string field : {"Connection: close", "Upgrade: websocket", "Keep-Alive: 5",
                                    "Transfer-Encoding: chunked", "Proxy-Connection: close"}) {
        CAPTURE(field);
        CHECK(has(refusal(asked({field})), "400 HTTP/2 has no field Connection"));
    }
    CHECK(has(refusal(asked({"TE: gzip"})), "400 TE must be"));
    CHECK(refusal(asked({"TE: trailers"})).empty());
}

TEST_CASE("explain: over HTTP/2 there is one host") {
    ExplainQuestion question = asked({"Host: b.example"});
    CHECK(explained(question).host == "b.example");
    question.host = "B.example";
    CHECK(explained(question).refusal == 0);
    question.host = "a.example";
    CHECK(refusal(question).starts_with("400 "));
    CHECK(explained(asked()).host == "localhost");
}

TEST_CASE("explain: over HTTP/2 bounds hold, and CONNECT is not supported") {
    CHECK(refusal(asked({"X-Long: " + std::string(5'000, 'x')})).starts_with("431 "));
    CHECK(refusal(asked(std::vector<std::string>(11, "X-A: 1"))).starts_with("431 "));
    CHECK(refusal(asked({}, "CONNECT")).starts_with("501 "));
    ExplainQuestion url = asked();
    url.target = "https://b.example/search";
    CHECK(refusal(url).starts_with("400 "));
}

}  // namespace
}  // namespace tidegate::cli::explain_http2_test
