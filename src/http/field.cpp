#include "http/field.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/secrets.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"

namespace tidegate::http {

namespace {

// A name as numbers: the first eight bytes, the second and the last, which may overlap; what is
// shorter than that is in the first alone.
struct NameWords {
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint64_t last = 0;
};

constexpr std::size_t kWordsMin = 2;
constexpr std::size_t kWordsMax = 24;

constexpr std::uint64_t join(std::uint64_t low, std::uint64_t high) {
    return low << 32 | high;
}

// Requires kWordsMin to kWordsMax bytes.
constexpr NameWords words_of(std::string_view name) {
    const char* const begin = name.data();
    const char* const end = begin + name.size();
    if (name.size() >= 8) {
        return {load_word<std::uint64_t>(begin),
                name.size() > 16 ? load_word<std::uint64_t>(begin + 8) : 0,
                load_word<std::uint64_t>(end - 8)};
    }
    if (name.size() >= 4) {
        return {join(load_word<std::uint32_t>(begin), load_word<std::uint32_t>(end - 4)), 0, 0};
    }
    return {join(load_word<std::uint16_t>(begin), load_word<std::uint16_t>(end - 2)), 0, 0};
}

// A name in lower case. Another of its length is the same if the bit for the case makes it so where
// there is a letter.
class KnownName {
  public:
    constexpr KnownName(std::string_view text, FieldName name)
        : id(name), length(text.size()), words_(words_of(text)) {
        char bits[kWordsMax]{};
        for (std::size_t i = 0; i < text.size(); ++i) {
            bits[i] = text[i] >= 'a' && text[i] <= 'z' ? 0x20 : 0;
        }
        case_ = words_of({bits, text.size()});
    }
    // The ends first: many names begin alike.
    bool is(const NameWords& name) const {
        return (name.last | case_.last) == words_.last &&
               (name.first | case_.first) == words_.first &&
               (name.second | case_.second) == words_.second;
    }

    FieldName id;
    std::size_t length;

  private:
    NameWords words_;
    NameWords case_;
};

// Folds one byte of a name, or eight, as programs that turn fields into variables read it.
constexpr char as_variable(char c) {
    return is_alphanumeric(c) ? to_lower(c) : '-';
}
constexpr std::uint64_t as_variable(std::uint64_t word) {
    return replace_others(to_lower(word), '-');
}

// Whether `fold`, which takes a byte or a word of eight, gives the same for both.
template <class Fold>
bool equal_folded(std::string_view a, std::string_view b, Fold fold) {
    if (a.size() != b.size()) return false;
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    if (a.size() < kWord) {
        for (std::size_t i = 0; i < a.size(); ++i)
            if (fold(a[i]) != fold(b[i])) return false;
        return true;
    }
    const auto equal_at = [&](std::size_t at) {
        return fold(load_word<std::uint64_t>(a.data() + at)) ==
               fold(load_word<std::uint64_t>(b.data() + at));
    };
    // Names of one size that differ mostly do so at their end: many begin alike.
    const std::size_t last = a.size() - kWord;
    if (!equal_at(last)) return false;
    for (std::size_t at = 0; at < last; at += kWord)
        if (!equal_at(at)) return false;
    return true;
}

// Sorted from the shortest to the longest.
constexpr auto kKnownNames = std::to_array<KnownName>({
    {"te", FieldName::te},
    {"via", FieldName::via},
    {"host", FieldName::host},
    {"date", FieldName::date},
    {"expect", FieldName::expect},
    {"server", FieldName::server},
    {"upgrade", FieldName::upgrade},
    {"trailer", FieldName::trailer},
    {"forwarded", FieldName::forwarded},
    {"ratelimit", FieldName::ratelimit},
    {"x-real-ip", FieldName::x_real_ip},
    {"connection", FieldName::connection},
    {"keep-alive", FieldName::keep_alive},
    {"retry-after", FieldName::retry_after},
    {"content-type", FieldName::content_type},
    {"x-request-id", FieldName::x_request_id},
    {"content-length", FieldName::content_length},
    {"x-original-uri", FieldName::x_original_uri},
    {"x-forwarded-for", FieldName::x_forwarded_for},
    {"x-forwarded-uri", FieldName::x_forwarded_uri},
    {"ratelimit-limit", FieldName::ratelimit_limit},
    {"ratelimit-reset", FieldName::ratelimit_reset},
    {"x-forwarded-host", FieldName::x_forwarded_host},
    {"x-forwarded-port", FieldName::x_forwarded_port},
    {"ratelimit-policy", FieldName::ratelimit_policy},
    {"proxy-connection", FieldName::proxy_connection},
    {"transfer-encoding", FieldName::transfer_encoding},
    {"x-forwarded-proto", FieldName::x_forwarded_proto},
    {"x-ratelimit-limit", FieldName::x_ratelimit_limit},
    {"x-ratelimit-reset", FieldName::x_ratelimit_reset},
    {"x-original-method", FieldName::x_original_method},
    {"proxy-authenticate", FieldName::proxy_authenticate},
    {"x-forwarded-method", FieldName::x_forwarded_method},
    {"proxy-authorization", FieldName::proxy_authorization},
    {"ratelimit-remaining", FieldName::ratelimit_remaining},
    {"x-ratelimit-remaining", FieldName::x_ratelimit_remaining},
    {"x-forwarded-client-cert", FieldName::x_forwarded_client_cert},
    {"x-ratelimit-limit-tokens", FieldName::x_ratelimit_limit_tokens},
    {"x-ratelimit-reset-tokens", FieldName::x_ratelimit_reset_tokens},
});

// Those that are longer than kWordsMax: of providers of models.
constexpr auto kLongNames = std::to_array<std::pair<std::string_view, FieldName>>({
    {"x-ratelimit-limit-requests", FieldName::x_ratelimit_limit_requests},
    {"x-ratelimit-remaining-requests", FieldName::x_ratelimit_remaining_requests},
    {"x-ratelimit-remaining-tokens", FieldName::x_ratelimit_remaining_tokens},
    {"x-ratelimit-reset-requests", FieldName::x_ratelimit_reset_requests},
    {"anthropic-ratelimit-requests-limit", FieldName::anthropic_requests_limit},
    {"anthropic-ratelimit-requests-remaining", FieldName::anthropic_requests_remaining},
    {"anthropic-ratelimit-requests-reset", FieldName::anthropic_requests_reset},
    {"anthropic-ratelimit-tokens-limit", FieldName::anthropic_tokens_limit},
    {"anthropic-ratelimit-tokens-remaining", FieldName::anthropic_tokens_remaining},
    {"anthropic-ratelimit-tokens-reset", FieldName::anthropic_tokens_reset},
});

// Requires more than kWordsMax bytes. Most long names have no hyphen where all of ours have one.
// Not part of field_name(), so that short names need no registers of its loop.
[[gnu::noinline]] FieldName long_field_name(std::string_view name) {
    constexpr std::size_t kAfterX = 1;
    constexpr std::size_t kAfterAnthropic = 9;
    if (name[kAfterX] != '-' && name[kAfterAnthropic] != '-') return FieldName::other;
    for (const auto& [known, id] : kLongNames) {
        if (equal_folded(name, known, [](auto bytes) { return to_lower(bytes); })) return id;
    }
    return FieldName::other;
}

struct NamesOfLength {
    const KnownName* begin = nullptr;
    const KnownName* end = nullptr;
};

constexpr auto kByLength = [] {
    std::array<NamesOfLength, kWordsMax + 1> lists;
    const KnownName* name = kKnownNames.data();
    const KnownName* const end = name + kKnownNames.size();
    for (std::size_t length = 0; length < lists.size(); ++length) {
        lists[length].begin = name;
        while (name != end && name->length == length) ++name;
        lists[length].end = name;
    }
    return lists;
}();
static_assert(kByLength.back().end == kKnownNames.data() + kKnownNames.size(),
              "a name is longer than kWordsMax, or behind a longer one");

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return equal_folded(a, b, [](auto bytes) { return to_lower(bytes); });
}

bool equal_as_variable(std::string_view a, std::string_view b) {
    return equal_folded(a, b, [](auto bytes) { return as_variable(bytes); });
}

// Called for each field of each message: the length leaves at most five names to compare.
FieldName field_name(std::string_view name) {
    if (name.size() > kWordsMax) return long_field_name(name);
    if (name.size() < kWordsMin) return FieldName::other;
    const NameWords words = words_of(name);
    const NamesOfLength list = kByLength[name.size()];
    for (const KnownName* known = list.begin; known != list.end; ++known) {
        if (known->is(words)) return known->id;
    }
    return FieldName::other;
}

void keep_in(std::string& text, Fields& fields) {
    std::size_t size = 0;
    for (const Field& field : fields) size += field.name.size() + field.value.size();
    text.clear();
    text.reserve(size);  // so that no view goes stale
    const auto keep = [&](std::string_view& view) {
        const std::size_t begin = text.size();
        text += view;
        view = std::string_view(text).substr(begin);
    };
    for (Field& field : fields) {
        keep(field.name);
        keep(field.value);
    }
}

std::string_view single_value(const Fields& fields, std::string_view name) {
    return single_value_where(
        fields, [&](const Field& field) { return equal_ignoring_case(field.name, name); });
}

std::string_view single_value(const Fields& fields, FieldName name) {
    return single_value_where(fields, [&](const Field& field) { return field.id == name; });
}

void append_quoted_string(std::string_view text, std::string& out) {
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c >= ' ' && c <= '~' ? c : '?';
    }
    out += '"';
}

void append_integer(std::int64_t number, std::string& out) {
    append_number(std::clamp(number, -kStructuredIntegerMax, kStructuredIntegerMax), out);
}

void DateField::set(std::chrono::system_clock::time_point now) {
    const auto second = std::chrono::floor<std::chrono::seconds>(now);
    if (second == second_) return;
    second_ = second;
    line_ = "Date: ";
    append_http_date(second, line_);
    line_ += "\r\n";
}

bool bears_token(std::string_view authorization, std::string_view token) {
    static constexpr std::string_view kScheme = "Bearer ";
    if (token.empty() || authorization.size() <= kScheme.size()) return false;
    if (!equal_ignoring_case(authorization.substr(0, kScheme.size()), kScheme)) return false;
    authorization.remove_prefix(kScheme.size());
    authorization.remove_prefix(
        std::min(authorization.find_first_not_of(' '), authorization.size()));
    return equal_in_constant_time(authorization, token);
}

bool bears_token(const Fields& fields, std::string_view token) {
    return bears_token(single_value(fields, "authorization"), token);
}

}  // namespace tidegate::http
