#include "cli/explain_command.hpp"

#include <exception>
#include <memory>

#include <fmt/format.h>

#include "app/jwks_fetcher.hpp"
#include "base/quote.hpp"
#include "cli/config_report.hpp"
#include "cli/exit_code.hpp"
#include "net/asio.hpp"

namespace tidegate::cli {

namespace {

constexpr const char* kExplainFooter =
    R"(The request is not sent, and no limit is charged. It is read as strictly as the
proxy reads it: what would be refused is refused here, with the reason. Keys at a
URL are fetched if the request has a token.

  tidegate explain -c tidegate.yaml --path /v1/search --from 203.0.113.7
  tidegate explain --from 10.0.0.1 --header 'X-Forwarded-For: 203.0.113.7'

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

}  // namespace

CLI::App* describe_explain(CLI::App& app, const std::string& default_file,
                           ExplainArguments& arguments) {
    arguments.file = default_file;
    CLI::App* const explain =
        app.add_subcommand("explain", "Show how the proxy decides a request, and why");
    explain
        ->add_option("-c,--config", arguments.file,
                     fmt::format("The configuration (default {})", default_file))
        ->option_text("FILE");
    explain->add_option("--method", arguments.question.method, "Its method (default GET)")
        ->option_text("METHOD")
        ->check(objection_to_line_end);
    explain->add_option("--path", arguments.question.target, "Its path and query (default /)")
        ->option_text("PATH")
        ->check(objection_to_line_end)
        ->check(objection_to_path);
    explain->add_option("--host", arguments.host, "Its host (default localhost)")
        ->option_text("HOST")
        ->check(objection_to_line_end);
    explain->add_option("--header", arguments.question.fields, "One of its fields; repeatable")
        ->option_text("'NAME: VALUE'")
        ->allow_extra_args(false)
        ->check(objection_to_line_end)
        ->check(objection_to_field);
    CLI::Option* const from =
        explain->add_option("--from", arguments.from, "The address it comes from")
            ->option_text("ADDRESS")
            ->check(objection_to_peer);
    explain
        ->add_flag("--trusted-socket", arguments.trusted_socket,
                   "It comes over a Unix socket with `trusted: on` instead")
        ->excludes(from);
    explain
        ->add_option(
            "--face", arguments.face,
            "How Tidegate is asked: proxy (default), or forward_auth, where the fields are "
            "those that the gateway sends")
        ->option_text("FACE")
        ->check(CLI::IsMember({to_string(Face::proxy), to_string(Face::forward_auth)}));
    explain->add_flag("--json", arguments.as_json, "Print an object for programs");
    explain->footer(kExplainFooter);
    explain->final_callback([&arguments] {
        if (!arguments.trusted_socket && arguments.from.empty()) {
            throw CLI::RequiredError("--from or --trusted-socket");
        }
    });
    return explain;
}

int run_explain(const ExplainArguments& arguments) {
    const config::Loaded loaded = config::load_file(arguments.file);
    if (!loaded.config) {
        fmt::print(stderr, "{}{}\n", report(loaded), summary(loaded));
        return 1;
    }
    Question question = arguments.question;
    if (!arguments.host.empty()) question.host = arguments.host;
    if (!arguments.trusted_socket) question.from = parse_scoped_ip(arguments.from);
    if (arguments.face == to_string(Face::forward_auth)) question.face = Face::forward_auth;
    if (question.face != Face::proxy && !loaded.config->has_face(question.face)) {
        return complain(exit_code::kWrongUse,
                        fmt::format("no listener of {} has `face: {}`", arguments.file,
                                    to_string(question.face)));
    }
    const Explanation explanation = explain(loaded.config, question, fetch_keys);
    fmt::print("{}",
               arguments.as_json ? explanation_json(explanation) : explanation_text(explanation));
    return 0;
}

}  // namespace tidegate::cli
