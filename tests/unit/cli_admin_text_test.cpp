#include <string>

#include <doctest/doctest.h>

#include "cli/admin_client.hpp"
#include "cli/admin_text.hpp"

namespace tidegate::cli::admin_text_test {

namespace {

std::string inspected(const std::string& limit, const std::string& more = "") {
    return R"({"store":"redis","counted":true,"identifiers":[{"identifier":"user:a",)"
           R"("known_tier":"pro","policies":[{"policy":"p","tier":"pro","mode":"shadow",)"
           R"("limits":[)" +
           limit + R"(],"unknown":[)" + more + "]}]}]}";
}

std::string limit_of(const std::string& rest) {
    return R"({"name":"p-1s","counted":3,"quota":4,"remaining":1,)" + rest + "}";
}

const std::string kAdmits =
    R"("next_unit_us":1,"all_free_us":null,"denied":false,"denied_for_us":null)";

void says(const std::string& json, const std::string& part) {
    const auto told = inspect_text(json);
    REQUIRE(told);
    CHECK_MESSAGE(told->text.find(part) != std::string::npos, told->text);
}

std::string denied_for(const std::string& us) {
    return inspected(
        limit_of(R"("next_unit_us":null,"all_free_us":null,"denied":true,"denied_for_us":)" + us));
}

}  // namespace

TEST_CASE("inspect_text: a table with a line for each limit") {
    const auto told = inspect_text(inspected(limit_of(kAdmits)));
    REQUIRE(told);
    CHECK(told->counted);
    CHECK(told->text ==
          "user:a, counted in Redis, of tier pro\n"
          "  POLICY           LIMIT  COUNTED  QUOTA  LEFT  NEXT UNIT  ALL FREE  NOW\n"
          "  p (pro), shadow  p-1s   3        4      1     1ms        -         admits\n");
}

TEST_CASE("inspect_text: a policy with tiers labels each row with its tier") {
    const std::string limit = limit_of(kAdmits);
    const auto row = [&](const std::string& tier) {
        return R"({"policy":"plan","tier":)" + tier +
               R"(,"has_tiers":true,"mode":"enforce","limits":[)" + limit + R"(],"unknown":[]})";
    };
    const auto text =
        inspect_text(R"({"store":"memory","counted":true,"identifiers":[{"identifier":"user:a",)"
                     R"("known_tier":null,"policies":[)" +
                     row("null") + "," + row(R"("pro")") + "]}]}");
    REQUIRE(text);
    CHECK(text->text ==
          "user:a, counted in process\n"
          "  POLICY          LIMIT  COUNTED  QUOTA  LEFT  NEXT UNIT  ALL FREE  NOW\n"
          "  plan (no tier)  p-1s   3        4      1     1ms        -         admits\n"
          "  plan (pro)      p-1s   3        4      1     1ms        -         admits\n"
          "  A request meets one row of each policy: that of its tier. `tidegate explain` shows "
          "the tier of a request.\n");
}

TEST_CASE("inspect_text: times are rounded up, never down") {
    says(denied_for("1"), "denies for 1ms");
    says(denied_for("999000"), "denies for 999ms");
    says(denied_for("999001"), "denies for 1.0s");
    says(denied_for("12300001"), "denies for 12.4s");
    says(denied_for("59900001"), "denies for 1min 0s");
    says(denied_for("3599000001"), "denies for 1h 0min");
    says(denied_for("86400000000"), "denies for 1d 0h");
    says(denied_for("null"), "denies\n");
    says(denied_for(R"(null,"never_passes":true)"), "always denies");
}

TEST_CASE("inspect_text: moments, and counts of an older configuration") {
    says(inspected(limit_of(kAdmits + R"(,"moments":["2026-01-01T00:00:00Z"])")),
         "booked in p-1s:\n    2026-01-01T00:00:00Z\n    and 2 more\n");
    says(inspected("", R"({"record":"0a0b0c0d","all_free_us":2000000})"), "0a0b0c0d");
    says(R"({"store":"memory","counted":false,"identifiers":[{"identifier":"user:a",)"
         R"("known_tier":null,"policies":[]}]})",
         "no policy counts it");
}

TEST_CASE("inspect_text: control characters are escaped") {
    const auto told =
        reset_text(R"({"store":"memory","counted":true,"identifiers":[{"identifier":"\u001b[31m",)"
                   R"("forgotten":["\u009b1m"]}]})");
    REQUIRE(told);
    CHECK(told->text.find_first_of("\x1b\x9b") == std::string::npos);
    CHECK(told->text.find(": forgotten") != std::string::npos);
}

TEST_CASE("inspect_text: a malformed answer gives no text") {
    for (const std::string json :
         {"", "{", "[]", "{}", R"({"counted":1,"identifiers":[]})", R"({"counted":true})",
          R"({"store":"redis","counted":true,"identifiers":[{}]})"}) {
        CAPTURE(json);
        CHECK_FALSE(inspect_text(json));
        CHECK_FALSE(reset_text(json));
    }
    CHECK_FALSE(inspect_text(inspected("{}")));
    CHECK_FALSE(inspect_text(inspected(limit_of(R"("denied":3)"))));
    CHECK(problem_detail(R"({"detail":"Redis is down."})") == "Redis is down.");
    CHECK(problem_detail("<html>").empty());
    CHECK(problem_detail("[]").empty());
}

TEST_CASE("admin client: an identifier is one parameter, whatever is in it") {
    CHECK(percent_encoded("user:a+b&c=d%\n\xc3") == "user%3Aa%2Bb%26c%3Dd%25%0A%C3");
    CHECK(percent_encoded("aZ09-._~") == "aZ09-._~");
}

TEST_CASE("upstreams_text: servers that are not up come first") {
    const auto server = [](const std::string& address, const std::string& state) {
        return R"({"server":")" + address + R"(","configured":"api:3000","weight":1,"state":")" +
               state + R"(","checked":true,"active":2,"requests":30,"failures":4,"ejections":1})";
    };
    const auto told = upstreams_text(
        R"({"upstreams":[{"name":"api","connections":3,"connections_max":512,"queued":1,)"
        R"("servers":[)" +
        server("10.0.0.5:3000", "up") + "," + server("10.0.0.6:3000", "ejected") +
        R"(],"unresolved":["gone:3000"]}]})");
    REQUIRE(told);
    CHECK_FALSE(told->all_up);
    CHECK(
        told->text ==
        "api: 1 of 2 servers up, 3 of 512 connections, 1 waiting\n"
        "  SERVER         CONFIGURED  WEIGHT  STATE         ACTIVE  REQUESTS  FAILURES  EJECTIONS\n"
        "  10.0.0.6:3000  api:3000    1       ejected       2       30        4         1\n"
        "  10.0.0.5:3000  api:3000    1       up (checked)  2       30        4         1\n"
        "  gone:3000: has no address yet\n");
}

TEST_CASE("upstreams_text: all is up if every server is, and every name has an address") {
    const auto all_up = [](const std::string& servers, const std::string& unresolved) {
        const auto told = upstreams_text(
            R"({"upstreams":[{"name":"a","connections":0,"connections_max":1,"queued":0,)"
            R"("servers":[)" +
            servers + R"(],"unresolved":[)" + unresolved + "]}]}");
        REQUIRE(told);
        return told->all_up;
    };
    const std::string up =
        R"({"server":"s","configured":"s","weight":1,"state":"up","checked":false,"active":0,)"
        R"("requests":0,"failures":0,"ejections":0})";
    CHECK(all_up(up, ""));
    CHECK_FALSE(all_up(up, R"("name:80")"));
    CHECK_FALSE(all_up("", R"("name:80")"));
    const auto none = upstreams_text(R"({"upstreams":[]})");
    REQUIRE(none);
    CHECK(none->all_up);
    CHECK(none->text == "the configuration has no upstreams\n");
}

TEST_CASE("upstreams_text: any other answer is refused") {
    for (const char* json : {"", "[]", "{}", R"({"upstreams":[{}]})", R"({"upstreams":[1]})",
                             R"({"upstreams":[{"name":"a","servers":[{}],"unresolved":[]}]})"}) {
        CHECK_FALSE_MESSAGE(upstreams_text(json), json);
    }
}

namespace {

std::string top_of(const std::string& identifiers, const std::string& enabled = "true") {
    return R"({"by":"denials","enabled":)" + enabled +
           R"(,"names":1024,"seconds":87,"total":2000,"error_max":3,"identifiers":[)" +
           identifiers + "]}";
}

std::string denial_of(const std::string& id, const std::string& identifier) {
    return R"({"id":")" + id + R"(","time_ms":1764000600001,"request_id":"0f3c","identifier":")" +
           identifier +
           R"(","route":"search","policy":"p","limit":"p-1s","count":10,"quota":10,)"
           R"("retry_after_seconds":1})";
}

std::string denials_of(const std::string& denials) {
    return R"({"enabled":true,"left_out":0,"denials":[)" + denials + "]}";
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

bool has_controls(const std::string& text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ' && c != '\n') return true;
    }
    return false;
}

TEST_CASE("activity_text: top is a table of what is certain and what is possible") {
    const auto top = top_text(top_of(R"({"identifier":"ip:203.0.113.7","count":500,"error":3})"));
    REQUIRE(top);
    CHECK(top->lists_any);
    CHECK_MESSAGE(has(top->text, "denials of the last 87s, identifiers counted 2000 times"),
                  top->text);
    CHECK_MESSAGE(has(top->text, "       500         503  ip:203.0.113.7"), top->text);
}

TEST_CASE("activity_text: top says when there is nothing, and when nothing is kept") {
    const auto none = top_text(top_of(""));
    REQUIRE(none);
    CHECK_FALSE(none->lists_any);
    CHECK_FALSE(has(none->text, "AT LEAST"));
    const auto off = top_text(top_of("", "false"));
    REQUIRE(off);
    CHECK(has(off->text, "`telemetry: {top: off}`"));
}

TEST_CASE("activity_text: denials are listed oldest first, each with its reason") {
    const auto all =
        denials_text(denials_of(denial_of("0-2", "ip:2") + "," + denial_of("0-1", "ip:1")));
    REQUIRE(all);
    REQUIRE(all->denials.size() == 2);
    const std::string& line = all->denials[0].line;
    CHECK(has(line, "ip:1 "));
    for (const char* part :
         {"2025-11-24T16:10:00.001Z", "p-1s", "10 of 10", "1s", "search", "0f3c"}) {
        CHECK_MESSAGE(has(line, part), line);
    }
    CHECK(all->denials[0].id != all->denials[1].id);
    CHECK(has(all->denials[1].json, R"("id":"0-2")"));
}

TEST_CASE("activity_text: a denial is a line below the heading, and what is not known is a dash") {
    CHECK(denial_heading() ==
          "TIME                      IDENTIFIER                    LIMIT                 "
          "TAKEN           RETRY     ROUTE           REQUEST\n");
    const auto known = denials_text(denials_of(denial_of("0-1", "ip:1")));
    REQUIRE(known);
    CHECK(known->denials.at(0).line ==
          "2025-11-24T16:10:00.001Z  ip:1                          p-1s                  "
          "10 of 10        1s        search          0f3c\n");
    CHECK(known->denials.at(0).json ==
          R"({"count":10,"id":"0-1","identifier":"ip:1","limit":"p-1s","policy":"p","quota":10,)"
          R"("request_id":"0f3c","retry_after_seconds":1,"route":"search",)"
          R"("time_ms":1764000600001})"
          "\n");
    const auto unknown = denials_text(
        denials_of(R"({"id":"0-1","time_ms":-1,"request_id":"","identifier":"","route":"",)"
                   R"("policy":"","limit":"","count":0,"quota":0,"retry_after_seconds":null})"));
    REQUIRE(unknown);
    CHECK(unknown->denials.at(0).line ==
          "1970-01-01T00:00:00.000Z  -                             -                     "
          "0 of 0          -         -               -\n");
}

TEST_CASE("activity_text: names of clients do not command the terminal") {
    const std::string hostile = R"(user:\u001b[2J\u0007\r\n\u0000\u009b31m\u202e)";
    const auto top = top_text(top_of(R"({"identifier":")" + hostile + R"(","count":1,"error":0})"));
    REQUIRE(top);
    CHECK_FALSE(has_controls(top->text));
    CHECK_FALSE(has(top->text, "\u009b"));
    CHECK_FALSE(has(top->text, "\u202e"));
    const auto denials = denials_text(denials_of(denial_of("0-1", hostile)));
    REQUIRE(denials);
    CHECK_FALSE(has_controls(denials->denials[0].line));
    CHECK_FALSE(has(denials->denials[0].line, "\u202e"));
    CHECK_FALSE(has_controls(denials->denials[0].json));
}

TEST_CASE("activity_text: any other answer is refused") {
    for (const char* text : {"", "[]", "{}", R"({"enabled":true})",
                             R"({"enabled":true,"denials":[{"id":1}],"identifiers":[1]})"}) {
        CHECK_FALSE(top_text(text));
        CHECK_FALSE(denials_text(text));
    }
}

}  // namespace

TEST_CASE("reload command: what is in force, after the warnings") {
    CHECK(reload_text("{\"result\":\"ok\",\"generation\":7}\n") == "configuration 7 is in force\n");
    CHECK(reload_text(R"({"result":"ok","generation":2,"warnings":[)"
                      R"({"file":"t.yaml","line":3,"column":1,"message":"odd"}]})") ==
          "t.yaml:3:1: warning: odd\nconfiguration 2 is in force\n");
}

TEST_CASE("reload command: a refusal lists each fault, and what stays in force") {
    CHECK(reload_text(R"({"result":"refused","generation":1,"errors":[)"
                      R"({"file":"t.yaml","line":3,"column":9,"message":"one"},)"
                      R"({"file":"t.yaml","message":"two"}]})") ==
          "t.yaml:3:9: error: one\nt.yaml: error: two\n"
          "2 errors: the proxy goes on with configuration 1\n");
}

TEST_CASE("reload command: an answer of another server is no answer") {
    for (const char* body : {"", "ok", "[]", "{}", R"({"result":"ok"})", "{\"result\":"}) {
        CHECK(reload_text(body).empty());
    }
}

TEST_CASE("health command: only an answer of the admin listener has a readiness") {
    CHECK(readiness_of(R"({"status":"ready","store":{"kind":"redis","state":"up"}})") == "ready");
    CHECK(readiness_of(R"({"status":"draining"})") == "draining");
    for (const char* body :
         {"", "ok", "[]", "{}", R"({"status":429,"detail":"The request is over a limit."})",
          R"({"status":"UP"})", R"({"status":"ok"})"}) {
        CAPTURE(body);
        CHECK(readiness_of(body).empty());
    }
}

}  // namespace tidegate::cli::admin_text_test
