#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "cli/commands.hpp"
#include "config/config.hpp"
#include "identity/api_key.hpp"
#include "identity/user_methods.hpp"

namespace tidegate::cli::keys_command_test {
namespace {

// The owner of `key`, as `user tier`, when `line` is the file of keys.
std::string owner_of(const std::string& key, const std::string& line) {
    std::string folder = std::filesystem::temp_directory_path() / "tidegate-keys-XXXXXX";
    REQUIRE(mkdtemp(folder.data()) != nullptr);
    std::ofstream(folder + "/keys") << line << '\n';
    std::ofstream(folder + "/t.yaml") << "upstream: http://a\n"
                                         "identity: {user: [{api_key: {keys: keys}}]}\n";
    const auto loaded = config::load_file(folder + "/t.yaml");
    std::filesystem::remove_all(folder);
    for (const auto& error : loaded.errors) FAIL(error.to_string());
    const auto& method =
        dynamic_cast<const identity::ApiKeyMethod&>(*loaded.config->user_methods.at(0).how);
    const auto owner = method.keys->find(key);
    return owner ? std::string(owner->user) + " " + std::string(owner->tier) : "nobody";
}

TEST_CASE("keys: the line holds the SHA-256 of the key, the user and the tier") {
    const auto line = key_line("abc", "alice", "pro");
    REQUIRE(line.has_value());
    CHECK(line->text ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad: "
          "{user: alice, tier: pro}");
    CHECK(key_line("abc", "alice", "")->text.ends_with(": {user: alice}"));
}

TEST_CASE("keys: whatever a user is called, the configuration reads the line back") {
    for (const std::string user :
         {"alice", "a b", "x: y", "it's", "say \"hi\"", "back\\slash", "null", "~", "42", "on",
          "${HOME}", "$$", "#no", "{a}", "*", "m\xc3\xbcller", "a@b.example", "-", "[x]"}) {
        CAPTURE(user);
        const auto line = key_line("tg_1", user, "7up");
        REQUIRE(line.has_value());
        CHECK(owner_of("tg_1", line->text) == user + " 7up");
        CHECK(owner_of("tg_2", line->text) == "nobody");
    }
}

TEST_CASE("keys: a name that the configuration would refuse has no line") {
    for (const std::string user : {"", " alice", "a\nb", "\x1b[2J", "\xff"}) {
        CAPTURE(user);
        CHECK_FALSE(key_line("tg_1", user, "").has_value());
    }
    CHECK(key_line("tg_1", std::string(257, 'a'), "").error().find("1 to 256 bytes") !=
          std::string::npos);
    for (const std::string tier : {"a b", "a:b", "{"})
        CHECK_FALSE(key_line("tg_1", "alice", tier).has_value());
}

}  // namespace
}  // namespace tidegate::cli::keys_command_test
