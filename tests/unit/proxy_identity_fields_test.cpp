#include <string>

#include <doctest/doctest.h>

#include "proxy/identity_fields.hpp"
#include "proxy_world.hpp"

namespace tidegate::proxy::identity_fields_test {
namespace {

IdentityFields fields_of(const std::string& identity) {
    return IdentityFields(*load("upstream: http://127.0.0.1:3000\nidentity: {" + identity + "}\n"));
}

TEST_CASE("identity_fields: fields that could name a user are recognised in every spelling") {
    const IdentityFields fields = fields_of(
        "client_ip: {trusted_proxies: [10.0.0.0/8]},"
        "user: [{header: {name: x-user-id, tier_header: x-plan}}, {header: {name: x-consumer, "
        "namespace: c}}], forward_as: {user: x-auth-user}");
    for (const char* name : {"x-user-id", "X-USER-ID", "X_User_Id", "x_user-id", "X-Consumer",
                             "X-Plan", "x_plan", "X-Auth-User", "X_AUTH-USER", "x.auth.user"})
        CHECK_MESSAGE(fields.include(name), name);
    for (const char* name : {"x-user", "x-user-id2", "xuserid", "", "host", "cf-connecting-ip"})
        CHECK_MESSAGE(!fields.include(name), name);
    CHECK_FALSE(fields_of("").include("x-user-id"));
}

TEST_CASE("identity_fields: the single-address field is one only when it is the one configured") {
    CHECK(fields_of("client_ip: {trusted_proxies: 10.0.0.1, header: cf-connecting-ip}")
              .include("CF_Connecting_IP"));
    CHECK_FALSE(fields_of("client_ip: {trusted_proxies: 10.0.0.1}").include("cf-connecting-ip"));
}

TEST_CASE("identity_fields: a trusted peer is believed in one spelling, and never in ours") {
    const IdentityFields fields = fields_of(
        "client_ip: {trusted_proxies: [10.0.0.0/8]}, user: [{header: {name: x-user-id}}],"
        "forward_as: {user: x-user-id, client_ip: x-client}");
    CHECK_FALSE(fields.are_believed_as("x-user-id"));
    CHECK_FALSE(fields.are_believed_as("x-client"));
    const IdentityFields other = fields_of(
        "client_ip: {trusted_proxies: [10.0.0.0/8]}, user: [{header: {name: x-user-id}}]");
    CHECK(other.are_believed_as("X-User-Id"));
    CHECK_FALSE(other.are_believed_as("X_User_Id"));
}

}  // namespace
}  // namespace tidegate::proxy::identity_fields_test
