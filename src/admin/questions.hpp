// What a running proxy can be asked. A row is a path of the admin API and the command that asks it.
//
// answer.cpp routes requests by the rows, guards them and reads their queries. The command line
// (cli/admin_commands.cpp) makes commands, help, completions and the manual page of the rows.
#pragma once

#include <chrono>
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
    std::string_view name;  // in the query, `by`; the option is `--by`
    // All values that there are; the first is the default. None: the parameter may be any text, is
    // required, and is the argument of the command.
    std::span<const std::string_view> choices{};
    std::string_view what{};        // for help
    std::string_view value{};       // what help calls the value
    std::string_view when_empty{};  // what to do about an empty argument; an example follows
    std::string_view example{};
};

// How `--follow` goes on with the new entries of a list.
struct FollowedList {
    const char* member = nullptr;  // of the JSON answer; its entries have `id` and `time_ms`
    std::string_view what{};       // for help
    std::string (*heading)() = nullptr;
    std::string (*line)(const Doc::Json& entry) = nullptr;
    std::string_view when_off{};  // to say where the answer has `"enabled": false`
};

struct AdminQuestion {
    enum class Access { look, change, change_from_dashboard };

    std::string_view path;
    // Called when the request is permitted. `value` is that of the parameter.
    AdminAnswer (*answer)(const AdminSources&, const AdminRequest&, std::string value);
    Access access = Access::look;
    AdminParameter parameter{};

    std::string_view command{};  // empty: no command asks this
    // An option of the command, `--upstreams`, that asks this in place of what the command asks.
    std::string_view in_place{};
    std::string_view what{};         // for help
    std::string_view footer{};       // likewise, below the options
    std::string_view json_option{};  // what help says of `--json`; empty: there is none
    std::chrono::seconds patience{3};
    const char* member = nullptr;  // that the JSON answers of all versions have
    FollowedList followed{};
};

std::span<const AdminQuestion> questions();

// The answer with both of `doc`: JSON, and text for those who ask for it.
AdminAnswer answer_of(const Doc& doc);

// What the reader of a configuration found, as people read it: `file:line:column: error: message`
// as compilers and editors have it, faults first.
std::vector<std::string> diagnostic_lines(const std::vector<config::Diagnostic>& errors,
                                          const std::vector<config::Diagnostic>& warnings);
// For programs: a list, in which `line` and `column` are only where there is a place.
Doc::Json diagnostics_json(const std::vector<config::Diagnostic>& found);

}  // namespace tidegate::admin
