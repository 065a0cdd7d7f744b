// What the lines of a head say about framing, read without any of the program's readers: the other
// opinion that fuzz targets hold theirs against.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

struct RawFraming {
    int lengths = 0;
    int encodings = 0;
    int hosts = 0;
    std::string length;    // of the last of them, without white space around it
    std::string encoding;  // likewise, in lower case
};

inline std::string raw_lower(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c; });
    return lower;
}

inline std::string_view raw_trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t");
    if (first == text.npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// As lenient as any server may be: any LF ends a line, white space around a name is overlooked.
// What the program accepts must mean the same even so.
inline RawFraming raw_framing(std::string_view head) {
    RawFraming seen;
    std::size_t at = head.find('\n');
    while (at != head.npos && at + 1 < head.size()) {
        const std::size_t begin = at + 1;
        at = head.find('\n', begin);
        std::string_view line = head.substr(begin, at == head.npos ? at : at - begin);
        if (line.ends_with('\r')) line.remove_suffix(1);
        const std::size_t colon = line.find(':');
        if (colon == line.npos) continue;
        const std::string name = raw_lower(raw_trimmed(line.substr(0, colon)));
        const std::string_view value = raw_trimmed(line.substr(colon + 1));
        if (name == "content-length") {
            ++seen.lengths;
            seen.length = value;
        } else if (name == "transfer-encoding") {
            ++seen.encodings;
            seen.encoding = raw_lower(value);
        } else if (name == "host") {
            ++seen.hosts;
        }
    }
    return seen;
}
