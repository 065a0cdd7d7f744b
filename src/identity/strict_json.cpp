#include "identity/strict_json.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>  // the library itself, in this file for the whole program
#include <boost/json/value_stack.hpp>

namespace tidegate::identity {
namespace {

namespace json = boost::json;
using json::error_code;
using json::string_view;

// Makes a value of what the parser finds, and counts: in the value a name that stands twice is
// there once.
struct Builder {
    static constexpr std::size_t max_object_size = SIZE_MAX;
    static constexpr std::size_t max_array_size = SIZE_MAX;
    static constexpr std::size_t max_key_size = SIZE_MAX;
    static constexpr std::size_t max_string_size = SIZE_MAX;

    json::value_stack stack;
    std::size_t members = 0;  // of all objects

    bool on_document_begin(error_code&) {
        stack.reset();
        return true;
    }
    bool on_document_end(error_code&) { return true; }
    bool on_object_begin(error_code&) { return true; }
    bool on_object_end(std::size_t count, error_code&) {
        members += count;
        stack.push_object(count);
        return true;
    }
    bool on_array_begin(error_code&) { return true; }
    bool on_array_end(std::size_t count, error_code&) {
        stack.push_array(count);
        return true;
    }
    bool on_key_part(string_view part, std::size_t, error_code&) {
        stack.push_chars(part);
        return true;
    }
    bool on_key(string_view part, std::size_t, error_code&) {
        stack.push_key(part);
        return true;
    }
    bool on_string_part(string_view part, std::size_t, error_code&) {
        stack.push_chars(part);
        return true;
    }
    bool on_string(string_view part, std::size_t, error_code&) {
        stack.push_string(part);
        return true;
    }
    bool on_number_part(string_view, error_code&) { return true; }
    bool on_int64(std::int64_t number, string_view, error_code&) {
        stack.push_int64(number);
        return true;
    }
    bool on_uint64(std::uint64_t number, string_view, error_code&) {
        stack.push_uint64(number);
        return true;
    }
    bool on_double(double number, string_view, error_code&) {
        stack.push_double(number);
        return true;
    }
    bool on_bool(bool value, error_code&) {
        stack.push_bool(value);
        return true;
    }
    bool on_null(error_code&) {
        stack.push_null();
        return true;
    }
    bool on_comment_part(string_view, error_code&) { return true; }
    bool on_comment(string_view, error_code&) { return true; }
};

std::size_t members_in(const JsonValue& value) {
    std::size_t members = 0;
    if (const JsonArray* array = value.if_array()) {
        for (const JsonValue& element : *array) members += members_in(element);
    } else if (const JsonObject* object = value.if_object()) {
        members = object->size();
        for (const auto& member : *object) members += members_in(member.value());
    }
    return members;
}

std::string what_is_wrong(std::string_view text, std::size_t at, const error_code& ec) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size()));
    return "line " + std::to_string(std::count(text.begin(), end, '\n') + 1) + ": " +
           (ec == json::error::too_deep ? "nested too deeply" : "not JSON");
}

}  // namespace

Result<JsonObject, std::string> parse_json_object(std::string_view text) {
    json::parse_options options;
    options.max_depth = kJsonDepthMax;
    json::basic_parser<Builder> parser(options);
    error_code ec;
    const std::size_t read = parser.write_some(false, text.data(), text.size(), ec);
    if (ec) return what_is_wrong(text, read, ec);
    if (read < text.size()) return what_is_wrong(text, read, json::error::extra_data);
    JsonValue value = parser.handler().stack.release();
    if (!value.is_object()) return std::string("not an object: `{...}`");
    if (members_in(value) != parser.handler().members)
        return std::string("a name stands twice in an object");
    return std::move(value.get_object());
}

std::optional<std::string_view> string_member(const JsonObject& object, std::string_view name) {
    const JsonValue* member = object.if_contains(name);
    if (member == nullptr || !member->is_string()) return std::nullopt;
    return text_of(*member);
}

std::string_view text_of(const JsonValue& string) {
    const json::string& text = string.get_string();
    return {text.data(), text.size()};
}

}  // namespace tidegate::identity
