// Cookie: the value of one name, over all fields, held against a plainer reader; and however the
// fields are put together, no second value gets past it.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "fuzz_check.hpp"
#include "http/query_and_method_override.hpp"
#include "identity/credentials.hpp"

namespace {

using namespace tidegate::identity;
using State = Credential::State;
using tidegate::http::Fields;

constexpr std::string_view kName = "sid";

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == at) {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

std::string stripped(std::string text, const std::string& what) {
    while (!text.empty() && what.find(text.front()) != what.npos) text.erase(0, 1);
    while (!text.empty() && what.find(text.back()) != what.npos) text.pop_back();
    return text;
}

// All values of the name, without white space and quotes around them.
std::set<std::string> values_of(const std::string& cookies) {
    std::set<std::string> values;
    for (const std::string& pair : split(cookies, ';')) {
        const auto equals = pair.find('=');
        const std::string name = stripped(pair.substr(0, equals), " \t");
        if (name != kName) {
            // As good as a second value: some server takes the name for ours.
            const std::string_view bare = tidegate::without_outer_blanks(name);
            if (tidegate::http::could_be_read_as(bare, kName)) values.insert({"a", "b"});
            continue;
        }
        if (equals == pair.npos) continue;
        std::string value = stripped(pair.substr(equals + 1), " \t");
        if (value.size() > 1 && value.front() == '"' && value.back() == '"')
            value = value.substr(1, value.size() - 2);
        values.insert(value);
    }
    return values;
}

// RFC 6265 section 4.1.1, octet by octet.
bool is_value(const std::string& value) {
    for (const char c : value) {
        const auto octet = static_cast<unsigned char>(c);
        if (octet != 0x21 && !(octet >= 0x23 && octet <= 0x2b) &&
            !(octet >= 0x2d && octet <= 0x3a) && !(octet >= 0x3c && octet <= 0x5b) &&
            !(octet >= 0x5d && octet <= 0x7e)) {
            return false;
        }
    }
    return value.size() <= kSecretBytesMax;
}

// What find_cookie() must say; the text only of what is present.
std::pair<State, std::string> expected(const std::string& cookies) {
    const auto values = values_of(cookies);
    if (values.size() > 1) return {State::malformed, ""};
    if (values.empty() || values.begin()->empty()) return {State::absent, ""};
    if (!is_value(*values.begin())) return {State::malformed, ""};
    return {State::present, *values.begin()};
}

// A value that is decoded once is not longer, and without `%` and `+` it is left alone.
void check_counted(std::string_view value) {
    std::string room;
    const std::string_view counted = counted_cookie_value(value, room);
    FUZZ_CHECK(counted.size() <= value.size());
    FUZZ_CHECK(counted.find('+') == counted.npos);
    if (value.find_first_of("%+") == value.npos) FUZZ_CHECK(counted.data() == value.data());
    // Each octet percent-encoded says the same.
    std::string encoded;
    for (const char c : counted) tidegate::append_percent_encoded(c, encoded);
    std::string again;
    FUZZ_CHECK(counted_cookie_value(encoded, again) == counted);
}

void check(const Fields& fields, const std::string& cookies) {
    const Credential found = find_cookie(fields, kName);
    const auto [state, text] = expected(cookies);
    FUZZ_CHECK(found.state == state);
    FUZZ_CHECK(found.text == text);
    check_counted(found.text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    check({{.name = "Cookie", .value = text}}, text);

    // Each line a field: the same as all in one.
    const auto lines = split(text, '\n');
    Fields fields;
    std::string joined;
    for (const std::string& line : lines) {
        fields.push_back({.name = "cookie", .value = line});
        joined += line + ";";
    }
    check(fields, joined);

    // Whatever a client puts around a cookie, the cookie is the same or it names no user.
    const Credential around = find_cookie(
        {{.name = "cookie", .value = text}, {.name = "Cookie", .value = "sid=good"}}, kName);
    FUZZ_CHECK(around.state == State::malformed ||
               (around.state == State::present && around.text == "good"));
    return 0;
}
