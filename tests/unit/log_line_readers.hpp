// Lines of the access log as programs read them, and texts that try to break out of them.
#pragma once

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/utf8.hpp"

namespace tidegate::test {

// What a line says, read back.
struct Read {
    std::string client, method, path;
    std::map<std::string, std::string> values;
    std::vector<std::string> identifiers;
};

inline std::string unescaped(std::string_view inside) {
    return nlohmann::json::parse('"' + std::string(inside) + '"').get<std::string>();
}

// Takes the text before `end` from the front of `rest`, and drops `end`.
inline std::string_view take(std::string_view& rest, std::string_view end) {
    const std::size_t at = rest.find(end);
    REQUIRE(at != std::string_view::npos);
    const std::string_view taken = rest.substr(0, at);
    rest.remove_prefix(at + end.size());
    return taken;
}

// A string in quotes, from the front of `rest`, still escaped.
inline std::string_view take_string(std::string_view& rest) {
    REQUIRE(rest.starts_with('"'));
    std::size_t end = 1;
    while (rest.at(end) != '"') end += rest[end] == '\\' ? 2 : 1;
    const std::string_view inside = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return inside;
}

inline std::string word(std::string_view text) {
    return text == "-" ? "" : unescaped(text);
}

inline std::vector<std::string> items(std::string_view list) {
    std::vector<std::string> all;
    while (!list.empty()) {
        if (list.starts_with('"')) {
            all.push_back(unescaped(take_string(list)));
        } else {
            const std::size_t end = std::min(list.find(','), list.size());
            all.emplace_back(list.substr(0, end));
            list.remove_prefix(end);
        }
        if (!list.empty()) take(list, ",");
    }
    return all;
}

// Reads the text form by its grammar (docs/logging.md), and nothing else.
inline Read read_text(std::string_view line) {
    Read read;
    read.client = word(take(line, " - - ["));
    take(line, "] ");
    std::string_view request = take_string(line);
    read.method = word(take(request, " "));
    read.path = word(take(request, " "));
    CHECK(request == "HTTP/1.1");
    take(line, " ");
    read.values["status"] = take(line, " ");
    read.values["bytes_out"] = take(line, " ");
    while (line != "\n") {
        const std::string name(take(line, "="));
        const bool is_new = read.values.emplace(name, unescaped(take_string(line))).second;
        CHECK_MESSAGE(is_new, name);
        if (line != "\n") take(line, " ");
    }
    read.identifiers = items(read.values.at("identifiers"));
    return read;
}

// Reads the logfmt form as its readers do: values in quotes are unescaped, others are as they are.
inline Read read_logfmt(std::string_view line) {
    Read read;
    while (line != "\n") {
        const std::string name(take(line, "="));
        std::string value;
        if (line.starts_with('"')) {
            value = unescaped(take_string(line));
        } else {
            const std::size_t end = line.find_first_of(" \n");
            value = line.substr(0, end);
            CHECK_MESSAGE(value.find_first_of("=\"\\") == std::string::npos, value);
            line.remove_prefix(end);
        }
        CHECK_MESSAGE(read.values.emplace(name, value).second, name);
        if (line != "\n") take(line, " ");
    }
    read.identifiers = items(read.values.at("identifiers"));
    return read;
}

// With each byte that is no UTF-8 as the log has it.
inline std::string replaced(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = utf8_length(text);
        out += length == 0 ? "\xef\xbf\xbd" : text.substr(0, length);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

// Up to six pieces of hostile text, at most 30 bytes: nothing is cut.
inline std::string hostile(std::mt19937& random) {
    static const std::vector<std::string> kPieces{",",
                                                  "=",
                                                  " ",
                                                  "\"",
                                                  "\\",
                                                  "\n",
                                                  "\r",
                                                  "\t",
                                                  std::string(1, '\0'),
                                                  "\x1b[2J",
                                                  "\x7f",
                                                  "\u0085",
                                                  "\u2028",
                                                  "\u202e",
                                                  "\u200b",
                                                  "\ufeff",
                                                  "\u00e9",
                                                  "\U0001f30a",
                                                  "\xff",
                                                  "\xc3",
                                                  "-",
                                                  "a",
                                                  "user:a,b",
                                                  ",user:b",
                                                  "\" verdict=\"x",
                                                  "\\u002c",
                                                  "\\\"",
                                                  "[",
                                                  "] ",
                                                  "{",
                                                  "...",
                                                  "%2C",
                                                  "' ",
                                                  "`",
                                                  "\",\"",
                                                  " - - [",
                                                  "\" 200 "};
    std::string text;
    for (std::size_t left = random() % 7; left > 0; --left) {
        const std::string& piece = kPieces[random() % kPieces.size()];
        if (text.size() + piece.size() <= 30) text += piece;
    }
    return text;
}

}  // namespace tidegate::test
