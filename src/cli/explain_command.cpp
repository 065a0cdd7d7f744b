// `tidegate explain`.
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/jwks_fetcher.hpp"
#include "base/doc.hpp"
#include "base/result.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "cli/config_file.hpp"
#include "cli/explain.hpp"
#include "config/address.hpp"
#include "config/files.hpp"
#include "net/asio.hpp"
#include "tls/certificate.hpp"

namespace tidegate::cli {

namespace {

struct ExplainArguments {
    std::string file = kDefaultFile;
    ExplainQuestion question;
    std::string face{};         // empty: that of `listen`, or proxy
    std::string listen{};       // the address of a listener; empty: the only one of the face
    std::string method{};       // empty: GET, or POST with a body
    std::string body{};         // a file with the body, or the call of the check API; empty: none
    std::string certificate{};  // a file with that of the client; empty: it has none
    std::string host;           // empty: none given
    std::string from;           // empty: the Unix socket
    bool trusted_socket = false;
    bool as_json = false;
};

constexpr const char* kExplainFooter =
    R"(The request is not sent, and no limit is charged. It is read as strictly as the
proxy reads it: what would be refused is refused here, with the reason. Keys at a
URL are fetched if the request has a token.

  tidegate explain -c tidegate.yaml --path /v1/search --from 203.0.113.7
  tidegate explain --from 10.0.0.1 --header 'X-Forwarded-For: 203.0.113.7'
  tidegate explain --face check --body call.json

What is written on a command line, others on the machine may read: explain
expired or revoked secrets rather than those in use.)";

// For CLI11: an empty string is no objection.
std::string objection_to_line_end(const std::string& text) {
    return text.find_first_of("\r\n") == text.npos ? "" : "it holds a line end";
}

// A target may also be a whole URL, and `*` of OPTIONS.
std::string objection_to_path(const std::string& text) {
    if (text.starts_with('/') || text == "*" || text.find("://") != text.npos) return "";
    return quote(text) + " is not a path: a path begins with `/`";
}

std::string objection_to_field(const std::string& text) {
    return text.find(':') == text.npos ? quote(text) + " is not `Name: value`" : "";
}

std::string objection_to_peer(const std::string& text) {
    return parse_scoped_ip(text) ? "" : quote(text) + " is not an IP address";
}

// Tries once; what goes wrong is logged by the fetcher.
void fetch_keys(const std::shared_ptr<identity::KeySource>& source) {
    asio::io_context io{1};
    app::JwksFetcher fetcher(io.get_executor());
    bool done = false;
    spawn(io.get_executor(), fetcher.prepare({source}), [&](const std::exception_ptr& failure) {
        done = true;
        if (failure) std::rethrow_exception(failure);
    });
    while (!done && io.run_one() > 0) {
    }
    fetcher.use({source});
}

// The listener that the request goes to; nothing where that does not matter. The error says what to
// write.
using ChosenListener = Result<std::optional<std::size_t>, std::string>;

std::string addresses_of(const config::Config& config, const std::vector<std::size_t>& listeners) {
    std::string text;
    for (const std::size_t one : listeners) {
        text += (text.empty() ? "" : ", ") + config.listen[one].address.to_string();
    }
    return text;
}

ChosenListener choose_listener(const ExplainArguments& arguments, const config::Config& config) {
    const std::string face =
        arguments.face.empty() && arguments.listen.empty() ? "proxy" : arguments.face;
    const std::string with_face = face.empty() ? "" : fmt::format(" with `face: {}`", face);
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < config.listen.size(); ++i) {
        if (face.empty() || face == to_string(config.listen[i].face)) all.push_back(i);
    }
    if (!arguments.listen.empty()) {
        const config::Address wanted = *config::parse_listen_address(arguments.listen);
        for (const std::size_t one : all) {
            if (config.listen[one].address == wanted) return std::optional(one);
        }
        return ErrorMessage{fmt::format("no listener of {}{} is at {}; there {} {}", arguments.file,
                                        with_face, wanted.to_string(),
                                        all.size() == 1 ? "is" : "are",
                                        all.empty() ? "none" : addresses_of(config, all))};
    }
    if (face == to_string(Face::proxy)) return std::optional<std::size_t>();
    if (all.empty()) {
        return ErrorMessage{fmt::format("no listener of {} has `face: {}`", arguments.file, face)};
    }
    if (all.size() == 1) return std::optional(all.front());
    return ErrorMessage{
        fmt::format("several listeners of {} have `face: {}`; choose one with --listen: {}",
                    arguments.file, face, addresses_of(config, all))};
}

// What is wrong with the peer that the command line names; empty: nothing.
std::string objection_to_peer_of(const ExplainArguments& arguments, const config::Listen& listen) {
    const std::string where = listen.address.to_string();
    if (arguments.trusted_socket && !listen.trusted) {
        return fmt::format("{} is no Unix socket with `trusted: on`: give --from", where);
    }
    // With a PROXY header, it is that of the client.
    if (listen.address.is_unix() && !listen.proxy_protocol && !arguments.from.empty()) {
        return fmt::format("a client of {}, a Unix socket, has no address: leave --from out",
                           where);
    }
    const bool needs_address = !listen.address.is_unix() && listen.face != Face::check;
    return needs_address && arguments.from.empty()
               ? fmt::format("--from is required: a client of {} has an address", where)
               : "";
}

template <class Explained>
int print_explanation(const ExplainArguments& arguments, const Explained& explanation) {
    return print(doc_of(explanation), arguments.as_json);
}

// What is wrong with a command line about the check API; empty: nothing.
std::string objection_to_call(const ExplainArguments& arguments) {
    const std::string& path = arguments.question.target;
    if (arguments.body.empty()) return "--face check needs --body FILE, with the call as JSON";
    if (path != "/" && path != "/v1/check" && path != "/v1/reserve") {
        return "--path is /v1/check or /v1/reserve with --face check";
    }
    if (!arguments.question.fields.empty() || !arguments.host.empty()) {
        return "--header and --host are not for --face check: a `request` in the body has its own";
    }
    if (!arguments.certificate.empty()) return "--certificate is not for --face check";
    if (arguments.question.is_http2) return "--http2 is not for --face check: a call is the same";
    return arguments.body == config::kStandardInput && arguments.file == config::kStandardInput
               ? "standard input is either the configuration or the body"
               : "";
}

// `bytes_max`: of standard input. A file has a bound of its own.
Result<config::FileText, std::string> read_body_file(const std::string& path,
                                                     std::size_t bytes_max) {
    // More than a route may inspect.
    constexpr std::size_t kBodyFileMax = 65 * config::kFileBytesMax;
    auto body = path == config::kStandardInput ? config::read_standard_input(bytes_max)
                                               : config::read_named_file(path, kBodyFileMax);
    if (!body) return ErrorMessage{fmt::format("{}: {}", quote(path), body.error())};
    return body;
}

// Reads the body of a request into the question. Empty: no objection.
std::string read_body_of(const ExplainArguments& arguments, ExplainQuestion& question) {
    constexpr std::size_t kInputMax = 65 * config::kFileBytesMax;
    if (arguments.body == config::kStandardInput && arguments.file == config::kStandardInput) {
        return "standard input is either the configuration or the body";
    }
    auto body = read_body_file(arguments.body, kInputMax);
    if (!body) return body.error();
    if (body->is_larger) return "a body has at most 65 MiB here";
    question.body = std::move(body->text);
    return {};
}

int run_explain_call(const ExplainArguments& arguments,
                     const std::shared_ptr<const config::Config>& config,
                     const config::Listen& listen) {
    if (const std::string objection = objection_to_call(arguments); !objection.empty()) {
        return complain(exit_code::kWrongUse, objection);
    }
    const auto body = read_body_file(arguments.body, faces::kCheckBytesMax);
    if (!body) return complain(exit_code::kWrongUse, body.error());
    if (body->is_larger || body->text.size() > faces::kCheckBytesMax) {
        return complain(exit_code::kWrongUse,
                        fmt::format("a call has at most {} bytes", faces::kCheckBytesMax));
    }
    const CallQuestion question{listen, parse_scoped_ip(arguments.from),
                                arguments.question.target == "/v1/reserve", body->text};
    return print_explanation(arguments, explain_call(config, question, fetch_keys));
}

// The first certificate of a file is the client's, as in its handshake.
Result<ClientCertificate, std::string> read_certificate(const std::string& path) {
    const auto file = config::read_named_file(path);
    if (!file) return ErrorMessage{fmt::format("{}: {}", quote(path), file.error())};
    const auto chain = parse_certificates(file->text);
    if (!chain) return ErrorMessage{fmt::format("{} {}", quote(path), chain.error())};
    return read_client_certificate(*chain->front());
}

// Prints the explanation. Returns the exit code: 1 when the configuration has a fault. What the
// proxy would refuse is explained like anything else.
int run_explain(const ExplainArguments& arguments) {
    const auto config = load_or_complain(arguments.file);
    if (!config) return exit_code::kRefused;
    const ChosenListener listener = choose_listener(arguments, *config);
    if (!listener) return complain(exit_code::kWrongUse, listener.error());
    ExplainQuestion question = arguments.question;
    if (*listener) {
        const config::Listen& listen = config->listen[**listener];
        const std::string objection = objection_to_peer_of(arguments, listen);
        if (!objection.empty()) return complain(exit_code::kWrongUse, objection);
        if (listen.face == Face::check) return run_explain_call(arguments, config, listen);
        if (listen.face == Face::envoy_grpc && config->routes.empty()) {
            return complain(exit_code::kWrongUse,
                            fmt::format("{} has `rls` and no limits on requests, and descriptors "
                                        "are not explained: a call of ShouldRateLimit whose "
                                        "descriptor has `hits_addend` 0 only asks",
                                        arguments.file));
        }
        if (question.is_http2 && !listen.takes_http2) {
            return complain(exit_code::kWrongUse,
                            fmt::format("{} does not speak HTTP/2: its `http` does not list `h2`; "
                                        "leave out --http2",
                                        listen.address.to_string()));
        }
        question.face = listen.face;
        question.listener = *listener;
    }
    if (!arguments.method.empty()) question.method = arguments.method;
    if (!arguments.body.empty()) {
        if (arguments.method.empty()) question.method = "POST";
        const std::string objection = read_body_of(arguments, question);
        if (!objection.empty()) return complain(exit_code::kWrongUse, objection);
    }
    if (!arguments.certificate.empty()) {
        if (question.face != Face::proxy) {
            return complain(exit_code::kWrongUse,
                            "--certificate is for --face proxy: a gateway's certificate is not "
                            "that of its client");
        }
        auto certificate = read_certificate(arguments.certificate);
        if (!certificate) return complain(exit_code::kWrongUse, certificate.error());
        question.certificate = std::move(*certificate);
    }
    if (!arguments.host.empty()) question.host = arguments.host;
    if (!arguments.from.empty()) question.from = parse_scoped_ip(arguments.from);
    return print_explanation(arguments, explain(config, question, fetch_keys));
}

}  // namespace

Command explain_command(CLI::App& app) {
    const auto arguments = std::make_shared<ExplainArguments>();
    CLI::App* const explain =
        app.add_subcommand("explain", "Show how the proxy decides a request, and why");
    explain
        ->add_option("-c,--config", arguments->file,
                     fmt::format("The configuration (default {})", kDefaultFile))
        ->option_text("FILE");
    explain->add_option("--method", arguments->method, "Its method (default GET; POST with --body)")
        ->option_text("METHOD")
        ->check(objection_to_line_end);
    explain->add_option("--path", arguments->question.target, "Its path and query (default /)")
        ->option_text("PATH")
        ->check(objection_to_line_end)
        ->check(objection_to_path);
    explain->add_option("--host", arguments->host, "Its host (default localhost)")
        ->option_text("HOST")
        ->check(objection_to_line_end);
    explain->add_option("--header", arguments->question.fields, "One of its fields; repeatable")
        ->option_text("'NAME: VALUE'")
        ->allow_extra_args(false)
        ->check(objection_to_line_end)
        ->check(objection_to_field);
    explain->add_flag("--http2", arguments->question.is_http2,
                      "It comes over HTTP/2 instead of HTTP/1.1");
    CLI::Option* const from =
        explain
            ->add_option("--from", arguments->from,
                         "The address it comes from; with `proxy_protocol`, that of the header")
            ->option_text("ADDRESS")
            ->check(objection_to_peer);
    explain
        ->add_flag("--trusted-socket", arguments->trusted_socket,
                   "It comes over a Unix socket with `trusted: on` instead")
        ->excludes(from);
    explain
        ->add_option(
            "--face", arguments->face,
            "How Tidegate is asked: proxy (default); forward_auth, where the fields are those "
            "that the gateway sends; envoy_grpc, where it is the request that Envoy asks about; or "
            "check, with --body")
        ->option_text("FACE")
        ->check(CLI::IsMember({to_string(Face::proxy), to_string(Face::forward_auth),
                               to_string(Face::envoy_grpc), to_string(Face::check)}));
    explain
        ->add_option("--listen", arguments->listen,
                     "The address of the listener, if several have the face")
        ->option_text("ADDRESS")
        ->check(objection_to_address);
    explain
        ->add_option("--body", arguments->body,
                     "Its body, or with --face check the call, as JSON; `-` is standard input")
        ->option_text("FILE");
    explain
        ->add_option("--certificate", arguments->certificate,
                     "The client certificate that it shows, as PEM; taken as verified")
        ->option_text("FILE");
    explain->add_flag("--json", arguments->as_json, "Print an object for programs");
    explain->footer(kExplainFooter);
    explain->final_callback([arguments] {
        // The configuration of a listener says whether its peers have addresses.
        const bool may_lack_peer =
            !arguments->listen.empty() || arguments->face == to_string(Face::check);
        if (!may_lack_peer && !arguments->trusted_socket && arguments->from.empty()) {
            throw CLI::RequiredError("--from or --trusted-socket");
        }
    });
    return {explain, [arguments] { return run_explain(*arguments); }};
}

}  // namespace tidegate::cli
