// What `explain --body` says of keys and costs.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "cli/explain.hpp"
#include "identity/key_source.hpp"

namespace tidegate::cli::explain_body_test {

namespace {

using Reserved = Explanation::Reserved;

const std::string kBegin = "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\n";

const std::string kTokens =
    kBegin +
    "policies:\n"
    "  requests: {key: [ip], limits: [60/min]}\n"
    "  tokens:\n"
    "    key: [\"ip+body:/model\"]\n"
    "    limits: [100000/min]\n"
    "    cost: {reserve: auto, settle: openai}\n"
    "routes: [{name: chat, inspect_body: 1KiB, policies: [requests, tokens]}]\n";

void never_fetch_keys(const std::shared_ptr<identity::KeySource>&) {
    FAIL("keys are not needed");
}

Explanation explained(std::shared_ptr<const config::Config> config,
                      const std::optional<std::string>& body,
                      const std::vector<std::string>& fields = {}) {
    ExplainQuestion question;
    question.method = "POST";
    question.from = parse_scoped_ip("203.0.113.7");
    question.body = body;
    question.fields = fields;
    return explain(std::move(config), question, never_fetch_keys);
}

Explanation explained(const std::string& yaml, const std::optional<std::string>& body,
                      const std::vector<std::string>& fields = {}) {
    const auto loaded = config::load_text(yaml, "test.yaml");
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    return explained(loaded.config, body, fields);
}

std::string with_cost(const std::string& cost) {
    return kBegin + "policies: {p: {key: [ip], limits: [99999/s], cost: " + cost +
           "}}\nroutes: [{name: all, inspect_body: 1KiB, policies: [p]}]\n";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("explain body: a key reads the body, and a cost is estimated by it") {
    const std::string body = R"({"model": "gpt-x", "messages": [], "max_tokens": 300, "n": 2})";
    const Explanation told = explained(kTokens, body);
    CHECK(told.refusal == 0);
    REQUIRE(told.body);
    CHECK(told.body->is_json);
    REQUIRE(told.policies.size() == 2);
    CHECK_FALSE(told.policies[0].reserved);
    CHECK(told.policies[1].keys.at(0).identifiers.at(0) ==
          "14:ip:203.0.113.7+17:body:/model=gpt-x");
    REQUIRE(told.policies[1].reserved);
    const Reserved& reserved = *told.policies[1].reserved;
    CHECK(reserved.by == Reserved::By::body);
    CHECK(reserved.stated_by == "/max_tokens");
    CHECK(reserved.answers == 2);
    CHECK(reserved.tokens.output == 600);
    CHECK(reserved.tokens.input_bytes == static_cast<std::int64_t>(body.size()));
    CHECK(reserved.units == 600 + (static_cast<std::int64_t>(body.size()) + 3) / 4);
    CHECK(reserved.model == "gpt-x");
    // The other policy takes the cost of the route.
    REQUIRE(told.cost);
    CHECK(told.cost->counts);
}

TEST_CASE("explain body: without a maximum the default counts, and `max` caps both") {
    const Explanation open = explained(with_cost("{reserve: {default: 70}}"), "{}");
    CHECK(open.policies.at(0).reserved->stated_by.empty());
    CHECK(open.policies.at(0).reserved->tokens.output == 70);
    CHECK_FALSE(open.cost->counts);
    const Explanation capped =
        explained(with_cost("{reserve: {default: 70, max: 100}}"), R"({"max_tokens": 500})");
    CHECK(capped.policies.at(0).reserved->is_capped);
    CHECK(capped.policies.at(0).reserved->units == 100);
}

TEST_CASE("explain body: the member that counts is named, however it is written") {
    const auto stated_by = [](const std::string& body) {
        return explained(with_cost("{settle: auto}"), body).policies.at(0).reserved->stated_by;
    };
    CHECK(stated_by(R"({"messages": [], "max_tokens": 50})") == "/max_tokens");
    CHECK(stated_by(R"({"messages": [], "max_tokens": 50, "Max_Tokens": 5000})") == "/max_tokens");
    CHECK(stated_by(R"({"messages": [], "max_output_tokens": 5000})") == "/max_output_tokens");
    // The default counts.
    CHECK(stated_by(R"({"messages": [], "max_output_tokens": 50})").empty());
    CHECK(stated_by(R"({"messages": [], "Max_Tokens": 50})").empty());
}

TEST_CASE("explain body: a longer body reserves the most, and a key refuses it") {
    const std::string body(2'000, ' ');
    const Explanation told = explained(with_cost("{}"), body);
    CHECK(told.policies.at(0).reserved->by == Reserved::By::maximum);
    CHECK(told.policies.at(0).reserved->units == 32'000);
    CHECK_FALSE(told.body->is_whole);
    CHECK(explained(kTokens, body).refusal == 413);
}

TEST_CASE("explain body: a compressed body is refused, and one that is not needed is not read") {
    CHECK(explained(kTokens, "{}", {"Content-Encoding: gzip"}).refusal == 415);
    const std::string plain =
        kBegin + "policies: {p: {key: [ip], limits: [9/s]}}\nroutes: [{policies: [p]}]\n";
    const Explanation told = explained(plain, "{}", {"Content-Encoding: gzip"});
    CHECK(told.refusal == 0);
    CHECK_FALSE(told.body->is_needed);
}

TEST_CASE("explain body: a body of another charset is not read, and a key refuses it") {
    const std::string body = R"({"model": "gpt-x", "messages": [], "max_tokens": 300})";
    const std::vector<std::vector<std::string>> read{
        {},
        {"Content-Type: application/json"},
        {"Content-Type: application/json; charset=utf-8"},
        {"Content-Type: application/json;CHARSET=\"UTF-8\" ; x=y"},
        {"Content-Type: text/plain; x=y; charset= utf8"},
        {"Content-Type: text/plain; charset=US-ASCII"}};
    for (const auto& fields : read) {
        CAPTURE(fields.empty() ? "" : fields.front());
        CHECK(explained(kTokens, body, fields).refusal == 0);
        CHECK(explained(with_cost("{settle: auto}"), body, fields).policies.at(0).reserved->units <
              400);
    }
    const std::vector<std::vector<std::string>> refused{
        {"Content-Type: application/json; charset=utf-7"},
        {"Content-Type: application/json; charset=utf-16"},
        {"Content-Type: application/json; charset=iso-8859-1"},
        {"Content-Type: application/json; charset="},
        {"Content-Type: application/json; charset"},
        {"Content-Type: application/json; charset = utf-8"},
        {"Content-Type: application/json; charset*=utf-8''utf-7"},
        {"Content-Type: application/json; charset=utf-8; charset=utf-7"},
        {"Content-Type: application/json; x=\"; charset=utf-7\""},
        {"Content-Type: application/json; charset=\"utf-8"},
        {"Content-Type: application/json; charset=utf-8, text/plain"},
        {"Content-Type: application/json charset=utf-8"},
        {"Content-Type: application/json", "Content-Type: application/json; charset=utf-7"},
        {"Content-Type: application/json", "Content_Type: application/json"}};
    for (const auto& fields : refused) {
        CAPTURE(fields.back());
        CHECK(explained(kTokens, body, fields).refusal == 415);
        CHECK(explained(with_cost("{}"), body, fields).policies.at(0).reserved->units == 32'000);
    }
    // Without a body, nothing is read.
    CHECK(explained(with_cost("{}"), std::nullopt, {refused.front()})
              .policies.at(0)
              .reserved->units == 1'000);
}

TEST_CASE("explain body: a request without a body has none of its members") {
    const Explanation told = explained(kTokens, std::nullopt);
    CHECK(told.refusal == 400);
    CHECK_FALSE(told.body);
    CHECK(explained(with_cost("{}"), std::nullopt).policies.at(0).reserved->units == 1'000);
}

TEST_CASE("explain body: a form is read as one") {
    const std::string form = kBegin +
                             "policies: {p: {key: [\"form:user\"], limits: [9/s]}}\n"
                             "routes: [{policies: [p]}]\n";
    const std::string type = "Content-Type: application/x-www-form-urlencoded";
    const Explanation told = explained(form, "user=alice&x=1", {type});
    CHECK(told.policies.at(0).keys.at(0).identifiers.at(0) == "form:user=alice");
    CHECK(told.body->is_form);
    CHECK(explained(form, "user=alice").refusal == 400);
}

TEST_CASE("explain body: what is JSON and a form at once is unclear where both have the name") {
    const auto refused = [](const std::string& key, const std::string& body,
                            const std::string& more = "") {
        const std::string type = "Content-Type: application/x-www-form-urlencoded" + more;
        return explained(kBegin + "policies: {p: {key: [\"" + key +
                             "\"], limits: [9/s]}}\nroutes: [{policies: [p]}]\n",
                         body, {type})
            .refusal;
    };
    // Express with json() and urlencoded() takes `victim`.
    CHECK(refused("body:/id", R"({"id":"rand","x":"&id=victim&"})") == 400);
    CHECK(refused("body:/id", R"({"id":"rand","x":"&id=victim&"})", ", text/plain") == 400);
    CHECK(refused("body:/user/id", R"({"user":{"id":"rand"},"x":"&user[id]=victim&"})") == 400);
    CHECK(refused("body:/a~1b~0", R"({"a/b~":"rand","x":"&a%2Fb~=victim&"})") == 400);
    CHECK(refused("body_lower:/id", R"({"id":"rand","x":"&ID=victim&"})") == 400);
    // What reads JSON whatever the type says takes `victim` here.
    CHECK(refused("form:id|body:/id", R"({"id":"victim","x":"&id=rand&"})") == 400);
    // `curl -d` sends JSON with this type.
    CHECK(refused("body:/id", R"({"id":"a","x":"5% & more; =[1]"})") == 0);
    CHECK(refused("form:id|body:/id", R"({"id":"a","x":"y&z"})") == 0);
    CHECK(refused("body:/id", R"({"id":"a","x":"&id=b&"})", "x") == 0);
}

TEST_CASE("explain body: `body_lower` has one identifier for letters that servers take for one") {
    const auto identifier = [](const std::string& email) {
        return explained(kBegin +
                             "policies: {p: {key: [\"body_lower:/email\"], limits: [9/s]}}\n"
                             "routes: [{policies: [p]}]\n",
                         R"({"email":")" + email + "\"}")
            .policies.at(0)
            .keys.at(0)
            .identifiers.at(0);
    };
    CHECK(identifier("Mike@KK.org") == "body_lower:/email=mike@kk.org");
    CHECK(identifier("mi\u212ae@kk.org") == identifier("mike@kk.org"));
    CHECK(identifier("M\u0130KE@kk.org") == identifier("mike@kk.org"));
    CHECK(identifier("\u00c9@kk.org") == identifier("\u00e9@kk.org"));
    CHECK(identifier("e@kk.org") != identifier("\u00e9@kk.org"));
}

TEST_CASE("explain body: money names the model and its price") {
    std::string folder = std::filesystem::temp_directory_path() / "tidegate-explain-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/prices.yaml") << "models: {\"gpt-x*\": {input: 2, output: 10},"
                                              " c: {input: 3, cache_write_1h: 6, output: 15}}\n";
    std::ofstream(folder + "/tidegate.yaml")
        << kBegin << "prices: prices.yaml\n"
        << "policies: {p: {key: [ip], limits: [{quota: 5, unit: usd, per: 1h}],"
           " cost: {settle: openai, unit: usd}}}\nroutes: [{policies: [p]}]\n";
    const auto config = config::load_file(folder + "/tidegate.yaml").config;
    std::filesystem::remove_all(folder);
    REQUIRE(config != nullptr);
    const Explanation told =
        explained(config, R"({"model": "gpt-x-1", "messages": [], "max_tokens": 1000})");
    REQUIRE(told.policies.at(0).reserved);
    CHECK(told.policies.at(0).reserved->units == 10'028);
    const Doc doc = doc_of(told);
    CHECK(has(doc.text(), "0.010028 USD"));
    CHECK(has(doc.text(), "5 USD in 1h"));
    CHECK(has(doc.text(), "1000 tokens of output, by /max_tokens"));
    CHECK(has(doc.text(), "input 2, cached 2, cache_write 2, output 10"));
    CHECK(doc.json["policies"][0]["reserved"]["units"] == 0.010028);
    CHECK(doc.json["policies"][0]["reserved"]["rates"]["output"] == 10);
    CHECK(doc.json["policies"][0]["limits"][0]["quota"] == 5);
    CHECK(doc.json["policies"][0]["limits"][0]["unit"] == "usd");
    CHECK(doc.json["policies"][0]["reserved"]["model"] == "gpt-x-1");
    const std::string body = R"({"model": "c", "messages": [], "max_tokens": 1})";
    const Explanation hour = explained(config, body);
    // Each token of input may be written to the cache for an hour.
    CHECK(hour.policies.at(0).reserved->units ==
          15 + (6 * static_cast<std::int64_t>(body.size()) + 3) / 4);
    CHECK(has(doc_of(hour).text(), "cache_write 3, cache_write_1h 6, output 15"));
    CHECK(explained(config, R"({"model": "other"})").refusal == 400);
    for (const char* no_model :
         {"{}", R"({"model": 5})", R"({"model": "gpt-x", "Model": "c"})", "[]", "text"}) {
        const Explanation refused = explained(config, no_model);
        CHECK(refused.refusal == 400);
        CHECK_MESSAGE(refused.refusal_reason.starts_with("Tidegate finds no model in the request"),
                      no_model);
    }
}

TEST_CASE("explain body: a request that no limit could ever admit is refused, and why") {
    const auto config = [](const std::string& mode) {
        return kBegin + "policies: {p: {key: [ip], limits: [500/s, 100000/day], mode: " + mode +
               ", cost: {reserve: auto, settle: openai}}}\n"
               "routes: [{policies: [p]}]\nresponse: {status: 503}\n";
    };
    const std::string body = R"({"messages":[],"max_tokens":2000})";
    const Explanation told = explained(config("enforce"), body);
    CHECK(told.refusal == 503);
    CHECK(told.refusal_reason ==
          "This request would use 2009 tokens of a quota of 500 (limit `p-1s`): it never passes. "
          "Ask for less.");
    const Doc doc = doc_of(told);
    CHECK(has(doc.text(), "this request never passes"));
    CHECK(doc.json["policies"][0]["limits"][0]["never_passes"] == true);
    CHECK_FALSE(doc.json["policies"][0]["limits"][1].contains("never_passes"));
    CHECK(doc.json["result"]["status"] == 503);
    CHECK(explained(config("enforce"), R"({"messages": [], "max_tokens": 200})").refusal == 0);
    const Explanation soft = explained(config("soft"), body);
    CHECK(soft.refusal == 0);
    CHECK(soft.policies.at(0).limits.at(0).never_passes);
    CHECK(has(doc_of(soft).text(), "; this request asks for more than this limit has"));
    CHECK_FALSE(has(doc_of(soft).text(), "never passes"));
}

TEST_CASE("explain body: a body that has not what a key wants says what is wrong") {
    const auto reason = [](const std::string& part, const std::string& body,
                           const std::vector<std::string>& fields = {}) {
        return explained(kBegin + "policies: {p: {key: [\"" + part +
                             "\"], on_missing: reject, limits: [9/s]}}\n"
                             "routes: [{policies: [p]}]\n",
                         body, fields)
            .refusal_reason;
    };
    const std::string behind = ", and a limit of this route counts by it.";
    CHECK(
        reason("body:/model", R"({"model":"a","model":"b"})") ==
        "The body has the member `/model` more than once, in another case, or as a field of a form "
        "as well" +
            behind);
    CHECK(reason("body:/model", "model=a") ==
          "The body is not a JSON object, which should have the member `/model`" + behind);
    CHECK(reason("body:/model", R"({"model":{}})") ==
          "The body has no text, number, true or false at `/model`" + behind);
    CHECK(reason("body:/model", "") ==
          "The request has no body, which should have `/model`" + behind);
    const std::vector<std::string> form{"Content-Type: application/x-www-form-urlencoded"};
    CHECK(reason("form:name", "name=a&name=b", form) ==
          "The form's field `name` can be read in more than one way: it is there twice, in another "
          "spelling or in the query as well, or is not UTF-8" +
              behind);
    CHECK(reason("form:name", "name=%E9", form) == reason("form:name", "name=a&name=b", form));
    CHECK(reason("form:name", "NAME=a", form) == reason("form:name", "name=a&name=b", form));
    CHECK(reason("form:name", "other=b", form) == "The form has no field `name`" + behind);
    CHECK(reason("form:name", "name=a") ==
          "The body is not a form (application/x-www-form-urlencoded), which should have the field "
          "`name`" +
              behind);
}

TEST_CASE("explain body: a soft policy says that it refuses nothing") {
    const Explanation told =
        explained(kBegin +
                      "policies: {p: {key: [ip], limits: [9/s], mode: soft, cost: {reserve: 3}}}\n"
                      "routes: [{policies: [p]}]\n",
                  std::nullopt);
    CHECK(told.policies.at(0).reserved->by == Reserved::By::number);
    const Doc doc = doc_of(told);
    CHECK(has(doc.text(), "soft: refuses no request"));
    CHECK(doc.json["policies"][0]["mode"] == "soft");
    CHECK(has(doc.text(), "what is reserved stays"));
}

TEST_CASE("explain: a policy with leases says that a thread may admit in advance") {
    const Explanation told =
        explained(kBegin +
                      "policies: {p: {key: [ip], limits: [9/s], lease: {slack: 2.5%}}}\n"
                      "routes: [{policies: [p]}]\n",
                  std::nullopt);
    const Doc doc = doc_of(told);
    CHECK(
        has(doc.text(), "leases: a thread may admit it from units that it took in advance, 2.5%"));
    CHECK(doc.json["policies"][0]["lease_slack"] == 0.025);
}

}  // namespace tidegate::cli::explain_body_test
