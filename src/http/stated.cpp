#include "http/stated.hpp"

#include <algorithm>
#include <optional>

#include "http/framing.hpp"

namespace tidegate::http {

namespace {

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// As forms are decoded (application/x-www-form-urlencoded). Nothing for a malformed `%` and for
// `%00`, at which some would end the text.
std::optional<std::string> form_decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i] == '+' ? ' ' : text[i];
            continue;
        }
        if (text.size() - i < 3) return std::nullopt;
        const int high = hex_value(text[i + 1]);
        const int low = hex_value(text[i + 2]);
        if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return out;
}

// What the least exact of servers compare: PHP takes `.` and a space for `_`, others ignore case.
char loosely(char c) {
    if (c == '.' || c == ' ') return '_';
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool could_be_read_as(std::string_view written, std::string_view name) {
    if (written.size() > name.size() && written[name.size()] == '[') {
        written = written.substr(0, name.size());
    }
    return std::equal(written.begin(), written.end(), name.begin(), name.end(),
                      [](char a, char b) { return loosely(a) == loosely(b); });
}

void note(std::string_view parameter, std::string_view name, bool& found, Stated& stated) {
    const std::size_t equals = std::min(parameter.find('='), parameter.size());
    const auto written = form_decoded(parameter.substr(0, equals));
    if (!written || !could_be_read_as(*written, name)) return;
    auto value = form_decoded(parameter.substr(std::min(equals + 1, parameter.size())));
    if (found || *written != name || !value) {
        stated = {Stated::How::unclear, {}};
    } else if (!value->empty()) {
        stated = {Stated::How::once, std::move(*value)};
    }
    found = true;
}

// `separators` are what ends a parameter.
Stated read_query(std::string_view query, std::string_view name, std::string_view separators) {
    Stated stated;
    bool found = false;
    while (!query.empty() && stated.how != Stated::How::unclear) {
        const std::size_t end = std::min(query.find_first_of(separators), query.size());
        note(query.substr(0, end), name, found, stated);
        query.remove_prefix(std::min(end + 1, query.size()));
    }
    return stated;
}

}  // namespace

Stated stated_in_fields(const Fields& fields, std::string_view name, bool names_fields) {
    const Field* found = nullptr;
    for (const Field& field : fields) {
        if (!equal_as_variable(field.name, name)) continue;
        if (names_fields && connection_names(fields, field.name)) continue;
        if (found != nullptr || !equal_ignoring_case(field.name, name)) {
            return {Stated::How::unclear, {}};
        }
        found = &field;
    }
    if (found == nullptr || found->value.empty()) return {};
    return {Stated::How::once, std::string(found->value)};
}

Stated stated_in_query(std::string_view query, std::string_view name) {
    if (query.starts_with('?')) query.remove_prefix(1);
    Stated stated = read_query(query, name, "&");
    if (query.find(';') == query.npos) return stated;
    const Stated other = read_query(query, name, "&;");
    if (other.how == stated.how && other.value == stated.value) return stated;
    return {Stated::How::unclear, {}};
}

}  // namespace tidegate::http
