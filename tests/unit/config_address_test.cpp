#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "config/address.hpp"
#include "config/config.hpp"

namespace tidegate::config::address_test {

namespace {

std::string listen(std::string_view text) {
    const auto address = parse_listen_address(text);
    return address ? address->to_string() : "refused";
}

std::string server(std::string_view text) {
    const auto url = parse_server_url(text);
    return url ? url->address.to_string() + " " + url->authority : "refused";
}

std::string redis(std::string_view text) {
    const auto url = parse_redis_url(text);
    if (!url) return "refused";
    return url->address.to_string() + " " + url->username + " " + url->password + " " +
           std::to_string(url->database);
}

std::string https(std::string_view text) {
    const auto url = parse_key_url(text);
    if (!url) return "refused";
    return url->address.to_string() + " " + url->authority + " " + url->target;
}

}  // namespace

TEST_CASE("address: where to listen is a port, an address with a port, or a Unix socket") {
    CHECK(listen("8080") == "[::]:8080");
    CHECK(listen(":8080") == "[::]:8080");
    CHECK(listen("0.0.0.0:8080") == "0.0.0.0:8080");
    CHECK(listen("127.0.0.1:8080") == "127.0.0.1:8080");
    CHECK(listen("[::1]:8080") == "[::1]:8080");
    CHECK(listen("[::]:0") == "[::]:0");
    CHECK(listen("[0:0:0:0:0:0:0:1]:1") == "[::1]:1");
    CHECK(listen("unix:/run/x.sock") == "unix:/run/x.sock");
    CHECK(listen("unix:///run/x.sock") == "unix:/run/x.sock");
}

TEST_CASE("address: an address that cannot be listened on is refused") {
    for (const char* text : {"",
                             ":",
                             "http",
                             "127.0.0.1",
                             "127.0.0.1:",
                             "127.0.0.1:65536",
                             "127.0.0.1:-1",
                             "127.0.0.1:080",
                             "127.0.0.1:8080/",
                             "::1:8080",
                             "[]:80",
                             "[127.0.0.1]:80",
                             "[::1]",
                             "[::1]8080",
                             "*:8080",
                             "localhost:8080",
                             "256.0.0.1:80",
                             "1.2.3:80",
                             "0x7f.1:80",
                             "unix:",
                             "unix:@abstract",
                             "unix://host/x",
                             "http://127.0.0.1:80"}) {
        CAPTURE(text);
        CHECK(listen(text) == "refused");
    }
    CHECK(listen("unix:/" + std::string(106, 'x')) != "refused");
    CHECK(listen("unix:/" + std::string(107, 'x')) == "refused");
    CHECK(listen(std::string_view("unix:/a\0b", 9)) == "refused");
}

TEST_CASE("address: a wrong address gets advice on what was meant") {
    const auto advice = [](std::string_view text) {
        const auto address = parse_listen_address(text);
        REQUIRE_FALSE(address.has_value());
        const std::size_t end = address.error().find("; ");
        return end == std::string::npos ? std::string() : address.error().substr(end + 2);
    };
    CHECK(advice("127.0.0.1") == "add a port: `127.0.0.1:8080`");
    CHECK(advice("[::1]") == "add a port: `[::1]:8080`");
    CHECK(advice("*:8080") == "write `8080` for every address of the machine");
    CHECK(advice("http://127.0.0.1:8080") == "write it without `http://`");
    CHECK(advice("tcp://:80") == "write it without `tcp://`");
    CHECK(advice("::1:8080") == "an IPv6 address stands in brackets: `[::1]:8080`");
    CHECK(advice("80800") == "a port is a number from 0 to 65535");
    CHECK(advice("127.0.0.1:99999") == "a port is a number from 0 to 65535");
    CHECK(advice("").empty());
    CHECK(advice("x y").empty());
    CHECK(advice(":").empty());
}

TEST_CASE("address: two sockets overlap where one takes connections of the other") {
    const auto overlap = [](std::string_view a, std::string_view b) {
        const auto first = *parse_listen_address(a);
        const auto second = *parse_listen_address(b);
        CHECK(first.overlaps(second) == second.overlaps(first));
        return first.overlaps(second);
    };
    CHECK(overlap("8080", "8080"));
    CHECK(overlap("8080", "0.0.0.0:8080"));
    CHECK(overlap("8080", "127.0.0.1:8080"));
    CHECK(overlap("8080", "[::1]:8080"));
    CHECK(overlap("0.0.0.0:8080", "127.0.0.1:8080"));
    CHECK_FALSE(overlap("0.0.0.0:8080", "[::1]:8080"));
    CHECK_FALSE(overlap("8080", "8081"));
    CHECK_FALSE(overlap("127.0.0.1:8080", "127.0.0.2:8080"));
    CHECK_FALSE(overlap("0", "127.0.0.1:0"));
    CHECK(overlap("unix:/a", "unix:/a"));
    CHECK_FALSE(overlap("unix:/a", "unix:/b"));
    CHECK_FALSE(overlap("unix:/a", "8080"));
}

TEST_CASE("address: this machine reaches a wildcard at 127.0.0.1, over any kernel's IP") {
    CHECK(reachable(*parse_listen_address("8080")).to_string() == "127.0.0.1:8080");
    CHECK(reachable(*parse_listen_address("0.0.0.0:1")).to_string() == "127.0.0.1:1");
    CHECK(reachable(*parse_listen_address("[::1]:1")).to_string() == "[::1]:1");
    CHECK(reachable(*parse_listen_address("unix:/a")).to_string() == "unix:/a");
}

TEST_CASE("address: a server that is a listener of this machine is recognised") {
    const auto leads = [](std::string_view url, std::string_view listener) {
        return leads_to(parse_server_url(url)->address, *parse_listen_address(listener));
    };
    for (const char* server :
         {"http://127.0.0.1:8080", "http://localhost:8080", "http://LocalHost.:8080",
          "http://0.0.0.0:8080", "http://[::ffff:127.0.0.1]:8080"}) {
        CAPTURE(server);
        CHECK(leads(server, "8080"));
        CHECK(leads(server, "0.0.0.0:8080"));
        CHECK(leads(server, "127.0.0.1:8080"));
        CHECK_FALSE(leads(server, "8081"));
        CHECK_FALSE(leads(server, "10.0.0.5:8080"));
        CHECK_FALSE(leads(server, "unix:/a"));
    }
    CHECK(leads("http://[::1]:8080", "8080"));
    CHECK(leads("http://[::]:8080", "8080"));
    CHECK_FALSE(leads("http://[::]:8080", "0.0.0.0:8080"));
    CHECK(leads("http://[0:0:0:0:0:0:0:1]:8080", "[::1]:8080"));
    CHECK(leads("http://localhost:8080", "[::1]:8080"));
    CHECK_FALSE(leads("http://[::1]:8080", "0.0.0.0:8080"));
    CHECK_FALSE(leads("http://[::1]:8080", "127.0.0.1:8080"));
    CHECK(leads("http://127.0.0.2:8080", "0.0.0.0:8080"));
    CHECK_FALSE(leads("http://127.0.0.2:8080", "127.0.0.1:8080"));
    CHECK(leads("http://10.0.0.5:8080", "10.0.0.5:8080"));
    CHECK(leads("http://10.0.0.5", "10.0.0.5:80"));
    // This address may be another machine's, and a name may be another container's.
    CHECK_FALSE(leads("http://10.0.0.5:8080", "8080"));
    CHECK_FALSE(leads("http://api:8080", "8080"));
    CHECK_FALSE(leads("http://api.localhost:8080", "8080"));
    CHECK_FALSE(leads("http://127.0.0.1:1", "0"));
    CHECK(leads("unix:/a", "unix:/a"));
    CHECK_FALSE(leads("unix:/a", "unix:/b"));
    CHECK_FALSE(leads("unix:/a", "8080"));
}

TEST_CASE("address: a wrong port is not called a wrong host") {
    for (const char* rest : {"://h:x", "://h:80x", "://h:80.0/0", "://127.0.0.1:x", "://[::1]:x",
                             "://h:", "://h:0", "://h:65536"}) {
        CAPTURE(rest);
        const std::string text(rest);
        constexpr const char* kSaid = "a port is a number from 1 to 65535";
        CHECK(parse_redis_url("redis" + text).error() == kSaid);
        CHECK(parse_server_url("http" + text).error() == kSaid);
        CHECK(parse_key_url("https" + text).error() == kSaid);
    }
    CHECK(parse_redis_url("redis://:secret@h:x").error() == "a port is a number from 1 to 65535");
    CHECK(parse_server_url("http://h i:80").error().starts_with("this is not a URL"));
    CHECK(parse_server_url("http://h:80/a b").error().starts_with("this is not a URL"));
}

TEST_CASE("address: an upstream without its scheme is shown with it, unless it has a password") {
    const auto advice = [](std::string_view text) {
        const auto url = parse_server_url(text);
        REQUIRE_FALSE(url.has_value());
        const std::size_t end = url.error().find("; ");
        return end == std::string::npos ? std::string() : url.error().substr(end + 2);
    };
    CHECK(advice("127.0.0.1:3000") == "write `http://127.0.0.1:3000`");
    CHECK(advice("localhost:3000") == "write `http://localhost:3000`");
    CHECK(advice("app") == "write `http://app`");
    CHECK(advice("3000") == "write `http://127.0.0.1:3000`");
    CHECK(advice("user:hunter2@app:80").empty());
    CHECK(advice("").empty());
}

TEST_CASE("address: an upstream is an http or https URL or a Unix socket") {
    CHECK(server("http://127.0.0.1:3000") == "127.0.0.1:3000 127.0.0.1:3000");
    CHECK(server("http://app") == "app:80 app");
    CHECK(server("http://app_1.svc.local:8080/") == "app_1.svc.local:8080 app_1.svc.local:8080");
    CHECK(server("http://[2001:db8::1]:80") == "[2001:db8::1]:80 [2001:db8::1]:80");
    CHECK(server("HTTP://App:81") == "App:81 App:81");
    CHECK(server("unix:/run/app.sock") == "unix:/run/app.sock localhost");
    CHECK(server("https://app") == "app:443 app");
    CHECK(server("https://app:3443") == "app:3443 app:3443");
    CHECK(parse_server_url("https://app")->is_tls);
    CHECK_FALSE(parse_server_url("http://app:443")->is_tls);
}

TEST_CASE("address: an upstream that is not only a place is refused") {
    for (const char* text : {"",
                             "app",
                             "app:80",
                             "127.0.0.1:3000",
                             "http:",
                             "http://",
                             "http://:80",
                             "http://a:0",
                             "http://a:65536",
                             "http://a:x",
                             "http://a:80/path",
                             "http://a?x=1",
                             "http://a#f",
                             "http://u:p@a",
                             "https://a/path",
                             "ftp://a",
                             "http://-a",
                             "http://a..b",
                             "http://1.2.3",
                             "http://256.1.1.1",
                             "http://a b",
                             "http://[::1",
                             "http://a%00b",
                             "http://a/%zz",
                             "http://127.1",
                             "http://[v1.x]",
                             "unix:"}) {
        CAPTURE(text);
        CHECK(server(text) == "refused");
    }
    CHECK(server("http://" + std::string(64, 'a')) == "refused");
}

TEST_CASE("address: an https URL gives a host, a Host field and a target") {
    CHECK(https("https://a") == "a:443 a /");
    CHECK(https("https://a.example/keys") == "a.example:443 a.example /keys");
    CHECK(https("HTTPS://a:8443/b/%2f?x=1&y=%20") == "a:8443 a:8443 /b/%2f?x=1&y=%20");
    CHECK(https("https://a?x") == "a:443 a /?x");
    CHECK(https("https://[::1]:9/k") == "[::1]:9 [::1]:9 /k");
    CHECK(https("https://[::1]/k") == "[::1]:443 [::1] /k");
    CHECK(https("https://a:443/k") == "a:443 a:443 /k");
    CHECK(parse_key_url("https://a:1/k?key=hunter2")->shown() == "https://a:1/k");
    CHECK(parse_key_url("https://a?key=hunter2")->shown() == "https://a/");
}

TEST_CASE("address: keys at an http URL are for this machine only") {
    for (const std::string_view host : {"127.0.0.1", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]",
                                        "localhost", "LocalHost", "localhost.", "idp.localhost"}) {
        CAPTURE(host);
        const auto url = parse_key_url("http://" + std::string(host) + ":8080/keys?x");
        REQUIRE(url.has_value());
        CHECK_FALSE(url->is_tls);
        CHECK(url->shown() == "http://" + url->authority + "/keys");
    }
    CHECK(parse_key_url("http://localhost/keys")->address.port == 80);
    CHECK(parse_key_url("https://localhost/keys")->is_tls);
    for (const std::string_view host :
         {"10.0.0.1", "0.0.0.0", "[::]", "[::2]", "128.0.0.1", "idp.example", "localhost.example",
          "notlocalhost", "[::ffff:10.0.0.1]"}) {
        CAPTURE(host);
        const auto url = parse_key_url("http://" + std::string(host) + "/keys");
        REQUIRE_FALSE(url.has_value());
        CHECK(url.error().starts_with("write `https://`"));
    }
}

TEST_CASE("address: a host that begins like an IP address is not taken for that address") {
    // Boost.URL 1.81 reads no such name, later ones do.
    const auto is_name_or_refused = [](const auto& url, std::string_view host) {
        return !url || url->address.host == host;
    };
    for (const std::string_view host : {"127.0.0.1.example", "10.0.0.1x"}) {
        CAPTURE(host);
        const std::string rest = "://" + std::string(host);
        CHECK(is_name_or_refused(parse_key_url("https" + rest + "/keys"), host));
        CHECK(is_name_or_refused(parse_server_url("http" + rest), host));
        CHECK(is_name_or_refused(parse_redis_url("redis" + rest), host));
        CHECK_FALSE(parse_key_url("http" + rest + "/keys").has_value());
    }
    CHECK_FALSE(parse_key_url("https://1.2.3.4.5/keys").has_value());
    CHECK_FALSE(parse_server_url("http://1.2.3.4.5").has_value());
    CHECK_FALSE(parse_redis_url("redis://1.2.3.4.5").has_value());
}

TEST_CASE("address: an issuer has no query and no fragment") {
    CHECK(parse_issuer_url("https://idp.example/realms/one").has_value());
    CHECK(parse_issuer_url("http://localhost:8080").has_value());
    CHECK_FALSE(parse_issuer_url("https://idp.example?x=1").has_value());
    CHECK_FALSE(parse_issuer_url("https://idp.example?").has_value());
    CHECK_FALSE(parse_issuer_url("https://idp.example#x").has_value());
    CHECK_FALSE(parse_issuer_url("http://idp.example").has_value());
    CHECK(parse_key_url("http://idp.example").error().find("`insecure: on`") != std::string::npos);
    CHECK(parse_issuer_url("http://idp.example", true).has_value());
    CHECK_FALSE(parse_issuer_url("http://idp.example?x=1", true).has_value());
    CHECK_FALSE(parse_key_url("ftp://idp.example/keys", true).has_value());
}

TEST_CASE("address: a bad https URL is refused without showing it") {
    for (const char* text :
         {"http://a/hunter2", "https://hunter2@a/", "https://u:hunter2@a/", "https://a/#hunter2",
          "https:///hunter2", "https://a:0/hunter2", "https://a:65536/hunter2", "https:hunter2",
          "https://a b/hunter2", "ftp://a/hunter2", "hunter2", "//a/hunter2",
          "https://a/hunter2\r\nx", "https://1.2.3/hunter2", ""}) {
        CAPTURE(text);
        const auto url = parse_key_url(text);
        REQUIRE_FALSE(url.has_value());
        CHECK(url.error().find("hunter2") == std::string::npos);
    }
}

TEST_CASE("address: a Redis URL gives address, user and database") {
    CHECK(redis("redis://h") == "h:6379   0");
    CHECK(redis("redis://127.0.0.1:7000/3") == "127.0.0.1:7000   3");
    CHECK(redis("redis://:secret@h:6379/0") == "h:6379  secret 0");
    CHECK(redis("redis://user:p%40ss%3A%2F@h/") == "h:6379 user p@ss:/ 0");
    CHECK(redis("redis://[::1]:6379") == "[::1]:6379   0");
    CHECK(redis("unix:///run/redis.sock") == "unix:/run/redis.sock   0");
    CHECK(redis("rediss://user:p@h/2") == "h:6379 user p 2");
    CHECK(parse_redis_url("rediss://h")->tls);
    CHECK_FALSE(parse_redis_url("redis://h")->tls);
}

TEST_CASE("address: a Redis URL that is wrong is refused without showing its password") {
    for (const char* text :
         {"redis://u:hunter2@h/x", "redis://u:hunter2@h:99999", "redis://u:hunter2@h/1/2",
          "redis://u:hunter2@h?db=1", "redisss://u:hunter2@h", "rediss://u:hunter2@",
          "rediss:u:hunter2@h", "rediss://u:hunter2@h:0", "redis://u:hunter2@",
          "redis://u:hunter2 x@h", "redis://u:hunter2@h/01", "http://u:hunter2@h", "redis:hunter2",
          "redis://u:hunter2@h/70000", "hunter2"}) {
        CAPTURE(text);
        const auto url = parse_redis_url(text);
        REQUIRE_FALSE(url.has_value());
        CHECK(url.error().find("hunter2") == std::string::npos);
    }
}

namespace {

constexpr std::string_view kTwo = "listen: [systemd:web, systemd:internal]\nupstream: http://a:1\n";

std::optional<std::string> passes_web(std::string_view name) {
    return name == "LISTEN_FDNAMES" ? std::optional<std::string>("web:tidegate.socket")
                                    : std::nullopt;
}

std::optional<std::string> passes_nothing(std::string_view) {
    return std::nullopt;
}

}  // namespace

TEST_CASE("inherited sockets: an item of listen names one") {
    const auto address = parse_listener("systemd:tidegate.socket");
    REQUIRE(address.has_value());
    CHECK(address->is_inherited());
    CHECK_FALSE(address->is_unix());
    CHECK(address->inherited == "tidegate.socket");
    CHECK(address->to_string() == "systemd:tidegate.socket");
    CHECK(parse_listener("127.0.0.1:80")->to_string() == "127.0.0.1:80");
    for (const char* wrong : {"systemd:", "systemd:a:b", "systemd:a b", "systemd:a\x01"}) {
        CHECK_FALSE(parse_listener(wrong).has_value());
    }
    CHECK(parse_listener("systemd:" + std::string(255, 'x')).has_value());
    CHECK_FALSE(parse_listener("systemd:" + std::string(256, 'x')).has_value());
    CHECK_FALSE(parse_listen_address("systemd:web").has_value());
}

TEST_CASE("socket files: a mode has three octal digits, and a group is a name or a number") {
    const auto read = [](const std::string& rest) {
        const auto loaded =
            load_text("listen: {address: \"unix:/x\", " + rest +
                          "}\nadmin: {address: \"unix:/a\", " + rest + "}\nupstream: http://a:1\n",
                      "t");
        if (!loaded.config) return std::optional<SocketFile>();
        CHECK(loaded.config->admin->socket_file == loaded.config->listen[0].socket_file);
        return std::optional(loaded.config->listen[0].socket_file);
    };
    CHECK(read("trusted: off") == std::nullopt);  // `admin` has no such key
    CHECK(read("mode: \"0660\"") == SocketFile{0660, ""});
    CHECK(read("mode: 0660") == SocketFile{0660, ""});
    CHECK(read("mode: 777, group: www-data") == SocketFile{0777, "www-data"});
    CHECK(read("group: 1000") == SocketFile{std::nullopt, "1000"});
    for (const char* wrong : {"8", "0680", "66", "1660", "00660", "rw-rw----", "\"\"", "-660"}) {
        CAPTURE(wrong);
        CHECK(read("mode: " + std::string(wrong)) == std::nullopt);
    }
}

TEST_CASE("inherited sockets: only one of the same name shares an address") {
    const Address web = *parse_listener("systemd:web");
    CHECK(web.overlaps(web));
    CHECK_FALSE(web.overlaps(*parse_listener("systemd:internal")));
    CHECK_FALSE(web.overlaps(*parse_listener("8080")));
    CHECK_FALSE(leads_to(*parse_listener("127.0.0.1:8080"), web));
}

TEST_CASE("inherited sockets: a name that systemd does not pass is refused with its place") {
    const Loaded loaded = load_text(kTwo, "t.yaml", passes_web);
    REQUIRE(loaded.errors.size() == 1);
    CHECK(loaded.errors.front().to_string() ==
          "t.yaml:1:23: listen[1]: systemd passes no socket of the name `internal`, but `web`, "
          "`tidegate.socket`: write one of these, or `FileDescriptorName=internal` in the .socket "
          "unit");
}

TEST_CASE("inherited sockets: where systemd passes none, a configuration can be checked") {
    CHECK(load_text(kTwo, "t.yaml", passes_nothing).config != nullptr);
}

}  // namespace tidegate::config::address_test
