// `extra_headers` of `response`: fields that the operator adds to answers made here.
#include <algorithm>
#include <array>
#include <vector>

#include "base/quote.hpp"
#include "config/header_field.hpp"
#include "config/read_sections.hpp"
#include "http/field.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kFieldsMax = 32;
constexpr std::size_t kLinesBytesMax = 8'192;  // clients bound the heads they read
constexpr std::string_view kOneHop = "frames the answer or is for one connection: remove it";
constexpr std::string_view kOurs = "Tidegate writes this field itself: remove it";

struct Reserved {
    std::string_view name;
    std::string_view why;
};

constexpr auto kReserved = std::to_array<Reserved>({
    {"connection", kOneHop},
    {"content-encoding", kOneHop},
    {"content-length", kOneHop},
    {"content-range", kOneHop},
    {"content-type", "write it in `response.body: {content_type: ..., text: ...}`"},
    {"date", kOurs},
    {"keep-alive", kOneHop},
    {"retry-after", "Tidegate writes this field itself: see `response.headers`"},
    {"te", kOneHop},
    {"trailer", kOneHop},
    {"transfer-encoding", kOneHop},
    {"upgrade", kOneHop},
    {"vary", kOurs},
    {"www-authenticate", kOurs},
    {"x-request-id", kOurs},
});

constexpr auto kReservedBeginnings = std::to_array<Reserved>({
    {"access-control-", "write `response.cors` for it"},
    {"proxy-", kOneHop},
    {"ratelimit", "Tidegate writes this field itself: see `response.headers`"},
    {"x-ratelimit-", "Tidegate writes this field itself: see `response.headers`"},
});

// Why the field cannot be added; empty: it can. Spellings that servers take for the same name are
// the same here.
std::string_view why_reserved(std::string_view name) {
    for (const Reserved& reserved : kReserved) {
        if (http::equal_as_variable(name, reserved.name)) return reserved.why;
    }
    for (const Reserved& reserved : kReservedBeginnings) {
        if (http::equal_as_variable(name.substr(0, reserved.name.size()), reserved.name)) {
            return reserved.why;
        }
    }
    return {};
}

bool is_good_name(const Value& value, const std::string& name,
                  const std::vector<std::string>& names) {
    if (!is_token(name) || name.size() > kFieldNameBytesMax) {
        value.fault(quote(name) +
                    " is not the name of a header field such as `Strict-Transport-Security`");
        return false;
    }
    if (const std::string_view why = why_reserved(name); !why.empty()) {
        value.fault(quote(name) + " cannot be added: " + std::string(why));
        return false;
    }
    const auto is_same = [&](const std::string& other) {
        return http::equal_ignoring_case(other, name);
    };
    if (std::any_of(names.begin(), names.end(), is_same)) {
        value.fault(quote(name) + " is listed twice, in different case");
        return false;
    }
    return true;
}

}  // namespace

void read_extra_headers(const Value& value, Response& response) {
    constexpr ListRule kFields{
        "a map of fields and values: `{Strict-Transport-Security: max-age=31536000}`", "fields",
        kFieldsMax};
    std::vector<std::string> names;
    for (const auto& [name, item] : value.named(kFields, false)) {
        if (!is_good_name(item, name, names)) continue;
        names.push_back(name);
        const auto content = item.text("the value of a header field");
        if (!content) continue;
        if (!is_field_value(*content)) {
            item.fault(quote(*content) + " cannot be the value of a header field");
            continue;
        }
        response.extra_lines.append(name).append(": ").append(*content).append("\r\n");
    }
    if (response.extra_lines.size() > kLinesBytesMax) {
        value.fault("more than " + std::to_string(kLinesBytesMax) + " bytes in all");
    }
}

}  // namespace tidegate::config
