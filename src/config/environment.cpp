#include "config/environment.hpp"

#include <cstdlib>

#include "base/utf8.hpp"
#include "config/error_message.hpp"

namespace tidegate::config {

namespace {

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool is_variable_name(std::string_view name) {
    if (name.empty() || !is_letter(name.front())) return false;
    for (const char c : name) {
        if (!is_letter(c) && !(c >= '0' && c <= '9')) return false;
    }
    return true;
}

// `reference` is the text between `${` and `}`.
Result<Expanded, std::string> look_up(std::string_view reference, Environment environment) {
    const std::size_t colon = reference.find(":-");
    const std::string_view name = reference.substr(0, colon);
    const bool has_default = colon != std::string_view::npos;
    if (!is_variable_name(name)) {
        return ErrorMessage{quote("${" + std::string(reference) + "}") +
                            " is not `${NAME}` or `${NAME:-default}`; write `$$` for a dollar"};
    }
    std::optional<std::string> value = environment(name);
    if (has_default && (!value || value->empty())) {
        return Expanded{std::string(reference.substr(colon + 2))};
    }
    if (!value) {
        return ErrorMessage{"the environment variable " + quote(name) +
                            " is not set; set it, or write a default: " +
                            quote("${" + std::string(name) + ":-...}")};
    }
    return Expanded{std::move(*value)};
}

}  // namespace

std::optional<std::string> process_environment(std::string_view name) {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
}

Result<Expanded, std::string> expand(std::string_view text, Environment environment) {
    Expanded out;
    while (!text.empty()) {
        const std::size_t dollar = text.find('$');
        out.text += text.substr(0, dollar);
        if (dollar == std::string_view::npos) break;
        text.remove_prefix(dollar);
        if (text.starts_with("$$")) {
            out.text += '$';
            text.remove_prefix(2);
        } else if (text.starts_with("${")) {
            const std::size_t end = text.find('}');
            if (end == std::string_view::npos) {
                return ErrorMessage{"`${` without `}`; write `$$` for a dollar"};
            }
            auto value = look_up(text.substr(2, end - 2), environment);
            if (!value) return value;
            out.text += value->text;
            text.remove_prefix(end + 1);
        } else {
            out.text += '$';
            text.remove_prefix(1);
        }
    }
    return out;
}

}  // namespace tidegate::config
