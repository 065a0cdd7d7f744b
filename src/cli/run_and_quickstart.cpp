// `tidegate run` and `tidegate quickstart`, with the certificate that `quickstart --tls` shows.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/life.hpp"
#include "base/result.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "cli/config_file.hpp"
#include "cli/echo.hpp"
#include "config/address.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "tls/certificate.hpp"

namespace tidegate::cli {

namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kForAll = 0644;

std::string cannot_write(const fs::path& path, int error) {
    return fmt::format("cannot write {}: {}; run this in a folder that you may write to",
                       quote(path.string()), std::generic_category().message(error));
}

bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t bytes = ::write(descriptor, text.data(), text.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(bytes));
    }
    return true;
}

// Writes a file that is not there yet. Empty, or why not; then there is none.
std::string write_new(const fs::path& path, std::string_view text, mode_t mode) {
    const int descriptor =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (descriptor < 0) return cannot_write(path, errno);
    const bool is_written = write_all(descriptor, text);
    const int error = errno;
    ::close(descriptor);
    if (is_written) return {};
    ::unlink(path.c_str());
    return cannot_write(path, error);
}

// Also of a link that leads nowhere: it is not written through.
bool has_entry(const fs::path& path) {
    std::error_code ec;
    return fs::symlink_status(path, ec).type() != fs::file_type::not_found;
}

}  // namespace

Result<QuickstartFiles, std::string> ensure_quickstart_certificate(
    const fs::path& folder, std::chrono::system_clock::time_point now) {
    const fs::path certificate = folder / config::kQuickstartCertificate;
    const fs::path key = folder / config::kQuickstartKey;
    const bool has_certificate = has_entry(certificate);
    if (has_certificate != has_entry(key)) {
        return ErrorMessage{fmt::format(
            "{} is here without {}: remove it, and both are made anew",
            quote(has_certificate ? config::kQuickstartCertificate : config::kQuickstartKey),
            quote(has_certificate ? config::kQuickstartKey : config::kQuickstartCertificate))};
    }
    if (has_certificate) return QuickstartFiles::found;
    const auto made = make_throwaway_certificate(now);
    if (!made) return ErrorMessage{made.error()};
    std::string fault = write_new(key, made->key, kOwnerOnly);
    if (!fault.empty()) return ErrorMessage{std::move(fault)};
    fault = write_new(certificate, made->certificate, kForAll);
    if (fault.empty()) return QuickstartFiles::made;
    ::unlink(key.c_str());
    return ErrorMessage{std::move(fault)};
}

namespace {

struct RunArguments {
    ConfigArguments config;
    bool with_echo = false;
    bool is_watched = false;
};

struct QuickstartArguments {
    std::string face;  // a name of base/shared_enums.hpp; empty: the proxy
    bool with_tls = false;
};

constexpr int kFailure = 1;

constexpr const char* kRunFooter =
    R"(Without a file, tidegate.yaml of the current folder is used. TERM and INT let
requests in flight finish, then stop; HUP reads the file again; USR1 opens the
access log anew; USR2 starts the program again, which takes over.

With --watch, Tidegate reads it again when it changes, or a file that it names. A
new configuration with a fault is refused, as with HUP: the old one stays.)";

constexpr const char* kQuickstartFooter =
    R"(A demonstration that needs no configuration: a proxy on 127.0.0.1:8080 which
admits ten requests a minute, in front of an echo upstream. It listens on this
machine only.

With --tls it is https://127.0.0.1:8443, and 8080 sends requests there. The
certificate and its key are made in the current folder, unless they are there.)";

constexpr std::string_view kQuickstartWhat =
    "the quickstart, a demonstration for this machine only";

// What an nginx needs to ask the quickstart of forward_auth.
constexpr std::string_view kNginxSnippet =
    R"(# In a `server` of nginx, for each request of `location /`:
location / {
    auth_request /_tidegate;
    auth_request_set $tidegate_status $upstream_http_x_tidegate_status;
    auth_request_set $tidegate_after $upstream_http_retry_after;
    error_page 403 = @tidegate;
    proxy_pass http://127.0.0.1:3000;
}
location @tidegate {
    add_header Retry-After $tidegate_after always;
    if ($tidegate_status = 429) { return 429; }
    return 403;
}
location = /_tidegate {
    internal;
    proxy_pass http://127.0.0.1:8181;
    proxy_pass_request_body off;
    proxy_set_header Content-Length "";
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Original-URI $request_uri;
    proxy_set_header X-Original-Method $request_method;
}
)";

// A command that reaches the proxy from this machine.
std::string curl_line(const config::Address& address) {
    if (address.is_unix()) {
        return fmt::format("curl -i --unix-socket {} http://localhost/", address.unix_path);
    }
    return fmt::format("curl -i http://{}/", config::reachable(address).to_string());
}

// `file` is empty for the quickstart, for which it prints a `curl` command.
int run(config::Loaded loaded, const std::string& file, std::string_view what,
        const RunArguments& arguments, const std::string& curl = "") {
    fmt::print(stderr, "tidegate {}: {}\n{}", TIDEGATE_VERSION, what, report(loaded));
    if (!loaded.config) {
        fmt::print(stderr, "not started: {}\n", summary(loaded));
        return kFailure;
    }
    std::optional<EchoServer> echo;
    if (arguments.with_echo) {
        echo.emplace(*config::parse_listen_address(kEchoAddress));
        fmt::print(stderr, "  echo upstream on {}\n", echo->address().to_string());
    }
    if (file.empty()) {
        fmt::print(stderr, "  try: {}\n",
                   curl.empty() ? curl_line(loaded.config->listen.front().address) : curl);
    }
    return app::run(std::move(loaded.config),
                    {file, std::move(loaded.files_read), arguments.is_watched});
}

int run_quickstart_over_tls() {
    using config::kQuickstartCertificate;
    using config::kQuickstartKey;
    const auto files = ensure_quickstart_certificate(".", std::chrono::system_clock::now());
    if (!files) return complain(kFailure, "tidegate: " + files.error());
    if (*files == QuickstartFiles::made) {
        fmt::print(stderr,
                   "made {} and {}: a certificate for localhost, 127.0.0.1 and ::1, valid for {} "
                   "days\n",
                   kQuickstartCertificate, kQuickstartKey, kThrowawayValidity.count());
    } else {
        fmt::print(stderr, "using {} and {}, which are here: remove both to have new ones made\n",
                   kQuickstartCertificate, kQuickstartKey);
    }
    return run(config::quickstart_tls(), "", kQuickstartWhat, {.config = {}, .with_echo = true},
               fmt::format("curl -i --cacert {} https://127.0.0.1:8443/", kQuickstartCertificate));
}

// Runs the proxy until it is stopped. Returns the exit code: 0, 1 when it could not start, 2 when
// there is no configuration. Throws std::system_error when the echo upstream cannot listen.
int run_proxy(const RunArguments& arguments) {
    const auto file = find_config_file(arguments.config, "run");
    if (!file) return complain(exit_code::kWrongUse, "tidegate: " + file.error());
    const bool is_input = file->path == config::kStandardInput;
    if (is_input && arguments.is_watched) {
        return complain(exit_code::kWrongUse,
                        "tidegate: --watch needs a file: standard input cannot be read again");
    }
    return run(load_config(file->path), file->path,
               is_input ? config::kShownStandardInput : file->path, arguments);
}

// Runs the demonstration, and returns and throws as run_proxy() does.
int run_quickstart(const QuickstartArguments& arguments) {
    const std::string& face = arguments.face;
    if (arguments.with_tls) return run_quickstart_over_tls();
    if (face == to_string(Face::forward_auth)) {
        fmt::print(stderr, "{}", kNginxSnippet);
        return run(config::quickstart(Face::forward_auth), "", kQuickstartWhat, {},
                   "curl -i -H 'X-Original-URI: /' -H 'X-Original-Method: GET' -H "
                   "'X-Forwarded-For: 203.0.113.7' http://127.0.0.1:8181/");
    }
    if (face == to_string(Face::check)) {
        return run(config::quickstart(Face::check), "", kQuickstartWhat, {},
                   "curl -i http://127.0.0.1:8181/v1/check -d "
                   "'{\"policy\":\"per-user\",\"identifiers\":{\"user\":\"alice\"}}'");
    }
    return run(config::quickstart(), "", kQuickstartWhat, {.config = {}, .with_echo = true});
}

}  // namespace

Command run_command(CLI::App& app) {
    const auto arguments = std::make_shared<RunArguments>();
    CLI::App* const command = app.add_subcommand("run", "Run the proxy");
    add_config_file(*command, arguments->config);
    command->add_flag("--echo", arguments->with_echo,
                      fmt::format("Start an echo upstream on {} as well", kEchoAddress));
    command->add_flag("--watch", arguments->is_watched,
                      "Put changed files of the configuration in force at once, without HUP");
    command->footer(kRunFooter);
    return {command, [arguments] { return run_proxy(*arguments); }};
}

Command quickstart_command(CLI::App& app) {
    const auto arguments = std::make_shared<QuickstartArguments>();
    CLI::App* const command =
        app.add_subcommand("quickstart", "Show Tidegate at work, on this machine only");
    CLI::Option* const face =
        command
            ->add_option(
                "--face", arguments->face,
                "How it is asked: proxy (default); forward_auth, by a gateway; check, by a "
                "program")
            ->option_text("FACE")
            ->check([](const std::string& text) {
                return std::string(
                    text != to_string(Face::envoy_grpc)
                        ? ""
                        : "there is none for envoy_grpc, which needs an Envoy: begin with "
                          "config/recipes/behind-envoy-authz.yaml or behind-envoy-rls.yaml");
            })
            ->check(CLI::IsMember(
                {to_string(Face::proxy), to_string(Face::forward_auth), to_string(Face::check)}));
    command->add_flag("--tls", arguments->with_tls, "Speak TLS, with a certificate made for it")
        ->excludes(face);
    command->footer(kQuickstartFooter);
    return {command, [arguments] { return run_quickstart(*arguments); }};
}

}  // namespace tidegate::cli
