// `tidegate keys new`.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/result.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "identity/digest.hpp"
#include "identity/identifier.hpp"

namespace tidegate::cli {

namespace {

constexpr std::size_t kSecretBytes = 24;
// Makes a key easy to find in a repository or a log, and hard to mistake for its SHA-256.
constexpr std::string_view kPrefix = "tg_";

constexpr const char* kKeysFooter =
    R"(Prints the key once, on standard error, and on standard output the line for the
file that `identity.user[].api_key.keys` names. The file holds the SHA-256 of the
key, so nobody can read the key from it.

  tidegate keys new alice --tier pro >> api-keys.yaml)";

std::string new_key() {
    std::array<unsigned char, kSecretBytes> secret;
    if (::getentropy(secret.data(), secret.size()) != 0) {
        throw std::system_error(errno, std::generic_category(), "no random bytes");
    }
    std::string key(kPrefix);
    append_hex(secret, key);
    return key;
}

// As YAML and the reader of the configuration give it back.
std::string yaml_text(std::string_view text) {
    const bool is_plain =
        is_alphanumeric(text.front()) && !is_digit(text.front()) && text != "null" &&
        text != "Null" && text != "NULL" && std::all_of(text.begin(), text.end(), [](char c) {
            return is_alphanumeric(c) || std::string_view("-_.@").find(c) != std::string_view::npos;
        });
    if (is_plain) return std::string(text);
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') quoted += '\\';
        quoted += c;
        if (c == '$') quoted += '$';
    }
    return quoted + "\"";
}

}  // namespace

Result<KeyLine, std::string> key_line(std::string_view key, std::string_view user,
                                      std::string_view tier) {
    if (!identity::is_safe_user(user)) {
        return ErrorMessage{quote(user) + " is no user: " + std::string(identity::kSafeUserRule)};
    }
    if (!tier.empty() && !identity::is_tier_name(tier)) {
        return ErrorMessage{
            quote(tier) +
            " is no tier: its name has letters, digits, `-`, `_` and `.`, 64 at most"};
    }
    KeyLine line;
    append_hex(identity::sha256(key), line.text);
    line.text += ": {user: " + yaml_text(user);
    if (!tier.empty()) line.text += ", tier: " + yaml_text(tier);
    line.text += "}";
    return line;
}

namespace {

struct KeysArguments {
    std::string user;
    std::string tier;  // empty: none
};

// Prints a new key once, on standard error, and the line for the file of keys on standard output.
// Returns the exit code: 0, or 2 when there can be no such user or tier. Throws std::system_error
// when the system gives no random bytes.
int make_key(const KeysArguments& arguments) {
    const std::string key = new_key();
    const auto line = key_line(key, arguments.user, arguments.tier);
    if (!line) return complain(exit_code::kWrongUse, "tidegate: " + line.error());
    fmt::print(stderr, "the key of {}, shown only now: {}\n", quote(arguments.user), key);
    // In a file or a pipe, the line is all that there is.
    if (::isatty(STDOUT_FILENO) != 0) fmt::print(stderr, "the line for the file of keys:\n");
    std::fflush(stderr);
    fmt::print("{}\n", line->text);
    return exit_code::kDone;
}

}  // namespace

Command keys_command(CLI::App& app) {
    const auto arguments = std::make_shared<KeysArguments>();
    CLI::App* const keys = app.add_subcommand("keys", "Make API keys");
    keys->require_subcommand(1);
    CLI::App* const command = keys->add_subcommand("new", "Make a key for a user");
    command->add_option("USER", arguments->user, "Whose key it is")->option_text(" ")->required();
    command->add_option("--tier", arguments->tier, "The tier of this key")->option_text("TIER");
    command->footer(kKeysFooter);
    return {command, [arguments] { return make_key(*arguments); }};
}

}  // namespace tidegate::cli
