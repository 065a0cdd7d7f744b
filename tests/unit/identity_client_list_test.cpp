#include <optional>
#include <string_view>

#include <doctest/doctest.h>

#include "base/ip.hpp"
#include "identity/client_list.hpp"

namespace tidegate::identity::client_list_test {
namespace {

ClientIdentity someone(const char* address, std::optional<std::string_view> user = {},
                       std::string_view tier = {}, bool authenticated = true) {
    return {parse_ip(address), user, tier, user && authenticated};
}

TEST_CASE("client_list: a client is listed by network, user or tier") {
    ClientList list;
    CHECK(list.empty());
    list.networks = {*parse_network("10.0.0.0/8")};
    CHECK_FALSE(list.empty());
    CHECK(list.includes(someone("10.1.2.3")));
    CHECK_FALSE(list.includes(someone("11.1.2.3", "bot", "internal")));
    list.users = {"alice", "bot"};
    list.tiers = {"internal"};
    list.by_user = true;
    CHECK(list.includes(someone("11.1.2.3", "bot")));
    CHECK(list.includes(someone("11.1.2.3", "carol", "internal")));
    CHECK_FALSE(list.includes(someone("11.1.2.3", "carol", "pro")));
    CHECK_FALSE(list.includes(someone("11.1.2.3")));
    CHECK_FALSE(list.includes(ClientIdentity{}));
    CHECK(list.entry_for(someone("10.1.2.3", "bot")) == "10.0.0.0/8");
    CHECK(list.entry_for(someone("11.1.2.3", "bot")) == "user:bot");
    CHECK(list.entry_for(someone("11.1.2.3", "carol", "internal")) == "tier:internal");
    CHECK(list.entry_for(someone("11.1.2.3")).empty());
}

TEST_CASE("client_list: authenticated and anonymous are all clients, each is one of them") {
    ClientList known;
    known.authenticated = known.by_user = true;
    ClientList others;
    others.anonymous = others.by_user = true;
    const auto user = someone("192.0.2.1", "alice");
    const auto cookie = someone("192.0.2.1", "0abc", "", false);
    const auto stranger = someone("192.0.2.1");
    CHECK(known.includes(user));
    CHECK(known.entry_for(user) == "authenticated");
    CHECK_FALSE(known.includes(cookie));
    CHECK_FALSE(known.includes(stranger));
    CHECK_FALSE(others.includes(user));
    CHECK(others.includes(cookie));
    CHECK(others.includes(stranger));
    CHECK(others.entry_for(stranger) == "anonymous");
    // The address alone identifies neither.
    CHECK_FALSE(others.includes(stranger.address));
}

}  // namespace

}  // namespace tidegate::identity::client_list_test
