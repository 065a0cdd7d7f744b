#include "cli/admin_client.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "admin/answer.hpp"
#include "app/http_client.hpp"
#include "base/doc.hpp"
#include "base/json.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "cli/commands.hpp"
#include "cli/config_file.hpp"
#include "config/address.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "net/asio.hpp"

namespace tidegate::cli {

namespace {

using Reply = Result<AdminReply, std::string>;

// The largest answer: what a hundred policies count.
constexpr std::size_t kBodyBytesMax = std::size_t{16} << 20;
constexpr std::int64_t kExitCodeMax = 255;

std::string request_for(const AdminPlace& place, bool post, std::string_view target) {
    std::string request =
        fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", post ? "POST" : "GET",
                    target, place.address.is_unix() ? "localhost" : place.address.to_string());
    if (!place.token.empty()) request += "Authorization: Bearer " + place.token + "\r\n";
    if (post) request += "Content-Length: 0\r\n";
    return request + "\r\n";
}

Task<Reply> ask(Executor executor, AdminPlace place, bool post, std::string target,
                std::chrono::milliseconds patience) {
    using Fault = app::HttpAnswer::Fault;
    app::HttpClient client(executor, {.address = place.address});
    const std::string request = request_for(place, post, target);
    app::HttpAnswer answer = co_await client.call({.head = request,
                                                   .until = steady_now() + patience,
                                                   .body_bytes_max = kBodyBytesMax,
                                                   .field = admin::kExitCodeField});
    client.close();
    if (answer.fault != Fault::none) {
        co_return fmt::format("{} the admin listener on {}{}: {}",
                              answer.fault > Fault::connect ? "no answer from" : "cannot reach",
                              place.address.to_string(), place.origin,
                              answer.is_late ? "it does not answer" : answer.reason);
    }
    AdminReply reply{answer.status, std::move(answer.body)};
    const auto code = parse_decimal(answer.field);
    if (code && *code >= 0 && *code <= kExitCodeMax) reply.exit_code = static_cast<int>(*code);
    co_return reply;
}

}  // namespace

Reply ask_admin(const AdminPlace& place, bool post, std::string_view target,
                std::chrono::milliseconds patience) {
    asio::io_context io{1};
    AdminPlace reached = place;
    reached.address = config::reachable(place.address);
    std::optional<Reply> reply;
    spawn(io.get_executor(),
          ask(io.get_executor(), std::move(reached), post, std::string(target), patience),
          [&](const std::exception_ptr& failure, Reply answer) {
              if (failure) std::rethrow_exception(failure);
              reply = std::move(answer);
          });
    io.run();
    return std::move(*reply);
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view kUnreserved =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    std::string out;
    for (const char c : text) {
        if (kUnreserved.find(c) != std::string_view::npos) {
            out += c;
        } else {
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return out;
}

namespace {

constexpr const char* kDefaultAdmin = "127.0.0.1:9901";

ErrorMessage faulty_token_file(const std::string& file, std::string_view reason) {
    return {fmt::format("tidegate: --token-file: {}: {}", quote(file), reason)};
}

Result<FoundAdmin, std::string> admin_on_command_line(const AdminArguments& arguments) {
    FoundAdmin place{{*config::parse_listen_address(arguments.admin), {}, {}},
                     "name a file that holds it with --token-file",
                     "give the address that is in `admin`"};
    if (arguments.token_file.empty()) return place;
    place.token_advice = fmt::format("{} holds another token", quote(arguments.token_file));
    auto file = config::read_named_file(arguments.token_file);
    if (!file) return faulty_token_file(arguments.token_file, file.error());
    place.token = std::move(file->text);
    place.token.erase(place.token.find_last_not_of(" \t\r\n") + 1);
    if (place.token.empty()) return faulty_token_file(arguments.token_file, "the file is empty");
    return place;
}

std::string advice_about_token(const FoundAdmin& place, const std::string& where) {
    return place.token.empty()
               ? fmt::format("{} has no `admin.token`; name the file of the running proxy with -c",
                             where)
               : fmt::format(
                     "`admin.token` in {} is not the token of the running proxy; if you changed "
                     "it, reload the proxy (HUP)",
                     where);
}

}  // namespace

void add_admin_options(CLI::App& command, AdminArguments& arguments) {
    CLI::Option* const file =
        command
            .add_option("-c,--config", arguments.file,
                        fmt::format("The configuration (default {})", kDefaultFile))
            ->option_text("FILE");
    CLI::Option* const admin =
        command.add_option("--admin", arguments.admin, "The admin address, without configuration")
            ->option_text("ADDRESS")
            ->check(objection_to_address)
            ->excludes(file);
    command.add_option("--token-file", arguments.token_file, "A file with the admin token")
        ->option_text("FILE")
        ->needs(admin);
}

Result<FoundAdmin, std::string> find_admin(const AdminArguments& arguments) {
    if (!arguments.admin.empty()) return admin_on_command_line(arguments);
    if (arguments.file.empty() && !has_default_file()) {
        FoundAdmin place{{*config::parse_listen_address(kDefaultAdmin),
                          {},
                          fmt::format(" (the default; there is no {} here)", kDefaultFile)},
                         {},
                         "name the configuration of the running proxy with -c"};
        place.token_advice = advice_about_token(place, "the built-in quickstart");
        return place;
    }
    const std::string file = arguments.file.empty() ? kDefaultFile : arguments.file;
    config::LoadedAdmin loaded = config::load_admin(file);
    if (!loaded.errors.empty()) {
        config::Loaded refused;
        refused.errors = std::move(loaded.errors);
        return report(refused) + summary(refused);
    }
    if (!loaded.admin) return "the configuration " + quote(file) + " has `admin: off`";
    FoundAdmin place{{loaded.admin->address, loaded.admin->token, {}},
                     {},
                     fmt::format("start a Tidegate with {}, or name the configuration of the "
                                 "running one with -c",
                                 quote(file))};
    place.token_advice = advice_about_token(place, quote(file));
    return place;
}

bool is_admin_problem(const AdminReply& reply) {
    const auto problem = parse_json_object(reply.body);
    if (!problem) return false;
    const JsonValue* const type = find_member(*problem, "type");
    const JsonValue* const status = find_member(*problem, "status");
    return type != nullptr && *type == "about:blank" && status != nullptr &&
           *status == reply.status && find_member(*problem, "request_id") == nullptr;
}

std::string stranger_text(const FoundAdmin& place, const AdminReply& reply) {
    return fmt::format("{} answers {}, and is not Tidegate's admin listener: {}",
                       place.address.to_string(), reply.status, place.address_advice);
}

std::string refusal_text(const FoundAdmin& place, const AdminReply& reply) {
    if (!is_admin_problem(reply)) return stranger_text(place, reply);
    if (reply.status == 401) {
        return fmt::format("the admin listener on {} wants a token: {}", place.address.to_string(),
                           place.token_advice);
    }
    const auto problem = parse_json_object(reply.body);
    const JsonValue* const detail = find_member(*problem, "detail");
    if (detail != nullptr && detail->is_string() && !text_of(*detail).empty()) {
        return escaped_text(text_of(*detail));
    }
    return fmt::format("the admin listener answers {}", reply.status);
}

int complain_of_refusal(const FoundAdmin& place, const AdminReply& reply) {
    const bool is_wrong_use = reply.status == 400 && is_admin_problem(reply);
    const int code = is_wrong_use ? exit_code::kWrongUse : exit_code::kNoAnswer;
    return complain(code, refusal_text(place, reply));
}

std::string readiness_of(const std::string& body) {
    const auto answer = parse_json_object(body);
    if (!answer) return {};
    const std::string_view word = string_member(*answer, "status").value_or("");
    const bool is_known = word == "ready" || word == "starting" || word == "draining";
    return is_known ? std::string(word) : std::string();
}

}  // namespace tidegate::cli
