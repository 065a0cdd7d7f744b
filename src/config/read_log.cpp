// `log`: the access log and the level of the error log.
#include <filesystem>
#include <system_error>

#include "base/file_work.hpp"
#include "base/quote.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

// No fault: the configuration may be checked on another machine than the proxy's.
void warn_if_folder_is_missing(const Value& value, const std::string& path) {
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    if (path == "-" || folder.empty()) return;
    std::error_code ec;
    const FileWait wait(path);
    if (std::filesystem::status(folder, ec).type() != std::filesystem::file_type::not_found) return;
    value.warn("the folder " + quote(folder.string()) +
               " does not exist: create it, or Tidegate does not start");
}

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
            warn_if_folder_is_missing(*path, log.access_path);
        }
    }
    section.choice<LogFormat>(
        "format", log.access_format,
        {{"json", LogFormat::json}, {"text", LogFormat::text}, {"logfmt", LogFormat::logfmt}});
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
