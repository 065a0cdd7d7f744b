// Origins: read as a plain reader of the grammar reads them; a text that is allowed by a pattern
// has the pattern's scheme, host and port, and nothing else.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <string>

#include "base/ip.hpp"
#include "base/text.hpp"
#include "fuzz_check.hpp"
#include "http/cors_origin.hpp"

namespace {

using tidegate::http::OriginList;

// The parts of an origin; `name` or `address` is the host.
const std::regex& grammar() {
    static const std::regex pattern(
        R"(([A-Za-z][A-Za-z0-9+.-]*)://(?:([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)|\[([0-9A-Fa-f:.]+)\]))"
        R"((?::([1-9][0-9]{0,4}))?)");
    return pattern;
}

bool is_origin(const std::string& text, std::smatch& parts) {
    if (text.size() > tidegate::http::kOriginBytesMax) return false;
    if (text.find('\0') != text.npos || text.find('\n') != text.npos) return false;
    if (!std::regex_match(text, parts, grammar())) return false;
    if (parts[4].matched && std::stoi(parts[4].str()) > 65'535) return false;
    if (!parts[3].matched) return true;
    const auto address = tidegate::parse_ip(parts[3].str());
    return address && !address->v4;
}

// The origin as browsers write it.
std::string normal(const std::smatch& parts) {
    const std::string scheme = tidegate::to_lower(parts[1].str());
    std::string port = parts[4].str();
    if ((scheme == "https" && port == "443") || (scheme == "http" && port == "80")) port.clear();
    const std::string host = parts[3].matched ? "[" + parts[3].str() + "]" : parts[2].str();
    return scheme + "://" + tidegate::to_lower(host) + (port.empty() ? "" : ":" + port);
}

OriginList list_of(const std::string& pattern) {
    OriginList list;
    const auto parsed = tidegate::http::parse_origin_pattern(pattern);
    FUZZ_CHECK(parsed.has_value());
    list.patterns.push_back(*parsed);
    return list;
}

void check_origin(const std::string& text) {
    std::smatch parts;
    const bool expected = is_origin(text, parts);
    const auto found = tidegate::http::parse_origin(text);
    FUZZ_CHECK(found.has_value() == expected);
    const bool is_allowed = list_of("https://app.example.com").include(text);
    FUZZ_CHECK(is_allowed == (expected && normal(parts) == "https://app.example.com"));
    const bool is_below = list_of("https://*.example.org:8443").include(text);
    const std::string end = ".example.org:8443";
    const std::string whole = expected ? normal(parts) : "";
    FUZZ_CHECK(is_below == (whole.starts_with("https://") && whole.ends_with(end) &&
                            whole.size() > end.size() + 8));
}

void check_pattern(const std::string& text) {
    const auto pattern = tidegate::http::parse_origin_pattern(text);
    if (!pattern) {
        FUZZ_CHECK(!pattern.error().empty());
        return;
    }
    std::smatch parts;
    if (!pattern->subdomains) FUZZ_CHECK(is_origin(text, parts));
    OriginList list;
    list.patterns.push_back(*pattern);
    FUZZ_CHECK(!list.include(""));
    FUZZ_CHECK(!list.include("null"));
    FUZZ_CHECK(!list.include("https://" + pattern->host + ".evil.test"));
    // What is written is allowed, but for spellings of addresses that no browser uses.
    if (!pattern->subdomains && pattern->host.front() != '[') FUZZ_CHECK(list.include(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    // The regular expression of the second opinion recurses.
    const std::string text(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 1'024));
    check_origin(text);
    check_pattern(text);
    return 0;
}
