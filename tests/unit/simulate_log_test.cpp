#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "simulate/log.hpp"

namespace tidegate::simulate::log_test {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
// 2026-11-29T10:00:00Z.
constexpr std::int64_t kTen = 1'795'946'400 * kSecond;

LogLayout mapped(const std::vector<std::string>& mappings, std::vector<std::string> wanted = {}) {
    LogLayout layout;
    layout.wanted = std::move(wanted);
    for (const std::string& one : mappings) {
        auto mapping = parse_mapping(one);
        REQUIRE_MESSAGE(mapping.has_value(), one);
        layout.map.push_back(*mapping);
    }
    return layout;
}

// A reader and the last request that it has read.
struct World {
    explicit World(LogFormat format, const LogLayout& layout = {}) : reader(format, layout) {}

    std::string read(std::string_view text) {
        line = text;
        return std::string(reader.read(line, request));
    }
    std::string text(LogText which) const { return std::string(request.text(which)); }
    // `client user method target host status duration`.
    std::string all() const {
        std::string out;
        for (const LogText one :
             {LogText::client, LogText::user, LogText::method, LogText::target, LogText::host}) {
            out += text(one).empty() ? "-" : text(one);
            out += ' ';
        }
        return out + std::to_string(request.number(LogNumber::status)) + ' ' +
               std::to_string(request.number(LogNumber::duration_us));
    }
    std::int64_t since_ten() const { return request.time.count() - kTen; }

    std::string line;  // the request views it
    LogReader reader;
    LoggedRequest request;
};

TEST_CASE("log: lines of nginx, Apache and Traefik in the common and combined formats") {
    World log(LogFormat::combined);
    CHECK(log.read(R"(203.0.113.7 - alice [29/Nov/2026:10:00:00 +0000] "GET /a?b=1 HTTP/1.1" )"
                   R"(200 12 "-" "curl/8 \"x\"")") == "");
    CHECK(log.all() == "203.0.113.7 alice GET /a?b=1 - 200 -1");
    CHECK(log.since_ten() == 0);
    CHECK(log.request.is_whole_second);
    CHECK_FALSE(log.request.is_end);
    CHECK(log.read(R"(2001:db8::1 - - [29/Nov/2026:11:00:01 +0100] "POST /b HTTP/2.0" 429 0)") ==
          "");
    CHECK(log.all() == "2001:db8::1 - POST /b - 429 -1");
    CHECK(log.since_ten() == kSecond);
    // Traefik says behind it which request it was, which router took it, and how long.
    CHECK(log.read(R"(203.0.113.7 - - [29/Nov/2026:10:00:02 +0000] "GET / HTTP/1.1" 200 1 "-" )"
                   R"("-" 7 "api@file" "http://10.0.0.1:80" 12ms)") == "");
    CHECK(log.request.number(LogNumber::duration_us) == -1);
    CHECK_FALSE(log.request.is_end);
}

TEST_CASE("log: an offset of +00:00 is read as +0000 is") {
    World log(LogFormat::combined);
    CHECK(log.read(R"(1.2.3.4 - - [29/Nov/2026:10:00:00 +00:00] "GET / HTTP/1.1" 200 1)") == "");
    CHECK(log.since_ten() == 0);
}

TEST_CASE("log: nginx logs when a request ends, and $request_time says when it began") {
    World log(LogFormat::combined);
    for (const std::string extra : {"0.250", "rt=0.250", "\"0.250\"", "request_time=0.250"}) {
        CAPTURE(extra);
        CHECK(log.read(R"(1.2.3.4 - - [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" )"
                       R"("-" )" +
                       extra) == "");
        CHECK(log.request.number(LogNumber::duration_us) == 250'000);
        CHECK(log.request.is_end);
    }
}

TEST_CASE("log: $request_time is read, too, where it comes only after many lines") {
    World log(LogFormat::combined);
    const std::string line =
        R"(1.2.3.4 - - [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-")";
    for (int i = 0; i < 300; ++i) CHECK(log.read(line) == "");
    CHECK(log.read(line + " 0.250") == "");
    CHECK(log.request.number(LogNumber::duration_us) == 250'000);
}

TEST_CASE("log: the third quoted text of nginx's usual format names the clients of a proxy") {
    World log(LogFormat::combined);
    CHECK(log.read(R"(10.0.0.1 - - [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-" )"
                   R"("203.0.113.7, 10.0.0.9")") == "");
    CHECK(log.text(LogText::forwarded_for) == "203.0.113.7, 10.0.0.9");
    CHECK(log.read(R"(10.0.0.1 - - [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1 "-" "-" )"
                   R"("some words")") == "");
    CHECK(log.text(LogText::forwarded_for) == "");
}

TEST_CASE("log: Apache's log of all virtual hosts has the host before the client") {
    World log(LogFormat::combined);
    CHECK(log.read(R"(api.example:443 203.0.113.7 - bob [29/Nov/2026:10:00:00 +0000] )"
                   R"("GET / HTTP/1.1" 200 1 "-" "-")") == "");
    CHECK(log.all() == "203.0.113.7 bob GET / api.example:443 200 -1");
}

TEST_CASE("log: text before the client is neither a client nor a user") {
    const std::string rest = " [29/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1";
    World log(LogFormat::combined);
    for (const std::string names :
         {"Nov 29 10:00:00 web nginx: 203.0.113.7 - -",
          "2026-11-29T10:00:00.1Z stdout F 203.0.113.7 - -", "198.51.100.1, 203.0.113.7 - -",
          "198.51.100.1, 10.0.0.9, 203.0.113.7 - -", "198.51.100.1 203.0.113.7 - -",
          "10.0.0.1 Nov 29 10:00:00 203.0.113.7 - -"}) {
        CAPTURE(names);
        CHECK(log.read(names + rest).find("text before the client") != std::string::npos);
    }
    CHECK(tell_format(std::vector<std::string>{"Nov 29 10:00:00 web nginx: 203.0.113.7 - -" + rest},
                      {})
              .error()
              .find("syslog") != std::string::npos);
    // A user's name may have spaces.
    CHECK(log.read("203.0.113.7 - John Smith" + rest) == "");
    CHECK(log.all() == "203.0.113.7 John Smith GET / - 200 -1");
    CHECK(log.read("h:443 203.0.113.7 - John Smith" + rest) == "");
    CHECK(log.all() == "203.0.113.7 John Smith GET / h:443 200 -1");
    // The number of a word says which is the client.
    World mapped_log(LogFormat::combined, mapped({"client=6"}));
    CHECK(mapped_log.read("Nov 29 10:00:00 web nginx: 203.0.113.7 - bob" + rest) == "");
    CHECK(mapped_log.all() == "203.0.113.7 bob GET / - 200 -1");
}

TEST_CASE("log: behind the name of the server, an address may have a port or a zone") {
    const std::string rest = " - - [29/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1";
    World log(LogFormat::combined);
    CHECK(log.read("h:443 14.212.143.11:42918" + rest) == "");
    CHECK(log.all() == "14.212.143.11 - GET / h:443 200 -1");
    CHECK(log.read("10.0.0.5:443 fe80::1%enp0s8" + rest) == "");
    REQUIRE(log.request.address);
    CHECK(log.request.address->to_string() == "fe80::1");
    CHECK(log.all() == "fe80::1 - GET / 10.0.0.5:443 200 -1");
    CHECK(log.read("[2001:db8::5]:443 [2001:db8::1]:80" + rest) == "");
    CHECK(log.all() == "2001:db8::1 - GET / [2001:db8::5]:443 200 -1");
    CHECK(log.read("fe80::1%enp0s8" + rest) == "");
    CHECK(log.all() == "fe80::1 - GET / - 200 -1");
}

TEST_CASE("log: an empty user of Apache is none") {
    World log(LogFormat::combined);
    CHECK(log.read(R"(10.0.2.100 - "" [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 401 381)") ==
          "");
    CHECK(log.all() == "10.0.2.100 - GET / - 401 -1");
}

TEST_CASE("log: escapes of nginx and Apache in a request are resolved") {
    World log(LogFormat::combined);
    CHECK(log.read(R"(1.2.3.4 - - [29/Nov/2026:10:00:00 +0000] "GET /\x22\"\\x HTTP/1.1" 200 1)") ==
          "");
    CHECK(log.text(LogText::target) == R"(/""\x)");
}

TEST_CASE("log: a line about a connection without a request is read, and has no method") {
    World log(LogFormat::combined);
    for (const std::string request : {"-", R"(\x16\x03\x01)", ""}) {
        CHECK(log.read("1.2.3.4 - - [29/Nov/2026:10:00:00 +0000] \"" + request + "\" 400 0") == "");
        CHECK(log.text(LogText::method) == "");
    }
}

TEST_CASE("log: a user's name cannot put another time into the line") {
    World log(LogFormat::combined);
    CHECK(log.read(R"(1.2.3.4 - x [01/Jan/2000:00:00:00 +0000] [29/Nov/2026:10:00:00 +0000] )"
                   R"("GET / HTTP/1.1" 200 1)") == "");
    CHECK(log.since_ten() == 0);
}

TEST_CASE("log: HAProxy's lines need a time zone, and say when the request was accepted") {
    const std::string line =
        R"(Nov 29 11:00:00 lb haproxy[7]: 203.0.113.7:4711 [29/Nov/2026:11:00:00.250] web~ )"
        R"(api/a1 0/0/1/2/13 200 45 - - ---- 1/1/0/0/0 0/0 {api.example|acme} {} )"
        R"("GET https://api.example/x HTTP/2.0")";
    World local(LogFormat::haproxy);
    CHECK(local.read(line).find("--zone") != std::string::npos);
    World captured(LogFormat::haproxy);
    CHECK(captured.read("203.0.113.7:4711 [29/Nov/2026:10:00:00.250 +0000] web api/a1 "
                        "0/0/1/2/+13 200 45 - - ---- 1/1/0/0/0 0/0 {a|acme} \"GET /x HTTP/1.1\"") ==
          "");
    CHECK(captured.all() == "203.0.113.7 - GET /x - 200 13000");
    CHECK(captured.since_ten() == 250'000);
    CHECK_FALSE(captured.request.is_end);
    CHECK(captured.read("203.0.113.7:4711 [29/Nov/2026:10:00:00.250 +0000] web web/<NOSRV> "
                        "-1/-1/-1/-1/0 400 0 - - PR-- 1/1/0/0/0 0/0 \"<BADREQ>\"") == "");
    CHECK(captured.text(LogText::method) == "");
}

TEST_CASE("log: HAProxy and AWS write the port of an IPv6 address behind its last colon") {
    const auto client_of = [](LogFormat format, const std::string& client) {
        World log(format);
        const std::string haproxy = client +
                                    " [29/Nov/2026:10:00:00.250 +0000] web api/a1 0/0/1/2/13 200 "
                                    "45 - - ---- 1/1/0/0/0 0/0 \"GET /x HTTP/1.1\"";
        const std::string alb = "http 2026-11-29T10:00:01.000000Z app/lb/1 " + client +
                                " 10.0.0.1:80 0.1 0.2 0.3 200 200 34 366 \"GET http://h:80/ "
                                "HTTP/1.1\" \"curl/8\" - -";
        CHECK(log.read(format == LogFormat::alb ? alb : haproxy) == "");
        return log.text(LogText::client);
    };
    for (const LogFormat format : {LogFormat::haproxy, LogFormat::alb}) {
        CHECK(client_of(format, "2601:240:1::64ec:53016") == "2601:240:1::64ec");
        // With its port that is an address, too.
        CHECK(client_of(format, "2001:db8::1:6060") == "2001:db8::1");
        CHECK(client_of(format, "::ffff:127.0.0.1:60618") == "::ffff:127.0.0.1");
        CHECK(client_of(format, "2001:db8:0:0:0:0:0:1") == "2001:db8:0:0:0:0:0:1");
        CHECK(client_of(format, "203.0.113.7:80") == "203.0.113.7");
        CHECK(client_of(format, "203.0.113.7") == "203.0.113.7");
    }
}

TEST_CASE("log: HAProxy's line about a connection that failed is no request") {
    World log(LogFormat::haproxy);
    CHECK(log.read("203.0.113.7:4711 [29/Nov/2026:10:00:00.250 +0000] www~/1: SSL handshake "
                   "failure") == "");
    CHECK(log.text(LogText::method) == "");
    CHECK(log.read("203.0.113.7:4711 [29/Nov/2026:10:00:00.250 +0000] www~/1 SSL") != "");
    CHECK(log.read("203.0.113.7:4711 [29/Nov/2026:10:00:00.250 +0000] www~/1:") != "");
}

TEST_CASE("log: HAProxy's line about a connection that went on as TCP is no request") {
    World log(LogFormat::haproxy);
    const std::string place = "10.0.1.2:33313 [06/Feb/2027:12:12:51.443 +0000] fnt ";
    CHECK(log.read(place + "bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0") == "");
    CHECK(log.text(LogText::method) == "");
    CHECK(log.read(place + "bck/<NOSRV> -1/-1/0 +0 SC 1/1/0/0/0 0/0") == "");
    CHECK(log.read(place + "bck/srv1 0/0/5007 212 -- 0/0/0/0") != "");
    CHECK(log.read(place + "bck/srv1 0/0/1/2/13 200 45 - - ---- 1/1/0/0/0 0/0") != "");
}

TEST_CASE("log: what HAProxy says of itself is no request, and comes when the line before came") {
    World log(LogFormat::haproxy);
    const std::string stopped = "Proxy web stopped (cumulated conns: FE: 8, BE: 0).";
    CHECK(log.read(stopped) != "");
    CHECK(log.read("203.0.113.7:4711 [29/Nov/2026:10:00:00.250 +0000] web api/a1 0/0/1/2/13 200 45 "
                   "- - ---- 1/1/0/0/0 0/0 \"GET /x HTTP/1.1\"") == "");
    for (const std::string& line :
         {stopped, "Nov 29 11:00:00 lb haproxy[7]: " + stopped,
          std::string("[WARNING] (12) : Server api/a1 is DOWN, reason: Layer4 timeout"),
          std::string("Nov 29 11:00:00 lb haproxy[7]: Server api/a1 is UP")}) {
        CHECK(log.read(line) == "");
        CHECK(log.text(LogText::method) == "");
        CHECK(log.since_ten() == 250'000);
    }
    CHECK(log.read("Connect from 10.0.1.2:33312 to 10.0.3.31:8012 (www/HTTP)") != "");
}

TEST_CASE("log: a line with an empty time is refused, also if it is the first") {
    World log(LogFormat::combined);
    CHECK(log.read("1.2.3.4 - - [] \"GET / HTTP/1.1\" 200 1") != "");
}

TEST_CASE("log: HAProxy's captured fields are words of the line with parts") {
    // client, time, frontend, server, timers, status, bytes, two cookies, flags, counts, queues.
    World counted(LogFormat::haproxy, mapped({"header:x-tenant=13.2"}, {"header:x-tenant"}));
    CHECK(counted.read("203.0.113.7:4711 [29/Nov/2026:10:00:00.250+0000] web api/a1 "
                       "0/0/1/2/13 200 45 - - ---- 1/1/0/0/0 0/0 {a|acme} \"GET /x HTTP/1.1\"") ==
          "");
    CHECK(counted.request.values[0] == "acme");
}

TEST_CASE("log: a time with two points is none") {
    World log(LogFormat::combined);
    CHECK(log.read(R"(203.0.113.7 - - [29/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 12 "-" )"
                   R"("curl/8" rt=0.2.250)") == "");
    CHECK(log.all() == "203.0.113.7 - GET /a - 200 -1");
}

TEST_CASE("log: an ALB's line says when the request came, or how long it took") {
    World log(LogFormat::alb);
    const std::string begin =
        R"(https 2026-11-29T10:00:01.000000Z app/lb/1 203.0.113.7:4711 10.0.0.1:80 0.100 0.200 )"
        R"(0.300 200 200 34 366 "GET https://api.example:443/a?b HTTP/1.1" "curl/8" TLS TLSv1.2 )"
        R"(arn:x "Root=1" "api.example" "arn:y" 0 )";
    CHECK(log.read(begin + R"(2026-11-29T10:00:00.400000Z "forward" "-" "-")") == "");
    CHECK(log.since_ten() == 400'000);
    CHECK_FALSE(log.request.is_end);
    CHECK(log.all() == "203.0.113.7 - GET https://api.example:443/a?b - 200 600000");
    CHECK(log.read(begin) == "");
    CHECK(log.request.is_end);
    CHECK(log.since_ten() == kSecond);
}

TEST_CASE("log: Caddy's JSON ends a request, and has its fields") {
    World log(LogFormat::caddy, mapped({}, {"header:x-tenant"}));
    CHECK(log.read(R"({"level":"info","ts":1795946400.5,"logger":"http.log.access","request":)"
                   R"({"remote_ip":"10.0.0.1","remote_port":"1","client_ip":"203.0.113.7","proto":)"
                   R"("HTTP/2.0","method":"GET","host":"api.example","uri":"/a?b","headers":)"
                   R"({"X-Tenant":["acme"]}},"bytes_read":0,"user_id":"alice","duration":0.25,)"
                   R"("size":1,"status":200})") == "");
    CHECK(log.all() == "203.0.113.7 alice GET /a?b api.example 200 250000");
    CHECK(log.request.is_end);
    CHECK(log.since_ten() == 500'000);
    CHECK(log.request.values[0] == "acme");
}

TEST_CASE("log: Caddy before 2.5 has the client with its port") {
    World log(LogFormat::caddy);
    CHECK(log.read(R"({"ts":1795946400.5,"duration":0.25,"status":200,"request":{"remote_addr":)"
                   R"("203.0.113.7:4711","method":"GET","host":"h","uri":"/"}})") == "");
    CHECK(log.all() == "203.0.113.7 - GET / h 200 250000");
    CHECK(log.read(R"({"ts":1795946400.5,"request":{"remote_addr":"[2001:db8::1]:4711",)"
                   R"("method":"GET","uri":"/"}})") == "");
    CHECK(log.text(LogText::client) == "2001:db8::1");
}

TEST_CASE("log: a duration that is mapped in another unit replaces the one of the format") {
    const std::string line =
        R"({"ts":1795946400.5,"duration":10000000,"request":{"method":"GET","uri":"/"}})";
    const auto duration_of = [&](const std::string& map) {
        LogLayout layout = mapped({map});
        layout.needs_address = false;
        World log(LogFormat::caddy, layout);
        CHECK(log.read(line) == "");
        return log.request.number(LogNumber::duration_us);
    };
    CHECK(duration_of("duration_ns=duration") == 10'000);
    CHECK(duration_of("duration_us=duration") == 10'000'000);
    CHECK(duration_of("duration_ms=duration") == 10'000'000'000);
}

TEST_CASE("log: Traefik's JSON says when a request began") {
    World log(LogFormat::traefik, mapped({}, {"header:x-tenant"}));
    CHECK(
        log.read(R"({"ClientAddr":"203.0.113.7:1","ClientHost":"203.0.113.7","ClientUsername":"-",)"
                 R"("DownstreamStatus":200,"Duration":250000000,"RequestHost":"api.example",)"
                 R"("RequestMethod":"GET","RequestPath":"/a?b","StartUTC":)"
                 R"("2026-11-29T10:00:00.123456789Z","request_X-Tenant":"acme","time":)"
                 R"("2026-11-29T10:00:01Z"})") == "");
    CHECK(log.all() == "203.0.113.7 - GET /a?b api.example 200 250000");
    CHECK(log.since_ten() == 123'456);
    CHECK(log.request.values[0] == "acme");
}

TEST_CASE("log: Tidegate's own lines in JSON, logfmt and text say the same") {
    const LogLayout layout = mapped({}, {"header:x-tenant"});
    World json(LogFormat::tidegate, layout);
    CHECK(json.read(R"({"time":"2026-11-29T10:00:00.042Z","id":"1","client":"203.0.113.7",)"
                    R"("method":"GET","host":"api.example","path":"/a","identifiers":)"
                    R"(["ip:203.0.113.7","user:al%7Bce","header:x-tenant=acme"],)"
                    R"("usage_input":7,"usage_output":3,"usage_cost":10,"usage_model":"m",)"
                    R"("status":200,"duration_us":77})") == "");
    World logfmt(LogFormat::logfmt, layout);
    CHECK(logfmt.read(R"(time=2026-11-29T10:00:00.042Z id=1 client=203.0.113.7 method=GET )"
                      R"(host=api.example path=/a identifiers="ip:203.0.113.7,\"user:al%7Bce\",)"
                      R"(header:x-tenant=acme" usage_input=7 usage_output=3 usage_cost=10 )"
                      R"(usage_model=m status=200 duration_us=77)") == "");
    World text(LogFormat::combined, layout);
    CHECK(text.read(R"(203.0.113.7 - - [29/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 1 )"
                    R"(id="1" host="api.example" identifiers="ip:203.0.113.7,\"user:al%7Bce\",)"
                    R"(header:x-tenant=acme" usage_input="7" usage_output="3" usage_cost="10" )"
                    R"(usage_model="m" duration_us="77")") == "");
    for (const World* const log : {&json, &logfmt, &text}) {
        CHECK(log->all() == "203.0.113.7 al{ce GET /a api.example 200 77");
        CHECK(log->request.values[0] == "acme");
        CHECK(log->request.number(LogNumber::usage_input) == 7);
        CHECK(log->request.number(LogNumber::usage_output) == 3);
        CHECK(log->request.number(LogNumber::usage_cost) == 10);
        CHECK(log->text(LogText::model) == "m");
        CHECK_FALSE(log->request.is_end);
    }
    CHECK(json.since_ten() == 42'000);
    CHECK(logfmt.since_ten() == 42'000);
}

TEST_CASE("log: --map names members of other JSON") {
    const LogLayout layout = mapped({"end=t", "path=/req/uri", "method=req.verb", "client=ip",
                                     "duration_ms=took", "header:X-Tenant=h.tenant", "status=code"},
                                    {"header:x-tenant"});
    World log(LogFormat::json, layout);
    CHECK(log.read(R"({"t":"2026-11-29 10:00:00.5+00:00","req":{"uri":"/a","verb":"GET"},)"
                   R"("ip":"203.0.113.7","took":12.5,"h":{"tenant":"acme"},"code":201})") == "");
    CHECK(log.all() == "203.0.113.7 - GET /a - 201 12500");
    CHECK(log.request.is_end);
    CHECK(log.since_ten() == 500'000);
    CHECK(log.request.values[0] == "acme");
    CHECK(log.read(R"({"req":{"uri":"/a"}})") == "the line does not say when the request came");
    for (const std::string bad : {"path", "=x", "path=", "paht=x", "header:=x"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_mapping(bad).has_value());
    }
}

TEST_CASE("log: times of all kinds, and none that is not one") {
    const auto at = [](std::string_view text) { return read_log_time(text, nullptr).at.count(); };
    CHECK(at("2026-11-29T10:00:00Z") == kTen);
    CHECK(at("2026-11-29T11:00:00.000001+01:00") == kTen + 1);
    CHECK(at("2026-11-29 05:00:00,5 -0500") == kTen + 500'000);
    CHECK(at("1795946400") == kTen);
    CHECK(at("1795946400.25") == kTen + 250'000);
    CHECK(at("1795946400250") == kTen + 250'000);
    CHECK(at("1795946400250000") == kTen + 250'000);
    CHECK(at("1795946400250000000") == kTen + 250'000);
    for (const std::string bad :
         {"", "x", "29/Foo/2026:10:00:00 +0000", "31/Feb/2026:10:00:00 +0000",
          "29/Nov/2026:25:00:00 +0000", "2026-11-29", "2026-11-29T10:00:00 +0", "-1", "99999999999",
          "29/Nov/1969:10:00:00 +0000", "99999999999999999999"}) {
        CAPTURE(bad);
        CHECK_FALSE(read_log_time(bad, nullptr).fault.empty());
    }
    CHECK(read_log_time("29/Nov/2026:10:00:00", nullptr).fault.find("--zone") !=
          std::string_view::npos);
}

TEST_CASE("log: durations with and without a unit") {
    CHECK(read_log_duration("0.250") == 250'000);
    CHECK(read_log_duration("12ms") == 12'000);
    CHECK(read_log_duration("1.5s") == 1'500'000);
    CHECK(read_log_duration("800µs") == 800);
    CHECK(read_log_duration("2500ns") == 3);
    CHECK(read_log_duration("1m2.5s") == 62'500'000);
    CHECK(read_log_duration("1h0m3s") == 3'603'000'000);
    CHECK_FALSE(read_log_duration("1h"));
    CHECK_FALSE(read_log_duration("1m2.5"));
    CHECK_FALSE(read_log_duration("1m2ms"));
    CHECK_FALSE(read_log_duration("-1"));
    CHECK_FALSE(read_log_duration(""));
}

TEST_CASE("log: the first lines tell the format") {
    const auto told = [](std::vector<std::string> lines, const LogLayout& layout = {}) {
        const auto format = tell_format(lines, layout);
        return format ? std::string(to_string(*format)) : format.error();
    };
    const std::string combined =
        R"(1.2.3.4 - - [29/Nov/2026:10:00:00 +0000] "GET / HTTP/1.1" 200 1)";
    CHECK(told({combined, "garbage"}) == "combined");
    CHECK(told({R"({"time":"2026-11-29T10:00:00Z","path":"/","client":"1.2.3.4"})"}) == "tidegate");
    CHECK(told({R"({"ts":1795946400.5,"request":{"uri":"/"}})"}) == "caddy");
    CHECK(told({R"({"StartUTC":"2026-11-29T10:00:00Z","RequestPath":"/"})"}) == "traefik");
    CHECK(told({"time=2026-11-29T10:00:00Z path=/ client=1.2.3.4"}) == "logfmt");
    CHECK(told({R"({"t":1795946400,"p":"/"})"}, mapped({"time=t", "path=p"})) == "json");
    CHECK(told({R"({"t":1795946400,"p":"/"})"}).find("--map") != std::string::npos);
    CHECK(told({R"({"log":"1.2.3.4 - - [29/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n",)"
                R"("stream":"stdout","time":"2026-11-29T10:00:00.1Z"})"})
              .find("jq -j .log") != std::string::npos);
    CHECK(told({"1.2.3.4:5 [29/Nov/2026:10:00:00.250] web api/a1 0/0/1/2/13 200 45 - - ---- "
                "1/1/0/0/0 0/0 \"GET /x HTTP/1.1\""})
              .find("--zone") != std::string::npos);
}

TEST_CASE("log: a line that is cut anywhere is read or refused, and never more") {
    const std::string lines[] = {
        R"(203.0.113.7 - a [29/Nov/2026:10:00:00 +0000] "GET /\x41 HTTP/1.1" 200 12 "-" "c" 0.1)",
        R"(1.2.3.4:5 [29/Nov/2026:10:00:00.250 +0000] w~ a/b 0/0/1/2/13 200 4 - - ---- 1/1 0/0 {a} "GET /x HTTP/1.1")",
        R"(time=2026-11-29T10:00:00.042Z identifiers="ip:1,\"user:\u00e9\"" path=/a)",
        R"({"ts":1795946400.5,"request":{"method":"GET","uri":"/\ud83d\ude00"},"status":200})"};
    for (const LogFormat format : kEnumerators<LogFormat>) {
        World log(format, mapped({}, {"header:x-tenant"}));
        for (const std::string& line : lines) {
            for (std::size_t size = 0; size <= line.size(); ++size) {
                // A copy of its own: the sanitizers notice a read beyond its end.
                const std::string cut = line.substr(0, size);
                log.read(cut);
            }
        }
        CHECK(log.read(std::string(kLineBytesMax + 1, 'a')).find("65,535") != std::string::npos);
    }
}

}  // namespace
}  // namespace tidegate::simulate::log_test
