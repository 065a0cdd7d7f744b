// `log`: the access log and the level of the error log.
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

void read_access(const Value& value, Log& log) {
    if (value.is_off()) {
        log.access_path.clear();
        return;
    }
    Section section(value, "`off` or a map: `{path: \"-\", format: json}`");
    if (const auto path = section.find("path")) {
        if (path->is_off()) {
            path->fault(
                "write a path, or `-` for standard output; `access: off` turns the access log off");
        } else if (const auto text = path->text("a path, or `-` for standard output")) {
            log.access_path = *text == "-" ? *text : value.context().resolve(*text);
        }
    }
    section.choice<bool>("format", log.access_json, {{"json", true}, {"text", false}});
    if (const auto sample = section.find("sample")) {
        if (const auto share = sample->fraction()) log.sample = *share;
    }
    section.refuse_others();
}

}  // namespace

void read_log(const Value& value, Config& config) {
    Section section(value);
    if (const auto access = section.find("access")) read_access(*access, config.log);
    section.choice<LogLevel>("level", config.log.level,
                             {{"debug", LogLevel::debug},
                              {"info", LogLevel::info},
                              {"warn", LogLevel::warn},
                              {"error", LogLevel::error}});
    section.refuse_others();
}

}  // namespace tidegate::config
