// What `check` warns about listeners that are no proxy: settings without effect, and access for
// every address.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"

namespace tidegate::config_faces_test {

namespace {

const std::string kGateway =
    "listen: {address: \"127.0.0.1:8181\", face: forward_auth, dialect: nginx}\n";
const std::string kPolicies = "policies: {p: {key: [ip], limits: [5/h]}}\n";

std::vector<std::string> warnings(const std::string& text) {
    const auto loaded = config::load_text(text, "t");
    CAPTURE(text);
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    std::vector<std::string> out;
    for (const auto& warning : loaded.warnings) out.push_back(warning.to_string());
    return out;
}

// A listener that `from` opens.
std::string listen(const std::string& address, const std::string& more) {
    return "listen: {address: \"" + address + "\", " + more + "}\n";
}

}  // namespace

TEST_CASE("faces: check warns once about settings that only a proxy uses") {
    const std::string why =
        ": has no effect: no listener has `face: proxy`, so Tidegate forwards nothing";
    const auto route = [](const std::string& settings) {
        return "routes: [{match: {path: /a/**}, " + settings + ", policies: [p]}]\n";
    };
    for (const std::string setting :
         {"strip_prefix: /a", "timeouts: {response: 1s}", "buffer: 1KiB"}) {
        const std::string key = setting.substr(0, setting.find(':'));
        const auto said = warnings(kGateway + kPolicies + route(setting));
        REQUIRE(said.size() == 1);
        CHECK(said[0].ends_with("routes[0]." + key + why));
    }
    CHECK(warnings(kGateway + kPolicies + route("strip_prefix: /a, buffer: 1KiB")) ==
          std::vector<std::string>{"t:3:47: routes[0].strip_prefix" + why +
                                   "; the same holds for another setting"});
    CHECK(warnings(kGateway + "upstream: http://a\nlimits: [5/h]\n") ==
          std::vector<std::string>{"t:2:11: upstream" + why});
    const std::string upstreams = "upstreams: {a: {servers: [http://a]}}\n";
    CHECK(warnings(kGateway + kPolicies + upstreams + route("upstream: a, buffer: 1KiB")) ==
          std::vector<std::string>{"t:3:12: upstreams" + why +
                                   "; the same holds for 2 other settings"});
    CHECK(warnings(kGateway + kPolicies + route("cost: 2")).empty());

    const std::string both =
        "listen: [8080, {address: \"127.0.0.1:8181\", face: forward_auth, dialect: nginx}]\n";
    CHECK(warnings(both + kPolicies + upstreams + route("upstream: a, buffer: 1KiB")).empty());
}

TEST_CASE("faces: check warns where every network may ask") {
    const std::string gateway = "face: forward_auth, dialect: nginx, from: ";
    const std::string limits = "limits: [5/h]\n";
    CHECK(warnings(listen("0.0.0.0:8181", gateway + "0.0.0.0/0") + limits) ==
          std::vector<std::string>{
              "t:1:77: listen.from: `0.0.0.0/0` lets every machine that can connect ask, and a "
              "question can name any client: list the networks of your gateways, such as "
              "`10.0.0.0/8`"});
    CHECK(warnings(listen("[::]:8181", gateway + "[10.0.0.0/8, \"::/0\", 0.0.0.0/0]") + limits)
              .size() == 1);
    CHECK(warnings(listen("0.0.0.0:8181", gateway + "10.0.0.0/8") + limits).empty());
    // No other machine can connect here.
    CHECK(warnings(listen("127.0.0.1:8181", gateway + "0.0.0.0/0") + limits).empty());
    CHECK(warnings(listen("unix:/run/t.sock", gateway + "0.0.0.0/0") + limits).empty());

    const std::string check = "face: check, from: \"::/0\"";
    const auto said = warnings(listen("[::]:8181", check) + kPolicies);
    REQUIRE(said.size() == 1);
    CHECK(said[0].find("`::/0` lets every machine that can connect spend any client's units") !=
          std::string::npos);
    CHECK(warnings(listen("[::]:8181", check + ", token: letmein") + kPolicies).empty());
}

}  // namespace tidegate::config_faces_test
