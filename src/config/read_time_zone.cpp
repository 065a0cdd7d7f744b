// `time_zone` of a limit: the file of its zone.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/files.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "limit/limit.hpp"
#include "limit/time_zone.hpp"

namespace tidegate::config {

namespace {

// Files beside the zones that name none of a place. What to write instead; empty: it is no such
// file.
std::string why_no_zone(std::string_view name) {
    for (const std::string_view copies : {"posix/", "right/"}) {
        if (!name.starts_with(copies)) continue;
        const std::string_view rest = name.substr(copies.size());
        std::string why = why_no_zone(rest);
        if (!why.empty()) return why;
        return "leave out " + quote(copies) + ": write " + quote(rest);
    }
    if (name == "localtime") {
        return "`localtime` is the zone of the machine, and each may have another: write the name "
               "of the zone that is meant, such as `Europe/Berlin`";
    }
    if (name == "posixrules" || name == "Factory") {
        return quote(name) +
               " is no zone of a place: write a name of the tz database such as `Europe/Berlin`";
    }
    return {};
}

// The zones below `folder`, for a suggestion. There are some 600; of others that do not fit into
// the bound, none is suggested.
std::vector<std::string> time_zones_in(const std::string& folder) {
    constexpr std::size_t kLookedAtMost = 5'000;
    namespace fs = std::filesystem;
    std::vector<std::string> names;
    std::error_code ec;
    fs::recursive_directory_iterator file(folder, ec);
    for (std::size_t looked_at = 0; !ec && file != fs::end(file) && looked_at < kLookedAtMost;
         file.increment(ec), ++looked_at) {
        const std::string name = file->path().lexically_relative(folder).string();
        if (name == "right" || name == "posix") file.disable_recursion_pending();
        if (limit::is_time_zone_name(name) && why_no_zone(name).empty() &&
            file->is_regular_file(ec)) {
            names.push_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

// `Europe/Berlin` for `Europe/Berln`, `europe/berlin` and `Berlin`; empty: none is near.
std::string meant_time_zone(const std::string& name, const std::string& folder) {
    const std::vector<std::string> names = time_zones_in(folder);
    const std::string lower = to_lower(name);
    const auto same = std::find_if(names.begin(), names.end(), [&](const std::string& one) {
        const std::string known = to_lower(one);
        return known == lower || known.ends_with('/' + lower);
    });
    if (same != names.end()) return *same;
    const std::string_view near = nearest(name, {names.begin(), names.end()});
    // A continent is the beginning of many names, none of which is nearer than the others.
    return name.size() + 3 < near.size() ? std::string() : std::string(near);
}

}  // namespace

Result<std::shared_ptr<const limit::TimeZone>, std::string> load_time_zone(
    const std::string& name, std::string folder, std::vector<FileRead>* files) {
    if (std::string why = why_no_zone(name); !why.empty()) return ErrorMessage{std::move(why)};
    if (folder.empty()) folder = "/usr/share/zoneinfo";
    std::error_code ec;
    if (!std::filesystem::is_directory(folder, ec)) {
        return ErrorMessage{
            "there are no time zones: install the package `tzdata`, which makes the folder " +
            quote(folder)};
    }
    const std::string path = folder + '/' + name;
    const bool may_be_one =
        limit::is_time_zone_name(name) && std::filesystem::is_regular_file(path, ec);
    if (!may_be_one) {
        const std::string meant = meant_time_zone(name, folder);
        return ErrorMessage{"the system has no time zone " + quote(name) +
                            (meant.empty()
                                 ? ": write a name of the tz database such as `Europe/Berlin`"
                                 : "; did you mean " + quote(meant) + "?")};
    }
    const auto file = read_file_text(path, limit::kTimeZoneBytesMax, FileKind::no_device);
    if (files != nullptr) {
        note_file(path, file ? std::optional<std::string_view>(file->text) : std::nullopt, *files);
    }
    if (!file) {
        return ErrorMessage{"the file " + quote(path) + " cannot be read: " + file.error()};
    }
    auto zone = limit::TimeZone::parse(file->text);
    if (!zone) return ErrorMessage{"the file " + quote(path) + ' ' + zone.error()};
    return std::make_shared<const limit::TimeZone>(std::move(*zone));
}

void read_time_zone(const Value& value, limit::LimitSpec& spec) {
    const auto name = value.text("the name of a time zone such as `Europe/Berlin`");
    if (!name) return;
    spec.time_zone = *name;
    Context& context = value.context();
    auto zone =
        load_time_zone(*name, context.environment("TZDIR").value_or(""), &context.files_read);
    if (!zone) {
        value.fault(zone.error());
        return;
    }
    spec.zone = std::move(*zone);
}

}  // namespace tidegate::config
