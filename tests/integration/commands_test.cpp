// The command line: what each command takes, what it says to mistakes, and what it leaves behind.
#include <signal.h>

#include <filesystem>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/client.hpp"
#include "integration/process.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::commands_test {

using nlohmann::json;

namespace {

constexpr const char* kGood = "upstream: http://127.0.0.1:3000\nlimits: [10/s]\n";
// Valid, with one warning.
constexpr const char* kOdd = "upstream: http://127.0.0.1:3000\nlimits: [0/s]\n";
constexpr const char* kBroken = "upstream: http://127.0.0.1:3000\nlimit: [10/s]\n";

// Also from another folder.
std::string absolute_program() {
    return std::filesystem::absolute(program()).string();
}

// Runs a line of shell in `folder`, where `$T` is the program.
Finished shell(const TemporaryFolder& folder, const std::string& line) {
    const TemporaryFolder output;
    const std::string whole =
        "cd " + folder.path().string() + " && T=" + absolute_program() + " && " + line;
    Process process({"/bin/sh", "-c", whole}, output.path());
    const auto code = process.wait(kPatience);
    REQUIRE(code);
    return {.code = *code, .output = process.output(), .errors = process.errors()};
}

void says(const std::string& text, const std::string& part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, part, " is missing in: ", text);
}

// The exit code of wrong use, and a sentence that holds each of `parts`.
void check_refused(const std::vector<std::string>& arguments,
                   const std::vector<std::string>& parts) {
    const Finished finished = run_tidegate(arguments);
    CAPTURE(arguments);
    CHECK(finished.code == 2);
    CHECK(finished.output.empty());
    for (const std::string& part : parts) says(finished.errors, part);
}

}  // namespace

TEST_CASE("commands: check takes a file by itself, after -c, and from standard input") {
    const TemporaryFolder folder;
    folder.write("good.yaml", kGood);
    folder.write("broken.yaml", kBroken);
    for (const std::string line :
         {"$T check good.yaml", "$T check -c good.yaml", "$T check - < good.yaml",
          "$T check -c - < good.yaml", "cp good.yaml tidegate.yaml && $T check"}) {
        CAPTURE(line);
        const Finished finished = shell(folder, line);
        CHECK(finished.code == 0);
        CHECK(finished.output.starts_with("ok: "));
    }
    says(shell(folder, "$T check broken.yaml").errors, "broken.yaml:2:1: error: unknown key");
    const Finished input = shell(folder, "$T check - < broken.yaml");
    CHECK(input.code == 1);
    says(input.errors, "<stdin>:2:1: error: unknown key");
    // Paths are relative to the folder where the command runs.
    folder.write("token", "s3cret");
    CHECK(shell(folder,
                "(cat good.yaml; echo 'admin: {address: 127.0.0.1:1, token: \"file:token\"}') | "
                "$T check -")
              .code == 0);
    says(shell(folder, "$T check - < .").errors, "<stdin>: error: cannot be read: Is a directory");
    says(shell(folder, "head -c 2000000 /dev/zero | tr '\\0' '#' | $T check -").errors,
         "larger than 1 MiB");
}

TEST_CASE("commands: check --strict treats warnings as faults") {
    const TemporaryFolder folder;
    folder.write("odd.yaml", kOdd);
    folder.write("good.yaml", kGood);
    const Finished lenient = shell(folder, "$T check odd.yaml");
    CHECK(lenient.code == 0);
    says(lenient.output, "1 warning");
    const Finished strict = shell(folder, "$T check --strict odd.yaml");
    CHECK(strict.code == 1);
    CHECK(strict.output.empty());
    says(strict.errors, "--strict takes warnings for faults");
    CHECK(shell(folder, "$T check --strict good.yaml").code == 0);
}

TEST_CASE("commands: check --json prints one object, whatever it found") {
    const TemporaryFolder folder;
    folder.write("good.yaml", kGood);
    folder.write("odd.yaml", kOdd);
    folder.write("broken.yaml", kBroken);
    const auto told = [&](const std::string& arguments, int code) {
        const Finished finished = shell(folder, "$T check --json " + arguments);
        CHECK(finished.code == code);
        CHECK(finished.errors.empty());
        return json::parse(finished.output);
    };
    json answer = told("good.yaml", 0);
    CHECK(answer.at("ok") == true);
    CHECK(answer.at("routes") == 1);
    CHECK(answer.at("errors").empty());
    answer = told("odd.yaml", 0);
    CHECK(answer.at("ok") == true);
    CHECK(answer.at("warnings").size() == 1);
    answer = told("--strict odd.yaml", 1);
    CHECK(answer.at("ok") == false);
    answer = told("broken.yaml", 1);
    CHECK(answer.at("ok") == false);
    CHECK(answer.at("errors").at(0).at("file") == "broken.yaml");
    CHECK(answer.at("errors").at(0).at("line") == 2);
    CHECK(answer.at("errors").at(0).at("column") == 1);
    answer = told("none.yaml", 1);
    CHECK(answer.at("errors").at(0).at("message") == "there is no such file");
}

TEST_CASE("commands: run and check without any configuration name both ways to give one") {
    const TemporaryFolder folder;
    for (const std::string command : {"run", "check"}) {
        const Finished finished = shell(folder, "$T " + command);
        CHECK(finished.code == 2);
        says(finished.errors, "tidegate " + command + " -c FILE");
        says(finished.errors, "tidegate.yaml");
        says(finished.errors, "tidegate quickstart");
    }
}

TEST_CASE("commands: a configuration from standard input runs, and cannot be reloaded") {
    const TemporaryFolder folder;
    const auto port = free_port();
    auto admin = free_port();
    while (admin == port) admin = free_port();
    folder.write("in.yaml", "listen: 127.0.0.1:" + std::to_string(port) +
                                "\nadmin: 127.0.0.1:" + std::to_string(admin) + "\n" + kGood);
    const TemporaryFolder output;
    Process process(
        {"/bin/sh", "-c",
         "cd " + folder.path().string() + " && exec " + absolute_program() + " run - < in.yaml"},
        output.path());
    const std::string address = "127.0.0.1:" + std::to_string(admin);
    await_quietly([&] { return run_tidegate({"health", "--admin", address}).code == 0; });
    const Finished reload = run_tidegate({"reload", "--admin", address});
    CHECK(reload.code == 1);
    says(reload.errors, "came from standard input, which cannot be read again");
    process.signal(SIGTERM);
    CHECK(process.wait(kPatience) == 0);
    says(process.errors(), ": <stdin>\n");
}

TEST_CASE("commands: help and version are commands and flags") {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"help"}, {"-h"}, {"--help"}}) {
        const Finished finished = run_tidegate(arguments);
        CHECK(finished.code == 0);
        for (const std::string command :
             {"quickstart", "run", "check", "reload", "health", "keys", "explain", "inspect",
              "reset", "doctor", "size", "echo", "version", "help"}) {
            says(finished.output, "\n  " + command);
        }
    }
    for (const std::string word : {"version", "-v", "-V", "--version"}) {
        const Finished finished = run_tidegate({word});
        CHECK(finished.code == 0);
        CHECK(finished.output.starts_with("tidegate "));
    }
    for (const std::string command : {"check", "run", "keys", "doctor"}) {
        CHECK(run_tidegate({"help", command}).output == run_tidegate({command, "--help"}).output);
    }
    check_refused({"help", "chek"}, {"there is no command `chek`; did you mean `check`?"});
}

TEST_CASE("commands: an unknown command prints the commands and a suggestion") {
    check_refused({"chek"}, {"there is no command `chek`; did you mean `check`?", "`quickstart`",
                             "`doctor`", "`help`"});
    check_refused({"start"}, {"there is no command `start`"});
    check_refused({"frobnicate"}, {"there is no command `frobnicate`. The commands are"});
    check_refused({"quick-start"}, {"did you mean `quickstart`?"});
    check_refused({"tidegate.yaml"}, {"name a command first: `tidegate run tidegate.yaml`"});
    check_refused({"/etc/tidegate.yaml"}, {"`tidegate check /etc/tidegate.yaml`"});
    check_refused({"-c", "tidegate.yaml"}, {"name a command first: `tidegate run FILE`"});
    check_refused({"keys"}, {"tidegate keys --help"});
    check_refused({"keys", "list"}, {"`tidegate keys` has no command `list`: it has `new`"});
    check_refused({"keys", "--list"}, {"tidegate keys"});
    const Finished nothing = run_tidegate({"--verson"});
    CHECK(nothing.code == 2);
    says(nothing.errors, "did you mean `--version`?");
}

TEST_CASE("commands: the help of each command has examples of its own, or none") {
    const auto help_of = [](std::vector<std::string> command) {
        command.emplace_back("--help");
        const Finished finished = run_tidegate(command);
        CHECK(finished.code == 0);
        return finished.output;
    };
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"keys"}, {"version"}, {"help"}}) {
        CAPTURE(command.front());
        CHECK(help_of(command).find("Examples:") == std::string::npos);
    }
    says(help_of({}), "Examples:");
    says(run_tidegate({"help"}).output, "Examples:");
    CHECK(help_of({"inspect"}).find("tidegate reset") == std::string::npos);
    CHECK(help_of({"reset"}).find("tidegate inspect") == std::string::npos);
    says(help_of({"keys", "new"}), "tidegate keys new alice");
}

TEST_CASE("commands: a wrong argument prints what the command takes") {
    for (const std::string command : {"run", "check", "doctor", "explain", "reload", "health"}) {
        check_refused({command, "-c"}, {"`-c` needs a file: `-c tidegate.yaml`", command});
        check_refused({command, "--config"}, {"`-c` needs a file"});
    }
    check_refused({"check", "-c", ""}, {"needs a file"});
    check_refused(
        {"check", "--jsno", "a.yaml"},
        {"`tidegate check` has no option `--jsno`; did you mean `--json`?", "`--strict`"});
    check_refused({"run", "--port", "8080"}, {"`tidegate run` has no option `--port`", "`--echo`"});
    check_refused({"run", "a.yaml", "b.yaml"}, {"takes no further argument `b.yaml`"});
    check_refused({"check", "-c", "a.yaml", "b.yaml"},
                  {"two configurations are named, `a.yaml` and `b.yaml`: keep one"});
    check_refused({"quickstart", "--tls", "--face", "check"}, {"--face excludes --tls"});
    check_refused({"quickstart", "a.yaml"}, {"takes no further argument `a.yaml`"});
    check_refused({"explain", "-c", "a.yaml", "--from"}, {"`--from` needs a value"});
    check_refused({"explain", "-c", "a.yaml", "--from", "here"}, {"is not an IP address"});
    check_refused({"inspect"}, {"IDENTIFIER is required: `tidegate inspect user:alice`",
                                "tidegate inspect --help"});
    check_refused({"inspect", "--upstreams", "user:alice"}, {"IDENTIFIER", "--upstreams"});
    check_refused({"inspect", "--jsno"},
                  {"`tidegate inspect` has no option `--jsno`; did you mean `--json`?"});
    check_refused({"reset"}, {"IDENTIFIER is required: `tidegate reset user:alice`"});
    check_refused({"explain", "-c", "a.yaml", "--from", "203.0.113.7", "--path", "x"},
                  {"`x` is not a path: a path begins with `/`"});
    check_refused({"explain", "-c", "a.yaml", "--from", "203.0.113.7", "--path", ""},
                  {"a path begins with `/`"});
    check_refused({"inspect", ""}, {"write what is counted: `tidegate inspect user:alice`"});
    check_refused({"reset", ""}, {"write what is counted: `tidegate reset user:alice`"});
    check_refused({"health", "--admin", "localhost:9901"}, {"write an IP address"});
    check_refused({"health", "--token-file", "token"}, {"--admin"});
    check_refused({"echo", "--listen", "9000/tcp"}, {"is not an address such as"});
    check_refused({"doctor", "--within", "soon"}, {"is not a duration"});
    check_refused({"keys", "new"}, {"USER is required: `tidegate keys new alice`"});
    check_refused({"keys", "new", " alice"}, {"is no user"});
    check_refused({"keys", "new", "alice", "--tier", "a b"}, {"is no tier"});
}

TEST_CASE("commands: the message about a file that cannot be read has the system's reason") {
    const TemporaryFolder folder;
    const Finished finished = run_tidegate({"check", "/proc/self/mem"});
    CHECK(finished.code == 1);
    says(finished.errors, "/proc/self/mem: error: the file cannot be read: Input/output error");
    const std::string file = folder.write(
        "t.yaml", std::string(kGood) + "admin: {address: 127.0.0.1:1, token: file:none}\n");
    says(run_tidegate({"check", file}).errors,
         "t.yaml:3:38: error: admin.token: the file `none` cannot be read: No such file or "
         "directory");
}

TEST_CASE("commands: reload puts a new configuration in force, or says why not") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "5/h"), "s3cret");
    Finished finished = run_tidegate({"reload", "-c", tidegate.file()});
    CHECK(finished.code == 0);
    CHECK(finished.output.starts_with("configuration 2 is in force, hash "));

    // The faults are elsewhere than in `admin`, so the command still finds the proxy.
    tidegate.write_configuration(simple(upstream.url(), "5/h") + "limit: 3\n");
    finished = run_tidegate({"reload", "-c", tidegate.file()});
    CHECK(finished.code == 1);
    says(finished.errors, "error: unknown key `limit`");
    says(finished.errors, "1 error: the proxy goes on with configuration 2");

    const std::string address = "127.0.0.1:" + std::to_string(tidegate.admin_port());
    finished = run_tidegate({"reload", "--admin", address});
    CHECK(finished.code == 3);
    says(finished.errors, "wants a token");
    const TemporaryFolder folder;
    tidegate.write_configuration(simple(upstream.url(), "6/h"));
    CHECK(run_tidegate(
              {"reload", "--admin", address, "--token-file", folder.write("token", "s3cret\n")})
              .code == 0);
    CHECK(tidegate.get().field("RateLimit-Policy").find("q=6") != std::string::npos);
    CHECK(run_tidegate({"reload", "--admin", "127.0.0.1:" + std::to_string(free_port())}).code ==
          3);
    CHECK(run_tidegate({"reload", "-c", folder.write("off.yaml", "admin: off\n")}).code == 2);
}

TEST_CASE("commands: health is 0 while the proxy is ready, and 1 while it drains or is not there") {
    const Upstream upstream(ok());
    Tidegate tidegate("timeouts: {shutdown_delay: 2s}\n" + simple(upstream.url()), "s3cret");
    const std::vector<std::string> by_file{"health", "-c", tidegate.file()};
    Finished finished = run_tidegate(by_file);
    CHECK(finished.code == 0);
    CHECK(finished.output == "ready\n");
    // A file that is being edited makes no healthy proxy unhealthy.
    tidegate.write_configuration("nonsense: 1\n");
    CHECK(run_tidegate(by_file).code == 0);
    const TemporaryFolder here;
    CHECK(shell(here, "cp " + tidegate.file() + " tidegate.yaml && $T health").code == 0);

    tidegate.signal(SIGTERM);
    CHECK_SOON(run_tidegate(by_file).code == 1);
    says(run_tidegate(by_file).errors, "answers 503, draining");
    CHECK(tidegate.wait() == 0);
    finished = run_tidegate(by_file);
    CHECK(finished.code == 1);
    says(finished.errors, "cannot reach");
    CHECK(run_tidegate({"health", "-c", here.write("off.yaml", "admin: off\n")}).code == 1);
    CHECK(run_tidegate({"health", "-c", "/nonexistent.yaml"}).code == 1);
    // Another server than Tidegate is not ready either.
    CHECK(run_tidegate({"health", "--admin", upstream.url().substr(7)}).code == 1);
}

TEST_CASE("commands: the message about an address that is not the admin listener's names it") {
    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "1/h"), "s3cret");
    CHECK(tidegate.get().status() == 200);
    const std::string proxy = "127.0.0.1:" + std::to_string(tidegate.port());
    const std::string sentence = proxy +
                                 " answers 429, and is not Tidegate's admin listener: give the "
                                 "address that is in `admin`\n";
    const auto errors_of = [&](std::vector<std::string> arguments, int code) {
        arguments.insert(arguments.end(), {"--admin", proxy});
        const Finished finished = run_tidegate(arguments);
        CHECK(finished.code == code);
        return finished.errors;
    };
    CHECK(errors_of({"health"}, 1) == sentence);
    CHECK(errors_of({"reload"}, 3) == sentence);
    CHECK(errors_of({"inspect", "user:a"}, 3) == sentence);
    CHECK(errors_of({"reset", "user:a"}, 3) == sentence);
}

TEST_CASE("commands: every command reports a missing file in one sentence") {
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"run"},
                                               {"check"},
                                               {"explain", "--from", "192.0.2.1"},
                                               {"doctor"},
                                               {"size", "--requests", "1k"},
                                               {"inspect", "user:a"},
                                               {"reset", "user:a"},
                                               {"reload"},
                                               {"health"}}) {
        std::vector<std::string> arguments = command;
        arguments.insert(arguments.end(), {"-c", "/nonexistent.yaml"});
        const Finished finished = run_tidegate(arguments);
        CAPTURE(command.front());
        CHECK(finished.code != 0);
        says(finished.output + finished.errors, "/nonexistent.yaml");
        says(finished.output + finished.errors, "there is no such file");
    }
}

TEST_CASE("commands: size estimates a configuration, and needs neither the proxy nor Redis") {
    const TemporaryFolder folder;
    folder.write("redis.yaml",
                 std::string(kGood) + "store: {redis: {url: 'redis://192.0.2.1:6379'}}\n");
    const Finished text = shell(folder, "$T size -c redis.yaml --requests 200k");
    CHECK(text.code == 0);
    says(text.output, "200,000/s");
    says(text.output, "of the core that executes commands");
    const Finished object = shell(folder, "$T size redis.yaml --requests 1.5M --tls on --json");
    CHECK(object.code == 0);
    const json estimate = json::parse(object.output);
    CHECK(estimate["requests"] == 1'500'000);
    CHECK(estimate["tls"] == true);
    CHECK(estimate["redis"]["primaries"] >= 3);

    check_refused({"size"}, {"--requests is required"});
    check_refused({"size", "--requests"}, {"`--requests` needs a value"});
    check_refused({"size", "--requests", "0"}, {"--requests", "`0` is below 1"});
    check_refused({"size", "--requests", "many"}, {"`many` is not a number such as `3000`"});
    check_refused({"size", "--requests", "5G"}, {"`200k` or `1.5M`"});
    check_refused({"size", "--requests", "999M"}, {"`999M` is above 100000000"});
    check_refused({"size", "--requests", "1k", "--response", "2h"}, {"--response", "at most 1h"});
    check_refused({"size", "--requests", "1k", "--tls", "maybe"}, {"--tls"});
    const Finished nowhere = shell(folder, "$T size redis.yaml --requests 1k --route nowhere");
    CHECK(nowhere.code == 2);
    says(nowhere.errors, "has no route `nowhere`");
    CHECK(shell(folder, "$T size --requests 1k").code == 2);  // no file, and no tidegate.yaml

    // One key for all requests: one core of Redis, whatever is bought.
    folder.write("global.yaml",
                 "upstreams: {api: {servers: ['http://127.0.0.1:3000']}}\n"
                 "policies: {all: {key: ['constant:all'], limits: [9/s]}}\n"
                 "routes: [{name: all, match: {path: '/**'}, upstream: api, policies: [all]}]\n"
                 "store: {redis: {cluster: ['redis://192.0.2.1:6379']}}\n");
    const Finished hot = shell(folder, "$T size global.yaml --requests 10M");
    CHECK(hot.code == 1);
    says(hot.output, "no answer above");
}

TEST_CASE("commands: keys prints a new key once, and the proxy accepts the key by its line") {
    const TemporaryFolder folder;
    const Finished made = shell(folder, "$T keys new alice --tier pro >> api.keys");
    CHECK(made.code == 0);
    CHECK(made.errors.starts_with("the key of `alice`, shown only now: tg_"));
    CHECK(made.errors.find("the line for") == std::string::npos);
    const std::size_t at = made.errors.find("tg_");
    REQUIRE(at != std::string::npos);
    const std::string key = made.errors.substr(at, made.errors.find('\n', at) - at);
    CHECK(key.size() == 51);
    const std::string keys = read_file(folder.path() / "api.keys");
    CHECK(keys.find(key) == std::string::npos);
    CHECK(keys.ends_with(": {user: alice, tier: pro}\n"));
    CHECK(shell(folder, "$T keys new bob 2>/dev/null >> api.keys").code == 0);

    const Upstream upstream(ok());
    const Tidegate tidegate(simple(upstream.url(), "5/h") + "identity: {user: [{api_key: {keys: " +
                            (folder.path() / "api.keys").string() + "}}]}\n");
    CHECK(tidegate.get("/", "X-Api-Key: " + key + "\r\n").status() == 200);
    CHECK(tidegate.get("/", "X-Api-Key: " + key + "0\r\n").status() == 401);
    const auto lines = tidegate.access_log(2);
    says(lines.at(0).dump() + lines.at(1).dump(), "\"user:alice\"");
}

TEST_CASE("commands: a reload that is refused for Host or Origin says which, and is logged") {
    const Upstream upstream(ok());
    const Tidegate open(simple(upstream.url()));
    const auto ask = [](const Tidegate& tidegate, const std::string& fields) {
        RawClient client(tidegate.admin_port());
        return client.ask("POST /reload HTTP/1.1\r\n" + fields + "\r\n");
    };
    Message answer = ask(open, "Host: tidegate.internal\r\n");
    CHECK(answer.status() == 403);
    says(answer.body, "The field Host must hold an IP address or `localhost`");
    answer = ask(open, "Host: localhost\r\nOrigin: http://evil.example\r\n");
    CHECK(answer.status() == 403);
    says(answer.body, "The request has the field Origin");
    CHECK_SOON(open.errors().find("admin: POST /reload is refused: The field Host") !=
               std::string::npos);

    const Tidegate guarded(simple(upstream.url()), "s3cret");
    CHECK(ask(guarded, "Host: tidegate.internal\r\nAuthorization: Bearer s3cret\r\n").status() ==
          200);
    CHECK(ask(guarded, "Host: tidegate.internal\r\n").status() == 401);
    CHECK(ask(guarded, "Host: localhost\r\nOrigin: http://a\r\nAuthorization: Bearer s3cret\r\n")
              .status() == 403);
}

}  // namespace tidegate::test::commands_test
