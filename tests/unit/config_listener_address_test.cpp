#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "config/address.hpp"
#include "config/config.hpp"

namespace tidegate::config::listener_address_test {

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

}  // namespace tidegate::config::listener_address_test
