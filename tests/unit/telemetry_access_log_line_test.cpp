#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "telemetry/access_log.hpp"
#include "unit/log_line_readers.hpp"

namespace tidegate::telemetry::access_log_line_test {
namespace {

using namespace std::chrono_literals;
using test::hostile;
using test::Read;
using test::read_logfmt;
using test::read_text;
using test::replaced;

std::chrono::system_clock::time_point at(std::chrono::microseconds since_epoch) {
    return std::chrono::system_clock::time_point(since_epoch);
}

const std::array<std::string_view, 2> kIdentifiers{"ip:203.0.113.7", "user:alice"};

RequestRecord some_record() {
    RequestRecord record;
    record.time = at(1'721'642'400'042'999us);
    record.request_id = "4f2a";
    record.client = "203.0.113.7";
    record.method = "GET";
    record.path = "/v1/search";
    record.user_agent = "curl/8.5";
    record.host = "api.example.com";
    record.route = "search";
    record.identifiers = kIdentifiers;
    record.verdict = "limited";
    record.limited_by = "per-client-burst";
    record.shadow_limited_by = "trial-1s";
    record.store = "redis";
    record.upstream = "api:3000";
    record.upstream_server = "10.0.0.7:3000";
    record.outcome = Outcome::limited;
    record.status = 429;
    record.bytes_received = 12;
    record.bytes_sent = 345;
    record.duration = 1'234'567ns;
    record.decision = 999ns;
    record.upstream_time = 0ns;
    record.queue_time = 1'500'999ns;
    record.tries = 2;
    return record;
}

std::string json(const RequestRecord& record) {
    LogLineFormatter formatter;
    return std::string(formatter.json(record));
}

std::string text(const RequestRecord& record) {
    LogLineFormatter formatter;
    return std::string(formatter.text(record));
}

std::string logfmt(const RequestRecord& record) {
    LogLineFormatter formatter;
    return std::string(formatter.logfmt(record));
}

TEST_CASE("log_line: JSON has all fields in the documented order") {
    CHECK(json(some_record()) ==
          R"({"time":"2024-07-22T10:00:00.042Z","id":"4f2a","client":"203.0.113.7","method":"GET",)"
          R"("host":"api.example.com","path":"/v1/search","user_agent":"curl/8.5",)"
          R"("route":"search",)"
          R"("identifiers":["ip:203.0.113.7","user:alice"],"verdict":"limited",)"
          R"("limited_by":"per-client-burst","shadow_limited_by":"trial-1s","store":"redis",)"
          R"("status":429,"outcome":"limited",)"
          R"("upstream":"api:3000","upstream_server":"10.0.0.7:3000","error":"","bytes_in":12,)"
          R"("bytes_out":345,"duration_us":1234,"decision_us":0,"upstream_us":0,)"
          R"("queue_us":1500,"tries":2,"face":"proxy","protocol":"HTTP/1.1"})"
          "\n");
}

TEST_CASE("log_line: JSON of a record of which nothing is known") {
    CHECK(json({}) ==
          R"({"time":"1970-01-01T00:00:00.000Z","id":"","client":"","method":"","host":"",)"
          R"("path":"","user_agent":"","route":"","identifiers":[],"verdict":"","limited_by":"",)"
          R"("shadow_limited_by":"","store":"",)"
          R"("status":0,"outcome":"forwarded","upstream":"","upstream_server":"","error":"",)"
          R"("bytes_in":0,"bytes_out":0,"duration_us":0,"decision_us":0,"upstream_us":0,)"
          R"("queue_us":0,"tries":0,"face":"proxy","protocol":"HTTP/1.1"})"
          "\n");
}

TEST_CASE("log_line: text is the common log format and what follows it") {
    CHECK(text(some_record()) ==
          R"(203.0.113.7 - - [22/Jul/2024:10:00:00 +0000] "GET /v1/search HTTP/1.1" 429 345 )"
          R"(id="4f2a" host="api.example.com" user_agent="curl/8.5" route="search" )"
          R"(identifiers="ip:203.0.113.7,user:alice" verdict="limited" )"
          R"(limited_by="per-client-burst" shadow_limited_by="trial-1s" store="redis" )"
          R"(outcome="limited" upstream="api:3000" upstream_server="10.0.0.7:3000" error="" )"
          R"(bytes_in="12" duration_us="1234" decision_us="0" upstream_us="0" queue_us="1500" )"
          R"(tries="2" face="proxy")"
          "\n");
}

TEST_CASE("log_line: logfmt has the fields of JSON as name=value") {
    CHECK(logfmt(some_record()) ==
          "time=2024-07-22T10:00:00.042Z id=4f2a client=203.0.113.7 method=GET "
          "host=api.example.com path=/v1/search user_agent=curl/8.5 route=search "
          "identifiers=\"ip:203.0.113.7,user:alice\" verdict=limited "
          "limited_by=per-client-burst shadow_limited_by=trial-1s store=redis status=429 "
          "outcome=limited upstream=api:3000 upstream_server=10.0.0.7:3000 error=\"\" "
          "bytes_in=12 bytes_out=345 duration_us=1234 decision_us=0 upstream_us=0 "
          "queue_us=1500 tries=2 face=proxy protocol=HTTP/1.1\n");
}

// Nothing in it is unknown or 0.
RequestRecord full_record() {
    RequestRecord record = some_record();
    record.error = "client: left";
    record.limited_identifier = "user:a b";
    record.limit_count = 10;
    record.limit_quota = 10;
    record.cost = 2;
    record.tier = "pro";
    record.retry_after = 3;
    record.grpc_status = 8;
    record.decision = 999'999ns;
    record.upstream_time = 2ms;
    record.version = HttpVersion::http_2;
    record.face = Face::check;
    return record;
}

TEST_CASE("log_line: each form of a record of which all is known") {
    CHECK(json(full_record()) ==
          R"({"time":"2024-07-22T10:00:00.042Z","id":"4f2a","client":"203.0.113.7","method":"GET",)"
          R"("host":"api.example.com","path":"/v1/search","user_agent":"curl/8.5",)"
          R"("route":"search",)"
          R"("identifiers":["ip:203.0.113.7","user:alice"],"verdict":"limited",)"
          R"("limited_by":"per-client-burst","limited_identifier":"user:a b","count":10,)"
          R"("quota":10,"cost":2,"tier":"pro","retry_after":3,)"
          R"("shadow_limited_by":"trial-1s","store":"redis",)"
          R"("status":429,"grpc_status":8,"outcome":"limited",)"
          R"("upstream":"api:3000","upstream_server":"10.0.0.7:3000","error":"client: left",)"
          R"("bytes_in":12,"bytes_out":345,"duration_us":1234,"decision_us":999,)"
          R"("upstream_us":2000,"queue_us":1500,"tries":2,"face":"check","protocol":"HTTP/2"})"
          "\n");
    CHECK(text(full_record()) ==
          R"(203.0.113.7 - - [22/Jul/2024:10:00:00 +0000] "GET /v1/search HTTP/2.0" 429 345 )"
          R"(id="4f2a" host="api.example.com" user_agent="curl/8.5" route="search" )"
          R"(identifiers="ip:203.0.113.7,user:alice" verdict="limited" )"
          R"(limited_by="per-client-burst" shadow_limited_by="trial-1s" store="redis" )"
          R"(outcome="limited" upstream="api:3000" upstream_server="10.0.0.7:3000" )"
          R"(error="client: left" bytes_in="12" duration_us="1234" decision_us="999" )"
          R"(upstream_us="2000" queue_us="1500" tries="2" face="check" )"
          R"(limited_identifier="user:a b" count="10" quota="10" cost="2" tier="pro" )"
          R"(retry_after="3" grpc_status="8")"
          "\n");
    CHECK(logfmt(full_record()) ==
          "time=2024-07-22T10:00:00.042Z id=4f2a client=203.0.113.7 method=GET "
          "host=api.example.com path=/v1/search user_agent=curl/8.5 route=search "
          "identifiers=\"ip:203.0.113.7,user:alice\" verdict=limited "
          "limited_by=per-client-burst limited_identifier=\"user:a b\" count=10 quota=10 cost=2 "
          "tier=pro retry_after=3 shadow_limited_by=trial-1s store=redis status=429 "
          "grpc_status=8 outcome=limited upstream=api:3000 upstream_server=10.0.0.7:3000 "
          "error=\"client: left\" bytes_in=12 bytes_out=345 duration_us=1234 decision_us=999 "
          "upstream_us=2000 queue_us=1500 tries=2 face=check protocol=HTTP/2\n");
}

TEST_CASE("log_line: money is dollars with six places, and no string") {
    RequestRecord record = full_record();
    record.limit_count = {499'999'985, true};
    record.limit_quota = {500'000'000, true};
    record.cost = {20, true};
    record.refusal = kTooLarge;
    record.usage_reserved = {15, true};
    record.usage_cost = {0, true};
    record.usage_usd = {0, true};
    const std::string line = json(record);
    CHECK(line.find(R"("count":499.999985,"quota":500.000000,"cost":0.000020,)") !=
          std::string::npos);
    CHECK(line.find(R"("refusal":"too_large")") != std::string::npos);
    CHECK(line.find(R"("usage_reserved":0.000015,"usage_cost":0.000000,"usage_usd":0.000000)") !=
          std::string::npos);
    CHECK(text(record).find(R"( quota="500.000000" cost="0.000020")") != std::string::npos);
    CHECK(logfmt(record).find(" quota=500.000000 cost=0.000020 ") != std::string::npos);
    record.usage_cost = {-1, true};
    CHECK(json(record).find("usage_cost") == std::string::npos);
}

TEST_CASE("log_line: text and logfmt of a record of which nothing is known") {
    CHECK(text({}) ==
          R"(- - - [01/Jan/1970:00:00:00 +0000] "- - HTTP/1.1" 0 0 id="" host="" user_agent="" )"
          R"(route="" identifiers="" verdict="" limited_by="" shadow_limited_by="" store="" )"
          R"(outcome="forwarded" upstream="" upstream_server="" error="" bytes_in="0" )"
          R"(duration_us="0" decision_us="0" upstream_us="0" queue_us="0" tries="0" face="proxy")"
          "\n");
    CHECK(logfmt({}) ==
          R"(time=1970-01-01T00:00:00.000Z id="" client="" method="" host="" path="" )"
          R"(user_agent="" route="" identifiers="" verdict="" limited_by="" shadow_limited_by="" )"
          R"(store="" status=0 outcome=forwarded upstream="" upstream_server="" error="" )"
          R"(bytes_in=0 bytes_out=0 duration_us=0 decision_us=0 upstream_us=0 queue_us=0 tries=0 )"
          "face=proxy protocol=HTTP/1.1\n");
}

TEST_CASE("log_line: logfmt quotes what could be read as something else") {
    const auto agent = [](std::string_view value) {
        RequestRecord record;
        record.user_agent = value;
        const std::string line = logfmt(record);
        const std::size_t begin = line.find(" user_agent=") + 12;
        return line.substr(begin, line.find(" route=") - begin);
    };
    CHECK(agent("curl/8.5,a:b[c]{d}'`") == "curl/8.5,a:b[c]{d}'`");
    CHECK(agent("") == R"("")");
    CHECK(agent("null") == R"("null")");
    CHECK(agent("a=b") == R"("a=b")");
    CHECK(agent("Mozilla/5.0 (X11)") == "\"Mozilla/5.0 (X11)\"");
    CHECK(agent("a\"b") == "\"a\\\"b\"");
    CHECK(agent(R"(a\b)") == R"("a\\b")");
    CHECK(agent("a\nstatus=200") == R"("a\nstatus=200")");
    CHECK(agent("\xc3\xa9") == "\"\xc3\xa9\"");
    CHECK(agent("\xff") == R"("\ufffd")");
    CHECK(agent("\x1b") == R"("\u001b")");
    CHECK(agent(std::string(256, 'a')) == std::string(256, 'a'));
    CHECK(agent(std::string(257, 'a')) == '"' + std::string(256, 'a') + "...\"");
}

TEST_CASE("log_line: each form has the status of gRPC where there is one, and only there") {
    RequestRecord record = some_record();
    for (const LogFormat format : {LogFormat::json, LogFormat::text, LogFormat::logfmt}) {
        LogLineFormatter formatter;
        record.grpc_status = -1;
        CHECK(formatter.line(format, record).find("grpc_status") == std::string_view::npos);
        record.grpc_status = 14;
        CHECK(formatter.line(format, record).find("grpc_status") != std::string_view::npos);
    }
    CHECK(logfmt(record).find(" status=429 grpc_status=14 outcome=") != std::string::npos);
}

TEST_CASE("log_line: what a refusal says is there only where it is known, 0 included") {
    RequestRecord record = some_record();
    record.limit_count = 0;
    record.tier = "pro";
    for (const LogFormat format : {LogFormat::json, LogFormat::text, LogFormat::logfmt}) {
        LogLineFormatter formatter;
        const std::string line(formatter.line(format, record));
        for (const std::string_view name : {"limited_identifier", "quota", "cost", "retry_after"}) {
            CHECK_MESSAGE(line.find(name) == std::string::npos, line);
        }
        CHECK(line.find("count") != std::string::npos);
        CHECK(line.find("tier") != std::string::npos);
    }
    CHECK(logfmt(record).find(" count=0 tier=pro shadow_limited_by=") != std::string::npos);
}

TEST_CASE("log_line: no sample leaves out a refusal, a fault or a denial in shadow") {
    RequestRecord record;
    for (const Outcome outcome : {Outcome::forwarded, Outcome::answered, Outcome::redirected}) {
        record.outcome = outcome;
        CHECK(record.is_ordinary());
    }
    record.shadow_limited_by = "trial-1s";
    CHECK_FALSE(record.is_ordinary());
    record.shadow_limited_by = {};
    record.error = "upstream: connection reset";
    CHECK_FALSE(record.is_ordinary());
    record.error = {};
    record.outcome = Outcome::limited;
    CHECK_FALSE(record.is_ordinary());
}

TEST_CASE("log_line: the protocol has its name in JSON, and its number in the request line") {
    const auto both = [](HttpVersion version) {
        RequestRecord record = some_record();
        record.version = version;
        const std::string object = json(record);
        const std::string line = text(record);
        return object.substr(object.find("\"protocol\"")) + line.substr(line.find("GET"), 24);
    };
    CHECK(both(HttpVersion::http_1_0) == "\"protocol\":\"HTTP/1.0\"}\nGET /v1/search HTTP/1.0\"");
    CHECK(both(HttpVersion::http_1_1) == "\"protocol\":\"HTTP/1.1\"}\nGET /v1/search HTTP/1.1\"");
    CHECK(both(HttpVersion::http_2) == "\"protocol\":\"HTTP/2\"}\nGET /v1/search HTTP/2.0\"");
}

TEST_CASE("log_line: text shows a dash for a client, method and path that are not known") {
    CHECK(text({}).starts_with(R"(- - - [01/Jan/1970:00:00:00 +0000] "- - HTTP/1.1" 0 0 id="")"));
}

TEST_CASE("log_line: the time follows from line to line, forwards and backwards") {
    LogLineFormatter formatter;
    RequestRecord record;
    const auto time_of = [&](std::chrono::microseconds since_epoch) {
        record.time = at(since_epoch);
        return std::string(formatter.json(record)).substr(9, 24);
    };
    CHECK(time_of(1'709'251'199'999'000us) == "2024-02-29T23:59:59.999Z");
    CHECK(time_of(1'709'251'200'000'000us) == "2024-03-01T00:00:00.000Z");
    CHECK(time_of(1'709'251'200'500'000us) == "2024-03-01T00:00:00.500Z");
    CHECK(time_of(1'709'251'199'001'000us) == "2024-02-29T23:59:59.001Z");
    CHECK(time_of(-1us) == "1969-12-31T23:59:59.999Z");
}

TEST_CASE("log_line: text of a client can end neither the line nor a string") {
    RequestRecord record;
    record.path = "/a\"b\\c\nd\re\x1b[31m\x7f";
    record.host = std::string_view("h\0x", 3);
    const std::string expected_path = R"(/a\"b\\c\nd\re\u001b[31m\u007f)";
    const std::string line = json(record);
    CHECK(line.find("\"path\":\"" + expected_path + "\",") != std::string::npos);
    CHECK(line.find(R"("host":"h\u0000x",)") != std::string::npos);
    CHECK(line.find('\n') == line.size() - 1);
    CHECK(text(record).find("\"- " + expected_path + " HTTP/1.1\"") != std::string::npos);
}

TEST_CASE("log_line: whatever clients choose, a reader of each form gets back just that") {
    std::mt19937 random(12);
    for (int round = 0; round < 3'000; ++round) {
        std::vector<std::string> texts;
        for (int i = 0; i < 17; ++i) texts.push_back(hostile(random));
        const std::vector<std::string_view> identifiers(
            texts.begin() + 10, texts.begin() + 10 + static_cast<int>(random() % 7));
        RequestRecord record = some_record();
        record.client = texts[0];
        record.method = texts[1];
        record.path = texts[2];
        record.host = texts[3];
        record.request_id = texts[4];
        record.route = texts[5];
        record.limited_by = texts[6];
        record.shadow_limited_by = texts[7];
        record.upstream = texts[8];
        record.error = texts[9];
        record.user_agent = texts[16];
        record.identifiers = identifiers;
        std::vector<std::string> expected;
        for (const std::string& text : texts) expected.push_back(replaced(text));
        const std::vector<std::string> listed(
            expected.begin() + 10, expected.begin() + 10 + static_cast<int>(identifiers.size()));

        const std::string line = text(record);
        CAPTURE(line);
        CHECK(line.find('\n') == line.size() - 1);
        Read read = read_text(line);
        CHECK(read.client == expected[0]);
        CHECK(read.method == expected[1]);
        CHECK(read.path == expected[2]);
        const std::string logfmt_line = logfmt(record);
        CAPTURE(logfmt_line);
        CHECK(logfmt_line.find('\n') == logfmt_line.size() - 1);
        const Read as_logfmt = read_logfmt(logfmt_line);
        CHECK(as_logfmt.values.at("client") == expected[0]);
        CHECK(as_logfmt.values.at("method") == expected[1]);
        CHECK(as_logfmt.values.at("path") == expected[2]);
        CHECK(as_logfmt.values.at("user_agent") == expected[16]);
        CHECK(as_logfmt.values.size() == 27);
        CHECK(as_logfmt.identifiers == listed);
        const auto parsed = nlohmann::json::parse(json(record));
        CHECK(parsed.at("user_agent") == expected[16]);
        CHECK(read.values.at("user_agent") == expected[16]);
        CHECK(parsed.at("client") == expected[0]);
        CHECK(parsed.at("method") == expected[1]);
        CHECK(parsed.at("path") == expected[2]);
        const std::array<const char*, 7> names{
            "host", "id", "route", "limited_by", "shadow_limited_by", "upstream", "error"};
        for (std::size_t i = 0; i < names.size(); ++i) {
            CHECK(read.values.at(names[i]) == expected[3 + i]);
            CHECK(parsed.at(names[i]) == expected[3 + i]);
            CHECK(as_logfmt.values.at(names[i]) == expected[3 + i]);
        }
        CHECK(read.values.at("verdict") == "limited");
        CHECK(read.values.size() == 22);
        CHECK(read.identifiers == listed);
        CHECK(parsed.at("identifiers") == listed);
    }
}

TEST_CASE("log_line: in the text form an identifier that could be taken for two has quotes") {
    RequestRecord record;
    const std::array<std::string_view, 4> identifiers{"ip:203.0.113.7", "user:a,b", "user:a \"b\"",
                                                      "12:route:search+8:user:a=b"};
    record.identifiers = identifiers;
    CHECK(text(record).find(R"( identifiers="ip:203.0.113.7,\"user:a,b\",\"user:a \\\"b\\\"\",)"
                            R"(12:route:search+8:user:a=b" )") != std::string::npos);
}

TEST_CASE("log_line: an unknown value and a lone dash are written differently") {
    RequestRecord record;
    record.method = "-";
    record.path = "/a b";
    CHECK(text(record).find(R"("\u002d /a\u0020b HTTP/1.1")") != std::string::npos);
}

TEST_CASE("log_line: a path of just the bound is whole, a longer one is cut and marked") {
    RequestRecord record;
    const std::string whole(1024, 'p');
    record.path = whole;
    CHECK(json(record).find("\"path\":\"" + whole + "\"") != std::string::npos);
    const std::string longer = whole + "q";
    record.path = longer;
    CHECK(json(record).find("\"path\":\"" + whole + "...\"") != std::string::npos);
}

TEST_CASE("log_line: a cut does not split a character") {
    RequestRecord record;
    const std::string path = std::string(1023, 'p') + "\xc3\xa9";
    record.path = path;
    CHECK(json(record).find("\"path\":\"" + std::string(1023, 'p') + "...\"") != std::string::npos);
}

TEST_CASE("log_line: the longest strings there can be, each byte escaped, fit") {
    const std::string bad(100'000, '\x01');
    const std::vector<std::string_view> identifiers(1'000, bad);
    RequestRecord record;
    for (const RequestField& field : kRequestFields) {
        const auto* const text = std::get_if<std::string_view RequestRecord::*>(&field.member);
        if (text != nullptr) record.** text = bad;
    }
    record.identifiers = identifiers;
    record.status = 2'147'483'647;
    record.bytes_received = record.bytes_sent = ~std::uint64_t{0};
    record.duration = record.decision = std::chrono::nanoseconds::max();
    record.upstream_time = record.queue_time = std::chrono::nanoseconds::max();
    record.tries = ~std::uint32_t{0};
    for (const std::string& line : {json(record), text(record), logfmt(record)}) {
        CHECK(line.size() > 25'000);
        CHECK(line.size() < 47 * 1024);
        CHECK(line.size() <= line_bytes_max());
        CHECK(line.find('\n') == line.size() - 1);
    }
    CHECK(json(record).ends_with(R"("upstream_us":9223372036854775,)"
                                 R"("queue_us":9223372036854775,"tries":4294967295,)"
                                 R"("face":"proxy","protocol":"HTTP/1.1"})"
                                 "\n"));
}

TEST_CASE("log_line: negative times and statuses are shown as none") {
    RequestRecord record;
    record.status = -1;
    record.duration = -5s;
    CHECK(json(record).find(R"("status":0,)") != std::string::npos);
    CHECK(json(record).find(R"("duration_us":0,)") != std::string::npos);
}

}  // namespace
}  // namespace tidegate::telemetry::access_log_line_test
