// How applications read one parameter of a query: models of those readers, written from their
// behaviour. A test holds Tidegate's reading against all of them.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

namespace tidegate::readers {

// A parameter as it appears in the application, by its outermost name.
struct Read {
    std::string name;
    std::string value;
    bool operator==(const Read&) const = default;
};
using MaybeRead = std::optional<Read>;
using Reader = MaybeRead (*)(std::string_view parameter);

// The value in place of a list or map.
inline const std::string kCollection = "<collection>";

inline int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

// `clean` becomes false if there is a `%` without two digits, which stays as it is.
inline std::string decoded(std::string_view text, bool& clean) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool escape = text[i] == '%';
        const bool whole =
            escape && i + 2 < text.size() && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0;
        clean = clean && (whole || !escape);
        if (!whole) {
            out += text[i] == '+' ? ' ' : text[i];
            continue;
        }
        out += static_cast<char>(hex(text[i + 1]) * 16 + hex(text[i + 2]));
        i += 2;
    }
    return out;
}

struct Halves {
    std::string_view name;
    std::string_view value;
};

inline Halves halves(std::string_view parameter) {
    const std::size_t equals = std::min(parameter.find('='), parameter.size());
    return {parameter.substr(0, equals), parameter.substr(std::min(equals + 1, parameter.size()))};
}

// Werkzeug, Django: as it is written; a malformed escape stays.
inline MaybeRead wsgi(std::string_view parameter) {
    bool clean = true;
    const auto [name, value] = halves(parameter);
    return Read{decoded(name, clean), decoded(value, clean)};
}

// Tomcat: leaves out a parameter that does not decode.
inline MaybeRead servlet(std::string_view parameter) {
    bool clean = true;
    const auto [name, value] = halves(parameter);
    Read read{decoded(name, clean), decoded(value, clean)};
    return clean ? MaybeRead(read) : std::nullopt;
}

// PHP ends the name at a NUL, passes over spaces before it, and takes spaces and dots in it for
// `_`, up to a bracket; and beyond one that is never closed.
inline MaybeRead php(std::string_view parameter) {
    bool clean = true;
    const auto [written, value] = halves(parameter);
    std::string name = decoded(written, clean);
    name.resize(std::min(name.find('\0'), name.size()));
    name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
    const std::size_t open = name.find('[');
    const bool is_list = open != name.npos && name.find(']', open) != name.npos;
    if (open == 0) return std::nullopt;
    if (is_list) name.resize(open);
    for (char& c : name) {
        if (c == ' ' || c == '.' || c == '[') c = '_';
    }
    if (name.empty()) return std::nullopt;
    return Read{name, is_list ? kCollection : decoded(value, clean)};
}

// qs, as Express has it: `]=` ends a name, whatever is before; a name in brackets is a name.
inline MaybeRead qs(std::string_view parameter) {
    std::string text(parameter);
    for (const auto& [escape, mark] :
         {std::pair{"%5B", "["}, {"%5b", "["}, {"%5D", "]"}, {"%5d", "]"}}) {
        for (std::size_t at = text.find(escape); at != text.npos; at = text.find(escape, at)) {
            text.replace(at, 3, mark);
        }
    }
    const std::size_t bracket = text.find("]=");
    const std::size_t end =
        bracket == text.npos ? std::min(text.find('='), text.size()) : bracket + 1;
    // A text that does not decode stays, but for `+`.
    const auto decode = [](const std::string& part) {
        bool clean = true;
        std::string out = decoded(part, clean);
        if (clean) return out;
        out = part;
        std::replace(out.begin(), out.end(), '+', ' ');
        return out;
    };
    std::string name = decode(text.substr(0, end));
    const std::string value = decode(text.substr(std::min(end + 1, text.size())));
    const std::size_t open = name.find('[');
    if (name.empty()) return std::nullopt;
    if (open == name.npos) return Read{name, value};
    if (open > 0) return Read{name.substr(0, open), kCollection};
    int level = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        level += name[i] == '[' ? 1 : name[i] == ']' ? -1 : 0;
        if (level > 0) continue;
        const bool more = name.find('[', i) != name.npos;
        return Read{name.substr(1, i - 1), more ? kCollection : value};
    }
    return Read{name, value};
}

// Rack 2 passes over brackets before a name and behind it. It refuses what does not decode.
inline MaybeRead rack(std::string_view parameter) {
    bool clean = true;
    const auto [written, value] = halves(parameter);
    const std::string name = decoded(written, clean);
    const std::string content = decoded(value, clean);
    const std::size_t begin = name.find_first_not_of("[]");
    if (!clean || begin == name.npos) return std::nullopt;
    const std::size_t end = std::min(name.find_first_of("[]", begin), name.size());
    const std::size_t after = std::min(name.find_first_not_of(']', end), name.size());
    // A bracket alone at the end belongs to the name.
    if (name.substr(after) == "[") return Read{name.substr(begin, end - begin) + "[", content};
    return Read{name.substr(begin, end - begin), after < name.size() ? kCollection : content};
}

inline constexpr std::pair<std::string_view, Reader> kAll[] = {
    {"PHP", php}, {"qs", qs}, {"Rack", rack}, {"WSGI", wsgi}, {"servlet", servlet}};

// The pieces of which edits of a name are made.
inline constexpr std::string_view kEdits[] = {
    "",   "+",   "%20", ".", "%2E", "[", "]",   "%5B",  "%5d", "_",  "%5F", "%00",   "%",
    "%z", "%09", "?",   "=", "a",   "T", "%74", "%u00", "-",   "[]", "[0]", "%C3%A4"};

// Every name that one edit makes of `name`: something put in, or in the place of a byte.
template <class Visit>
void for_each_edit(const std::string& name, const Visit& visit) {
    for (const std::string_view edit : kEdits) {
        for (std::size_t at = 0; at <= name.size(); ++at) {
            visit(std::string(name).insert(at, edit));
            if (at < name.size()) visit(std::string(name).replace(at, 1, edit));
        }
    }
}

}  // namespace tidegate::readers
