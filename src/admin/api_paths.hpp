// questions() lists the paths of the admin API and the commands that ask them, a row each.
//
// request_guard.cpp routes requests by the rows, guards them and reads their queries. The command
// line (cli/admin_commands.cpp) makes commands, help, completions and the manual page of the rows.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "admin/answer.hpp"
#include "base/doc.hpp"
#include "config/config.hpp"

namespace tidegate::admin {

// A parameter in the query of a path, and of the command that asks it.
struct AdminParameter {
    enum class Kind : std::uint8_t {
        argument,  // of the command; required
        option,    // `--policy NAME`
        flag,      // `--shadow`; in the query `shadow=on`
    };

    std::string_view name;  // in the query, `by`; the option is `--by`
    Kind kind = Kind::option;
    // All values that there are; the first is the default. If there are none, the parameter takes
    // any text.
    std::span<const std::string_view> choices{};
    std::string_view what{};        // for help
    std::string_view value{};       // what help calls the value
    std::string_view when_empty{};  // what to do about an empty value; an example follows
    std::string_view example{};
};

// The values of the parameters of a question, in their order. Empty: the query does not state it,
// or says that it is empty.
using AdminValues = std::vector<std::string>;

// A list of an answer whose new entries `--follow` goes on to print.
struct FollowedList {
    const char* member = nullptr;  // of the JSON answer; its entries have `id` and `time_ms`
    std::string_view what{};       // for help
    std::string (*heading)() = nullptr;
    std::string (*line)(const Doc::Json& entry) = nullptr;
    std::string_view when_off{};  // the message where the answer has `"enabled": false`
};

struct AdminQuestion {
    enum class Access { look, change, change_from_dashboard };

    std::string_view path;
    // Called when the request is permitted.
    AdminAnswer (*answer)(const AdminSources&, const AdminRequest&, const AdminValues&);
    Access access = Access::look;
    std::span<const AdminParameter> parameters{};

    std::string_view command{};  // empty if no command asks this
    // An option of the command, `--upstreams`, that asks this in place of what the command asks.
    std::string_view in_place{};
    std::string_view what{};         // for help
    std::string_view footer{};       // likewise, below the options
    std::string_view json_option{};  // what help says of `--json`; empty: there is none
    std::chrono::seconds patience{3};
    const char* member = nullptr;  // of the JSON, by which a command knows an answer without text
    FollowedList followed{};
};

std::span<const AdminQuestion> questions();

// The answer that has both forms of `doc`, and its exit code.
AdminAnswer answer_of(const Doc& doc);

// 200, or 409 if the reload was refused.
AdminAnswer answer_to_reload(const ReloadReport& report);

// The configuration in force as JSON, in `config`; without text.
AdminAnswer answer_to_config(const ConfigInForce& in_force);
// The text of that answer, which is YAML. Takes seconds for a configuration of megabytes. Any
// thread.
AdminAnswer answer_to_config_in_yaml(const ConfigInForce& in_force);

// Faults, then warnings, that the reader of a configuration found: `file:line:column: error:
// message`, as compilers and editors have it.
std::vector<std::string> diagnostic_lines(const std::vector<config::Diagnostic>& errors,
                                          const std::vector<config::Diagnostic>& warnings);
// The same for programs: a list, in which `line` and `column` are only where there is a place.
Doc::Json diagnostics_json(const std::vector<config::Diagnostic>& found);

}  // namespace tidegate::admin
