// The answers to `/api/config`, and to what changes the configuration.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "admin/api_paths.hpp"
#include "base/doc.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "base/utf8.hpp"

namespace tidegate::admin {

namespace {

using Json = Doc::Json;

constexpr std::size_t kFlowBytesMax = 80;

// YAML may read it as a number or a date.
bool looks_like_number(std::string_view text) {
    return text.find_first_not_of("0123456789.-+eE_") == std::string_view::npos &&
           std::count(text.begin(), text.end(), '.') < 2;
}

bool is_plain_text(std::string_view text) {
    if (text.empty() || looks_like_number(text) || text == "null") return false;
    const auto is_safe = [](char c) {
        return is_digit(c) || (to_lower(c) >= 'a' && to_lower(c) <= 'z') ||
               std::string_view("_-./:+%=@ ").find(c) != std::string_view::npos;
    };
    const auto is_first = [&](char c) {
        return is_safe(c) && c != '-' && c != ':' && c != '%' && c != '=' && c != '@' && c != ' ';
    };
    return is_first(text.front()) && std::all_of(text.begin(), text.end(), is_safe) &&
           text.back() != ':' && text.back() != ' ' && text.find(": ") == std::string_view::npos;
}

std::string yaml_text(std::string_view text) {
    return is_plain_text(text) ? std::string(text) : json_text(Json(text), {.ascii = true});
}

// Of a value that fits into a line; empty: it does not.
std::string yaml_in_line(const Json& value) {
    if (value.is_null()) return "null";
    if (value.is_string()) return yaml_text(value.get_ref<const std::string&>());
    if (!value.is_structured()) return json_text(value);
    if (value.empty()) return value.is_array() ? "[]" : "{}";
    if (value.is_object()) return {};
    std::string line = "[";
    for (const Json& item : value) {
        if (item.is_structured()) return {};
        line += (line.size() == 1 ? "" : ", ") + yaml_in_line(item);
        if (line.size() > kFlowBytesMax) return {};
    }
    return line + "]";
}

// Writes block style; configurations are at most config::kDepthMax deep.
class YamlLines {
  public:
    explicit YamlLines(Doc& doc) : doc_(doc) {}

    // `begin` is what the first line has before the value, and `indent` the spaces of the others.
    void add(const Json& value, std::string begin, const std::string& indent) {
        for (const auto& [key, below] : value.items()) {
            std::string name = value.is_array() ? "-" : yaml_text(key) + ":";
            std::string line = std::exchange(begin, indent) + name;
            const std::string text = yaml_in_line(below);
            if (!text.empty()) {
                doc_.line(line.append(" ").append(text));
            } else if (value.is_array()) {
                add(below, line.append(" "), indent + "  ");
            } else {
                doc_.line(line);
                add(below, indent + "  ", indent + "  ");
            }
        }
    }

  private:
    Doc& doc_;
};

}  // namespace

namespace {

std::string moment_of_reading(const ConfigInForce& in_force) {
    return format_timestamp(
        std::chrono::floor<std::chrono::seconds>(in_force.read_at.time_since_epoch()));
}

// `json` as a Doc writes it: what is not ASCII stands in strings, and is escaped there.
std::string in_ascii(std::string_view json) {
    constexpr char32_t kTwoUnits = 0x10000;
    const auto is_plain = [](char c) { return static_cast<unsigned char>(c) < 0x7f; };
    std::string out;
    out.reserve(json.size());
    while (!json.empty()) {
        const auto* const end = std::find_if_not(json.begin(), json.end(), is_plain);
        const auto plain = static_cast<std::size_t>(end - json.begin());
        out.append(json.substr(0, plain));
        json.remove_prefix(plain);
        if (json.empty()) break;
        const std::size_t size = utf8_length(json);
        const char32_t character = size == 0 ? 0xfffd : code_point(json.substr(0, size));
        const auto unit = [&](char32_t one) {
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(one));
        };
        if (character < kTwoUnits) {
            unit(character);
        } else {
            unit(0xd800 + ((character - kTwoUnits) >> 10));
            unit(0xdc00 + ((character - kTwoUnits) & 0x3ff));
        }
        json.remove_prefix(std::max<std::size_t>(size, 1));
    }
    return out;
}

}  // namespace

// A configuration may be long, and is JSON already.
AdminAnswer answer_to_config(const ConfigInForce& in_force) {
    const config::Config& config = *in_force.config;
    Doc doc;
    doc.json = {{"generation", in_force.generation},
                {"hash", config.shown.hash},
                {"file", config.source.file},
                {"read_at", moment_of_reading(in_force)},
                {"rolled_back", in_force.is_rolled_back},
                {"can_roll_back", in_force.has_former}};
    AdminAnswer answer = answer_of(doc);
    answer.body.resize(answer.body.rfind('}'));
    answer.body.append(",\"config\":").append(in_ascii(config.shown.json)).append("}\n");
    return answer;
}

AdminAnswer answer_to_config_in_yaml(const ConfigInForce& in_force) {
    const config::Config& config = *in_force.config;
    Doc doc;
    doc.line(fmt::format("# configuration {}, hash {}, read from {} at {}", in_force.generation,
                         config.shown.hash, config.source.file, moment_of_reading(in_force)));
    if (in_force.is_rolled_back) {
        doc.line("# put in force again by `tidegate rollback`: a reload reads the file");
    }
    YamlLines(doc).add(Json::parse(config.shown.json), "", "");
    return answer_of(doc);
}

namespace {

std::string diagnostic_line(const config::Diagnostic& found, std::string_view kind) {
    const std::string file = displayable(found.file);
    const std::string message = displayable(found.message);
    if (found.line == 0) return fmt::format("{}: {}: {}", file, kind, message);
    return fmt::format("{}:{}:{}: {}: {}", file, found.line, found.column, kind, message);
}

}  // namespace

std::vector<std::string> diagnostic_lines(const std::vector<config::Diagnostic>& errors,
                                          const std::vector<config::Diagnostic>& warnings) {
    std::vector<std::string> lines;
    lines.reserve(errors.size() + warnings.size());
    for (const config::Diagnostic& one : errors) lines.push_back(diagnostic_line(one, "error"));
    for (const config::Diagnostic& one : warnings) lines.push_back(diagnostic_line(one, "warning"));
    return lines;
}

Doc::Json diagnostics_json(const std::vector<config::Diagnostic>& found) {
    Doc::Json list = Doc::Json::array();
    for (const config::Diagnostic& one : found) {
        Doc::Json entry{{"file", one.file}};
        if (one.line != 0) {
            entry["line"] = one.line;
            entry["column"] = one.column;
        }
        entry["message"] = one.message;
        list.push_back(std::move(entry));
    }
    return list;
}

AdminAnswer answer_to_reload(const ReloadReport& report) {
    Doc doc;
    doc.json = {{"result", report.ok ? "ok" : "refused"}, {"generation", report.generation}};
    if (!report.hash.empty()) doc.json["hash"] = report.hash;
    if (!report.errors.empty()) doc.json["errors"] = diagnostics_json(report.errors);
    if (!report.warnings.empty()) doc.json["warnings"] = diagnostics_json(report.warnings);
    for (const std::string& line : diagnostic_lines(report.errors, report.warnings)) doc.line(line);
    if (report.ok) {
        doc.line(fmt::format("configuration {} is in force{}{}", report.generation,
                             report.hash.empty() ? "" : ", hash ", report.hash));
    } else {
        std::string found = counted(report.errors.size(), "error");
        if (!report.warnings.empty()) found += ", " + counted(report.warnings.size(), "warning");
        doc.line(
            fmt::format("{}: the proxy goes on with configuration {}", found, report.generation));
    }
    doc.exit_code = report.ok ? 0 : 1;
    AdminAnswer answer = answer_of(doc);
    answer.status = report.ok ? 200 : 409;
    return answer;
}

}  // namespace tidegate::admin
