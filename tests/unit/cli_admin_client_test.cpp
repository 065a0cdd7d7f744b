#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include "cli/admin_commands.hpp"
#include "cli/commands.hpp"

namespace tidegate::cli::admin_client_test {

namespace {

FoundAdmin found(const AdminArguments& arguments) {
    const auto place = find_admin(arguments);
    REQUIRE(place.has_value());
    return *place;
}

std::string fault_of_token_file(const std::string& file) {
    const auto place = find_admin({"", "127.0.0.1:9901", file});
    REQUIRE_FALSE(place.has_value());
    return place.error();
}

constexpr const char* kOfAdmin =
    R"({"type":"about:blank","title":"Service Unavailable","status":503,"detail":"Redis is down."})";
constexpr const char* kOfProxy =
    R"({"type":"about:blank","title":"Not Found","status":404,"detail":"No route matches this )"
    R"(request.","request_id":"6b51"})";
constexpr const char* kOverLimit =
    R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","status":429,)"
    R"("detail":"The request is over a limit."})";

}  // namespace

TEST_CASE("admin place: a token file that gives no token is named with the reason") {
    CHECK(fault_of_token_file("/nonexistent") ==
          "tidegate: --token-file: `/nonexistent`: there is no such file");
    CHECK(fault_of_token_file("/tmp") == "tidegate: --token-file: `/tmp`: this is a folder");
    CHECK(fault_of_token_file("/dev/null") ==
          "tidegate: --token-file: `/dev/null`: the file is empty");
}

TEST_CASE("admin place: a refusal of the admin listener is shown with its detail") {
    const FoundAdmin place = found({"", "127.0.0.1:28080", ""});
    CHECK(refusal_text(place, {503, kOfAdmin}) == "Redis is down.");
    CHECK(refusal_text(place, {401, R"({"type":"about:blank","status":401})"})
              .starts_with("the admin listener on 127.0.0.1:28080 wants a token: "));
    CHECK(refusal_text(place, {404, R"({"type":"about:blank","status":404})"}) ==
          "the admin listener answers 404");
}

TEST_CASE("admin place: a refusal of the proxy or of another server names the wrong address") {
    const FoundAdmin place = found({"", "127.0.0.1:28080", ""});
    CHECK(refusal_text(place, {429, kOverLimit}) ==
          "127.0.0.1:28080 answers 429, and is not Tidegate's admin listener: give the address "
          "that is in `admin`");
    CHECK(refusal_text(place, {404, kOfProxy}).starts_with("127.0.0.1:28080 answers 404, and is"));
    for (const char* body : {"", "<html>", "{}", R"({"status":401})", kOfAdmin}) {
        CAPTURE(body);
        CHECK(refusal_text(place, {401, body}).starts_with("127.0.0.1:28080 answers 401, and is"));
    }
}

TEST_CASE("inspect command: a fault of the token file never means that nothing is counted") {
    // A folder can be opened, but not read.
    const std::string folder = std::filesystem::temp_directory_path().string();
    for (const std::string name : {"inspect", "reset"}) {
        CLI::App app;
        const std::vector<Command> commands = asking_commands(app);
        app.parse(name + " user:alice --admin 127.0.0.1:1 --token-file " + folder);
        for (const Command& command : commands) {
            if (command.app->parsed()) CHECK(command.run() == 2);
        }
        CHECK(app.got_subcommand(name));
    }
}

TEST_CASE("admin client: an identifier is one parameter, whatever is in it") {
    CHECK(percent_encoded("user:a+b&c=d%\n\xc3") == "user%3Aa%2Bb%26c%3Dd%25%0A%C3");
    CHECK(percent_encoded("aZ09-._~") == "aZ09-._~");
}

TEST_CASE("health command: only an answer of the admin listener has a readiness") {
    CHECK(readiness_of(R"({"status":"ready","store":{"kind":"redis","state":"up"}})") == "ready");
    CHECK(readiness_of(R"({"status":"draining"})") == "draining");
    for (const char* body :
         {"", "ok", "[]", "{}", R"({"status":429,"detail":"The request is over a limit."})",
          R"({"status":"UP"})", R"({"status":"ok"})"}) {
        CAPTURE(body);
        CHECK(readiness_of(body).empty());
    }
}

}  // namespace tidegate::cli::admin_client_test
