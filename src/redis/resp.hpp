// Writes RESP, the protocol of Redis. Pure; inline, because every decision writes a command.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace tidegate::redis {

// `$3\r\n` (a string of three bytes) or `*3\r\n` (an array of three).
inline void append_length(char type, std::size_t length, std::string& out) {
    char line[24];
    line[0] = type;
    char* const end = std::to_chars(line + 1, line + 21, length).ptr;
    end[0] = '\r';
    end[1] = '\n';
    out.append(line, end + 2);
}

inline void append_string(std::string_view text, std::string& out) {
    append_length('$', text.size(), out);
    out.append(text).append("\r\n");
}

inline void append_number(std::uint64_t number, std::string& out) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    append_string({digits, end}, out);
}

// Appends one whole command.
inline void append_resp(std::initializer_list<std::string_view> words, std::string& out) {
    append_length('*', words.size(), out);
    for (const std::string_view word : words) append_string(word, out);
}

inline std::string resp(std::initializer_list<std::string_view> words) {
    std::string text;
    append_resp(words, text);
    return text;
}

// The command that gives the password; without a username, that of the default user.
inline std::string auth_command(std::string_view username, std::string_view password) {
    return username.empty() ? resp({"AUTH", password}) : resp({"AUTH", username, password});
}

}  // namespace tidegate::redis
