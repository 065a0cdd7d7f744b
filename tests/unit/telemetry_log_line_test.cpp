#include <array>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/log_line.hpp"

namespace tidegate::telemetry {
namespace {

using namespace std::chrono_literals;

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
    record.host = "api.example.com";
    record.route = "search";
    record.identifiers = kIdentifiers;
    record.verdict = "limited";
    record.limited_by = "per-client/burst";
    record.shadow_limited_by = "trial/1s";
    record.store = "redis";
    record.outcome = Outcome::limited;
    record.status = 429;
    record.bytes_received = 12;
    record.bytes_sent = 345;
    record.duration = 1'234'567ns;
    record.decision = 999ns;
    record.upstream_time = 0ns;
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

TEST_CASE("log_line: JSON has all fields in the documented order") {
    CHECK(json(some_record()) ==
          R"({"time":"2024-07-22T10:00:00.042Z","id":"4f2a","client":"203.0.113.7","method":"GET",)"
          R"("host":"api.example.com","path":"/v1/search","route":"search",)"
          R"("identifiers":["ip:203.0.113.7","user:alice"],"verdict":"limited",)"
          R"("limited_by":"per-client/burst","shadow_limited_by":"trial/1s","store":"redis",)"
          R"("status":429,"outcome":"limited",)"
          R"("upstream":"","error":"","bytes_in":12,"bytes_out":345,"duration_us":1234,)"
          R"("decision_us":0,"upstream_us":0})"
          "\n");
}

TEST_CASE("log_line: JSON of a record of which nothing is known") {
    CHECK(json({}) ==
          R"({"time":"1970-01-01T00:00:00.000Z","id":"","client":"","method":"","host":"",)"
          R"("path":"","route":"","identifiers":[],"verdict":"","limited_by":"",)"
          R"("shadow_limited_by":"","store":"",)"
          R"("status":0,"outcome":"forwarded","upstream":"","error":"","bytes_in":0,)"
          R"("bytes_out":0,"duration_us":0,"decision_us":0,"upstream_us":0})"
          "\n");
}

TEST_CASE("log_line: text is the common log format and what follows it") {
    CHECK(text(some_record()) ==
          R"(203.0.113.7 - - [22/Jul/2024:10:00:00 +0000] "GET /v1/search HTTP/1.1" 429 345 )"
          R"(id="4f2a" host="api.example.com" route="search" )"
          R"(identifiers="ip:203.0.113.7,user:alice" verdict="limited" )"
          R"(limited_by="per-client/burst" shadow_limited_by="trial/1s" store="redis" )"
          R"(outcome="limited" upstream="" error="" )"
          R"(bytes_in="12" duration_us="1234" decision_us="0" upstream_us="0")"
          "\n");
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

TEST_CASE("log_line: what a client chose can neither end the line nor a string") {
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

TEST_CASE("log_line: a path of just the bound is whole, a longer one is cut and says so") {
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
    for (auto* field :
         {&record.request_id, &record.client, &record.method, &record.protocol, &record.path,
          &record.host, &record.route, &record.verdict, &record.limited_by,
          &record.shadow_limited_by, &record.store, &record.upstream, &record.error}) {
        *field = bad;
    }
    record.identifiers = identifiers;
    record.status = 2'147'483'647;
    record.bytes_received = record.bytes_sent = ~std::uint64_t{0};
    record.duration = record.decision = record.upstream_time = std::chrono::nanoseconds::max();
    for (const std::string& line : {json(record), text(record)}) {
        CHECK(line.size() > 25'000);
        CHECK(line.size() < 40 * 1024);
        CHECK(line.find('\n') == line.size() - 1);
    }
    CHECK(json(record).ends_with(R"("upstream_us":9223372036854775})"
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
}  // namespace tidegate::telemetry
