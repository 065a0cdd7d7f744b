// Which counts of `rls` a descriptor means that someone inspects or resets.
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "admin/inspect_reset_answer.hpp"
#include "ask/identifiers.hpp"
#include "config/config.hpp"
#include "identity/identifier.hpp"

namespace tidegate::admin::descriptor_query_test {
namespace {

namespace fs = std::filesystem;

const std::string kShop = R"(domain: shop
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 5}
  - key: path
    value: /cart
    rate_limit: {unit: hour, requests_per_unit: 7}
    descriptors:
      - key: user
        rate_limit: {unit: day, requests_per_unit: 9}
  - key: tenant
    value: free/*
    share_threshold: true
    rate_limit: {unit: second, requests_per_unit: 3}
  - key: plan
    value: gold
    rate_limit: {unlimited: true}
  - key: group
    descriptors:
      - key: member
        rate_limit: {unit: second, requests_per_unit: 1}
)";
const std::string kOther = R"(domain: "a/b=c%"
descriptors:
  - key: remote_address
    rate_limit: {unit: minute, requests_per_unit: 50}
  - key: "k=1"
    rate_limit: {unit: minute, requests_per_unit: 2}
)";

std::shared_ptr<const config::Config> config_of(const std::string& more) {
    std::string folder = fs::temp_directory_path() / "descriptors-XXXXXX";
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/a.yaml") << kShop;
    std::ofstream(folder + "/b.yaml") << kOther;
    std::ofstream(folder + "/tidegate.conf")
        << "listen: {address: \"127.0.0.1:8181\", face: envoy_grpc}\n"
           "rls: {files: ['*.yaml']"
        << more << "}\n";
    const auto loaded = config::load_file(folder + "/tidegate.conf");
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    fs::remove_all(folder);
    REQUIRE(loaded.config != nullptr);
    return loaded.config;
}

const config::Config& without_overrides() {
    static const auto config = config_of(", overrides: off");
    return *config;
}

// `IDENTIFIER by POLICY ...`; or the refusal.
std::string meant(std::string_view text, const config::Config& config = without_overrides()) {
    const auto all = all_meant(text, config);
    if (!all) return all.error();
    std::string out;
    for (const Meant& one : *all) {
        out += (out.empty() ? "" : "; ") + one.identifier + " by";
        for (const limit::Policy* const policy : one.policies) out += " " + policy->name;
    }
    return out;
}

void says(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
}

}  // namespace

TEST_CASE("descriptor query: a domain and its pairs mean what a call with them counts under") {
    CHECK(meant("descriptor:shop/remote_address=203.0.113.7") ==
          "descriptor:remote_address=203.0.113.7 by rls:shop.remote_address");
    CHECK(meant("descriptor:shop/path=%2Fcart/user=Zo\xc3\xab X") ==
          "21:descriptor:path=/cart+26:descriptor:user=Zo%C3%AB X by rls:shop.path_/cart.user");
    // All values that a shared `*` matches have one count.
    CHECK(meant("descriptor:shop/tenant=free%2Fa") ==
          "descriptor:tenant=free/* by rls:shop.tenant_free/*");
    // The identifier is the one that a call is counted under.
    CHECK(meant("descriptor:shop/remote_address=a=b%25")
              .starts_with(ask::descriptor_identifier({{"remote_address", "a=b%"}}, {"a=b%"}) +
                           " by "));
}

TEST_CASE("descriptor query: signs that part the text are escaped") {
    CHECK(meant("descriptor:a%2Fb%3Dc%25/remote_address=x")
              .starts_with("descriptor:remote_address=x by rls:a/b=c%25.remote_address"));
    const std::string odd = meant("descriptor:a%2Fb%3Dc%25/k%3D1=v");
    CHECK(odd.starts_with(ask::descriptor_identifier({{"k=1", "v"}}, {"v"}) + " by rls:"));
    // As the log has it, it means the same.
    CHECK(meant(odd.substr(0, odd.find(" by "))) == odd);
}

TEST_CASE("descriptor query: an identifier of the log means every domain that counts it") {
    CHECK(meant("descriptor:remote_address=203.0.113.7") ==
          "descriptor:remote_address=203.0.113.7 by rls:a/b=c%25.remote_address "
          "rls:shop.remote_address");
    CHECK(meant("21:descriptor:path=/cart+17:descriptor:user=a") ==
          "21:descriptor:path=/cart+17:descriptor:user=a by rls:shop.path_/cart.user");
    says(meant("descriptor:nothing=1"), "No domain of `rls` has a limit");
    const std::string hash = "#" + std::string(64, 'a');
    for (const std::string& text :
         {"descriptor:" + hash, "descriptor:user=" + hash, "pair:" + hash}) {
        says(meant(text), "This does not say the values");
    }
}

TEST_CASE("descriptor query: what only looks like an identifier of the log is refused") {
    const std::string refusal =
        "This is no identifier of a descriptor as the access log has it: write "
        "`descriptor:DOMAIN/KEY=VALUE`.";
    for (const char* const text :
         {"17:descriptor:path=x+4:pair", "17:descriptor:path=x+7:user:ab",
          "17:descriptor:path=x+10:descriptor",
          "17:descriptor:path=x+16:XXXXXXXXXXXuser=", "pair:5", "pair:0", "pair:", "pair:3:a",
          "pair:999999999999:a", "6:pair:5", "17:descriptor:path=x+6:pair:5"}) {
        CHECK_MESSAGE(meant(text) == refusal, text, ": ", meant(text));
    }
}

TEST_CASE("descriptor query: what is unknown is named, with what there is") {
    CHECK(meant("descriptor:shp/a=b") ==
          "The files of `rls` have no domain `shp`. Did you mean `shop`? They have `a/b=c%`, "
          "`shop`.");
    CHECK(meant("descriptor:shop/remote_adress=1")
              .starts_with("The domain `shop` has no descriptor for `remote_adress=1`."));
    says(meant("descriptor:shop/path=%2Fcat"), "Did you mean `path=%2Fcart`?");
    says(meant("descriptor:shop/path=%2Fcart/usr=1"),
         "no descriptor for `usr=1` below `path=%2Fcart`. Did you mean `user`? There it has "
         "`user`.");
    CHECK(meant("descriptor:shop/plan=gold") ==
          "The domain `shop` says that `plan=gold` is unlimited.");
    CHECK(meant("descriptor:shop/group=a") ==
          "The domain `shop` has no limit for `group=a` itself. Below it, there is `member`.");
    says(meant("descriptor:shop/remote_address=1/x=2"), "has no descriptors below");
    says(meant("descriptor:shop"), "The descriptor is missing");
    says(meant("descriptor:"), "The domain is missing");
    says(meant("descriptor:/a=b"), "The domain is missing");
    says(meant("descriptor:shop//a=b"), "A key is missing");
    says(meant("descriptor:shop/" + std::string(5'000, 'a')), "too long");
    std::string deep = "descriptor:shop";
    for (int i = 0; i < 17; ++i) deep += "/a=b";
    says(meant(deep), "at most 16 keys");
    const auto plain = config::load_text("upstream: http://127.0.0.1:1\n", "t.yaml").config;
    says(meant("descriptor:shop/a=b", *plain), "no `rls`");
    CHECK(meant("user:alice", *plain) == "user:alice by");
}

TEST_CASE("descriptor query: limits that calls bring with them have counts of their own") {
    const auto config = config_of("");
    const auto all = all_meant("descriptor:shop/plan=gold", *config);
    REQUIRE(all.has_value());
    REQUIRE(all->size() == 1);
    const Meant& meant_one = all->front();
    CHECK(meant_one.identifier == "11:domain:shop+20:descriptor:plan=gold");
    CHECK(meant_one.policies.size() == 7);
    CHECK(meant_one.note == "The domain `shop` says that `plan=gold` is unlimited.");

    Inspected inspected{.identifier = meant_one.identifier,
                        .known_tier = {},
                        .items = items_of(meant_one, *config),
                        .counts = {},
                        .note = meant_one.note};
    inspected.counts.items.resize(inspected.items.size());
    for (auto& item : inspected.counts.items) item.limits.resize(1);
    AdminAnswer answer = answer_to_inspect({inspected}, *config, "memory");
    CHECK(answer.exit_code == 1);
    says(answer.text, "nothing is counted: The domain `shop` says");

    inspected.counts.items[1].limits[0] = {.counted = 4, .remaining = 0, .denied = true};
    answer = answer_to_inspect({inspected}, *config, "memory");
    CHECK(answer.exit_code == 0);
    says(answer.text, "of the call");
    const auto json = nlohmann::json::parse(answer.body);
    const auto& policies = json.at("identifiers").at(0).at("policies");
    REQUIRE(policies.size() == 1);
    CHECK(policies[0].at("limits").at(0).at("counted") == 4);
    CHECK(policies[0].at("limits").at(0).at("quota").is_null());
    CHECK(policies[0].at("limits").at(0).at("denied").is_null());
}

TEST_CASE("descriptor query: a reset names the policies, and leaves out what no call has brought") {
    const auto config = config_of("");
    const auto all = all_meant("descriptor:shop/remote_address=a", *config);
    REQUIRE(all.has_value());
    REQUIRE(all->size() == 2);
    std::vector<Forgotten> forgotten;
    for (const Meant& one : *all) {
        const auto items = items_of(one, *config);
        forgotten.push_back({one.identifier, items, std::vector<bool>(items.size())});
    }
    forgotten[0].any[0] = true;
    const AdminAnswer answer = answer_to_reset(forgotten, "memory");
    CHECK(answer.exit_code == 0);
    CHECK(answer.text ==
          "descriptor:remote_address=a, counted in process\n"
          "  rls:shop.remote_address: forgotten\n");
}

}  // namespace tidegate::admin::descriptor_query_test
