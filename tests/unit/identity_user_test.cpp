#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "identity/user.hpp"

namespace tidegate::identity {
namespace {

const std::vector<UserHeader> kMethods = {{"x-user-id"}, {"x-consumer"}};

std::string user(bool trusted,
                 const std::vector<std::pair<std::string_view, std::string_view>>& pairs) {
    http::Fields fields;
    for (const auto& [name, value] : pairs) fields.push_back({http::field_name(name), name, value});
    return std::string(
        user_of({parse_ip("10.0.0.1"), trusted}, fields, kMethods).value_or("nobody"));
}

TEST_CASE("user: the first method that finds one decides") {
    CHECK(user(true, {{"X-Consumer", "bob"}, {"X-User-Id", "alice"}}) == "alice");
    CHECK(user(true, {{"x-consumer", "bob"}}) == "bob");
    CHECK(user(true, {{"Host", "a"}}) == "nobody");
    CHECK(user(true, {}) == "nobody");
}

TEST_CASE("user: a field from a peer that is not trusted is not looked at") {
    CHECK(user(false, {{"X-User-Id", "alice"}}) == "nobody");
}

TEST_CASE("user: an empty value, or the field twice, is absent") {
    CHECK(user(true, {{"X-User-Id", ""}}) == "nobody");
    CHECK(user(true, {{"X-User-Id", ""}, {"X-Consumer", "bob"}}) == "bob");
    CHECK(user(true, {{"X-User-Id", "alice"}, {"x-user-id", "alice"}}) == "nobody");
    CHECK(user(true, {{"X-User-Id", "alice"}, {"x-user-id", ""}}) == "nobody");
}

TEST_CASE("user: another spelling of the name is another field") {
    CHECK(user(true, {{"X_User_Id", "mallory"}}) == "nobody");
    CHECK(user(true, {{"X_User_Id", "mallory"}, {"X-User-Id", "alice"}}) == "alice");
}

TEST_CASE("user: fields that could pass for an identity are known in every spelling") {
    for (const char* name : {"x-user-id", "X-USER-ID", "X_User_Id", "x_user-id", "X-Consumer"})
        CHECK_MESSAGE(is_identity_field(name, kMethods), name);
    for (const char* name : {"x-user", "x-user-id2", "xuserid", "x.user.id", "", "host"})
        CHECK_MESSAGE(!is_identity_field(name, kMethods), name);
    CHECK_FALSE(is_identity_field("x-user-id", {}));
}

TEST_CASE("user: the single-address field is an identity only when it is the one configured") {
    ClientIpSettings client_ip;
    client_ip.single_field = "cf-connecting-ip";
    CHECK_FALSE(is_identity_field("CF_Connecting_IP", kMethods, client_ip));
    client_ip.source = ClientIpSettings::Source::single;
    CHECK(is_identity_field("CF_Connecting_IP", kMethods, client_ip));
    CHECK(is_identity_field("x-user-id", kMethods, client_ip));
    CHECK_FALSE(is_identity_field("accept", kMethods, client_ip));
}

}  // namespace
}  // namespace tidegate::identity
