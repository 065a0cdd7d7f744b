// A Tidegate with a check API, and calls to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/client.hpp"
#include "integration/tidegate.hpp"

namespace tidegate::test {

inline const std::string kCheckPolicies =
    "policies: {per-user: {key: [user], limits: [5/h]}, both: {key: [\"user+header:x-tenant\"], "
    "limits: [3/h]}, per-ip: {key: [ip], limits: [2/h]}}\n"
    "routes: [{name: api, match: {path: /v1/**}, policies: [per-ip]}]\n";
inline const std::string kCheckSecret = "check: {secret: 0123456789abcdef}\n";

class CheckApi {
  public:
    explicit CheckApi(const std::string& more = kCheckPolicies, const std::string& listen_more = "")
        : port_(free_port()),
          listen_("listen: [{address: \"127.0.0.1:" + std::to_string(port_) + "\", face: check" +
                  listen_more + "}]\n"),
          tidegate_(listen_ + more) {}

    void reload(const std::string& more) const {
        tidegate_.write_configuration(listen_ + more);
        const Message answer = tidegate_.reload();
        CAPTURE(answer.body);
        REQUIRE(answer.status() == 200);
    }

    Message post(const std::string& path, const std::string& body,
                 const std::string& fields = "") const {
        return RawClient(port_).ask(post_request(path, body, fields));
    }
    Message check(const std::string& body) const { return post("/v1/check", body); }
    // Of `per-user`.
    Message take(const std::string& user, int cost = 1) const {
        return check(R"({"policy":"per-user","identifiers":{"user":")" + user + R"("},"cost":)" +
                     std::to_string(cost) + "}");
    }
    // Units of `per-user` that are left.
    int left(const std::string& user) const { return left_of(take(user, 0)); }
    // Units of each limit of `per-user` that are left, in the order of the limits.
    std::vector<int> all_left(const std::string& user) const {
        std::vector<int> left;
        const auto answer = nlohmann::json::parse(take(user, 0).body);
        for (const auto& limit : answer.at("limits")) {
            left.push_back(limit.at("left").get<int>());
        }
        return left;
    }
    static int left_of(const Message& answer) {
        return nlohmann::json::parse(answer.body).at("limits").at(0).at("left").get<int>();
    }
    std::string reserve(const std::string& user, int cost, const std::string& more = "") const {
        const Message answer =
            post("/v1/reserve", R"({"policy":"per-user","identifiers":{"user":")" + user +
                                    R"("},"cost":)" + std::to_string(cost) + more + "}");
        REQUIRE(answer.status() == 200);
        return nlohmann::json::parse(answer.body).at("id").get<std::string>();
    }
    Message settle(const std::string& id, int cost) const {
        return post("/v1/settle", R"({"id":")" + id + R"(","cost":)" + std::to_string(cost) + "}");
    }
    // With the true costs as JSON: `[1,2]`.
    Message settle_all(const std::string& id, const std::string& costs) const {
        return post("/v1/settle", R"({"id":")" + id + R"(","costs":)" + costs + "}");
    }
    const Tidegate& tidegate() const { return tidegate_; }
    std::uint16_t port() const { return port_; }

  private:
    std::uint16_t port_;
    std::string listen_;
    Tidegate tidegate_;
};

}  // namespace tidegate::test
