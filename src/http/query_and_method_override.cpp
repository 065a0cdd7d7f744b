#include "http/query_and_method_override.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "http/field.hpp"

namespace tidegate::http {

namespace {

constexpr auto kRegistered = std::to_array<std::string_view>({"GET",
                                                              "HEAD",
                                                              "POST",
                                                              "PUT",
                                                              "DELETE",
                                                              "CONNECT",
                                                              "OPTIONS",
                                                              "TRACE",
                                                              "PATCH",
                                                              "ACL",
                                                              "BASELINE-CONTROL",
                                                              "BIND",
                                                              "CHECKIN",
                                                              "CHECKOUT",
                                                              "COPY",
                                                              "LABEL",
                                                              "LINK",
                                                              "LOCK",
                                                              "MERGE",
                                                              "MKACTIVITY",
                                                              "MKCALENDAR",
                                                              "MKCOL",
                                                              "MKREDIRECTREF",
                                                              "MKWORKSPACE",
                                                              "MOVE",
                                                              "ORDERPATCH",
                                                              "PRI",
                                                              "PROPFIND",
                                                              "PROPPATCH",
                                                              "QUERY",
                                                              "REBIND",
                                                              "REPORT",
                                                              "SEARCH",
                                                              "UNBIND",
                                                              "UNCHECKOUT",
                                                              "UNLINK",
                                                              "UNLOCK",
                                                              "UPDATE",
                                                              "UPDATEREDIRECTREF",
                                                              "VERSION-CONTROL"});

template <std::size_t n>
bool has_like(const std::array<std::string_view, n>& names, std::string_view name) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view one) { return equal_as_variable(one, name); });
}

// Decodes as forms are (application/x-www-form-urlencoded). False for a malformed `%`, `%00` (at
// which some readers end the text) and what is not UTF-8: some readers keep that as it is, others
// leave it out, others put something in its place.
bool decode_form(std::string_view text, std::string& out) {
    out.clear();
    bool ascii = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            ascii = ascii && static_cast<unsigned char>(text[i]) < 0x80;
            out += text[i] == '+' ? ' ' : text[i];
            continue;
        }
        if (text.size() - i < 3) return false;
        const int byte = hex_byte(text[i + 1], text[i + 2]);
        if (byte <= 0) return false;
        ascii = ascii && byte < 0x80;
        out += static_cast<char>(byte);
        i += 2;
    }
    return ascii || is_utf8(out);
}

// The comparison of the least exact servers: PHP takes `.`, a space and a `[` that nothing closes
// for `_`, others ignore case.
char loosely(char c) {
    if (c == '.' || c == ' ' || c == '[') return '_';
    return to_lower(c);
}

bool same_loosely(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return loosely(x) == loosely(y); });
}

// Whether some reader takes `written`, decoded, for `name`. PHP passes over spaces before a name,
// qs and Rack over brackets, others over a `?`; all take what is before a bracket for the name of a
// list.
bool decoded_could_be(std::string_view written, std::string_view name) {
    if (written.size() < name.size()) return false;
    if (same_loosely(written, name)) return true;
    const std::size_t first = written.find_first_not_of(" []?");
    if (first == written.npos) return false;
    written.remove_prefix(first);
    if (same_loosely(written, name)) return true;
    written = written.substr(0, written.find_first_of("[]"));
    return same_loosely(written.substr(0, written.find_last_not_of(' ') + 1), name);
}

// qs ends a name at the first `]=`, however many `=` are before it.
bool is_split_by_bracket(std::string_view value) {
    return value.find("]=") != value.npos || value.find("%5D=") != value.npos ||
           value.find("%5d=") != value.npos;
}

// Reads the parameters of one query for one name.
class QueryReader {
  public:
    explicit QueryReader(std::string_view name) : name_(name) {}

    // `separators` are what ends a parameter.
    RequestValue read(std::string_view query, std::string_view separators) {
        stated_ = {};
        found_ = false;
        for (std::size_t count = 0; !query.empty(); ++count) {
            const std::size_t end = std::min(query.find_first_of(separators), query.size());
            if (count == kParametersMax || !note(query.substr(0, end))) {
                return {RequestValue::How::unclear, {}};
            }
            query.remove_prefix(std::min(end + 1, query.size()));
        }
        return std::move(stated_);
    }

  private:
    // False when the query is unclear.
    bool note(std::string_view parameter) {
        const std::size_t equals = std::min(parameter.find('='), parameter.size());
        if (!decode_form(parameter.substr(0, equals), decoded_) || has_control(decoded_)) {
            return false;
        }
        if (!decoded_could_be(decoded_, name_)) return true;
        if (found_ || decoded_ != name_) return false;
        found_ = true;
        const auto value = parameter.substr(std::min(equals + 1, parameter.size()));
        if (is_split_by_bracket(value) || !decode_form(value, decoded_)) return false;
        if (!decoded_.empty()) stated_ = {RequestValue::How::once, decoded_};
        return true;
    }

    std::string_view name_;
    std::string decoded_;
    RequestValue stated_;
    bool found_ = false;
};

}  // namespace

std::string_view registered_method(std::string_view method) {
    const auto* found = std::find_if(
        kRegistered.begin(), kRegistered.end(),
        [&](std::string_view registered) { return equal_ignoring_case(registered, method); });
    return found == kRegistered.end() ? std::string_view{} : *found;
}

RequestOverride find_override(std::string_view name) {
    if (has_like(kMethodOverrides, name)) return RequestOverride::method;
    return has_like(kTargetOverrides, name) ? RequestOverride::target : RequestOverride::none;
}

RequestValue value_in_fields(const Fields& fields, std::string_view name) {
    const Field* found = nullptr;
    for (const Field& field : fields) {
        if (!equal_as_variable(field.name, name)) continue;
        if (field.id == FieldName::named_by_connection) continue;
        if (found != nullptr || !equal_ignoring_case(field.name, name)) {
            return {RequestValue::How::unclear, {}};
        }
        found = &field;
    }
    if (found == nullptr || found->value.empty()) return {};
    return {RequestValue::How::once, std::string(found->value)};
}

bool is_unclear_in_fields(const Fields& fields, std::string_view name) {
    bool found = false;
    for (const Field& field : fields) {
        if (!equal_as_variable(field.name, name)) continue;
        if (found || field.id == FieldName::named_by_connection ||
            !equal_ignoring_case(field.name, name)) {
            return true;
        }
        found = true;
    }
    return false;
}

bool could_be_read_as(std::string_view written, std::string_view name) {
    const std::size_t encoded = written.find_first_of("%+");
    if (encoded == written.npos) return decoded_could_be(written, name);
    std::string decoded;
    if (decode_form(written, decoded)) return decoded_could_be(decoded, name);
    return decoded_could_be(written.substr(0, written.find('%')), name);
}

bool could_have_parameter(std::string_view query, std::string_view name) {
    while (!query.empty()) {
        const std::string_view parameter = query.substr(0, query.find_first_of("&;"));
        if (could_be_read_as(parameter.substr(0, parameter.find('=')), name)) return true;
        query.remove_prefix(std::min(parameter.size() + 1, query.size()));
    }
    return false;
}

RequestValue value_in_query(std::string_view query, std::string_view name) {
    if (query.starts_with('?')) query.remove_prefix(1);
    QueryReader reader(name);
    RequestValue stated = reader.read(query, "&");
    if (stated.how == RequestValue::How::unclear || query.find(';') == query.npos) return stated;
    const RequestValue other = reader.read(query, "&;");
    if (other.how == stated.how && other.value == stated.value) return stated;
    return {RequestValue::How::unclear, {}};
}

}  // namespace tidegate::http
