#include "telemetry/access_log_line.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/utf8.hpp"

namespace tidegate::telemetry {

namespace {

char* put_decimal(char* out, unsigned value, int digits) {
    for (int i = digits - 1; i >= 0; --i, value /= 10) {
        out[i] = static_cast<char>('0' + value % 10);
    }
    return out + digits;
}

// Holds the name of a field and the marks around it. The compiler puts them together, so that a
// writer copies them at once.
struct FixedText {
    constexpr FixedText(std::string_view before, std::string_view name, std::string_view after) {
        for (const std::string_view part : {before, name, after}) {
            for (const char c : part) bytes[size++] = c;
        }
    }

    std::array<char, 64> bytes{};
    std::size_t size = 0;
};

// Makes a row of the table a type, so that the compiler chooses what a form does with the field.
template <std::size_t kRow>
struct FieldAt {
    static constexpr const RequestField& kField = kRequestFields[kRow];
    static constexpr auto kMember = std::get<kField.member.index()>(kField.member);
    static constexpr bool kIsFirst = kRow == 0;
    static constexpr bool kIsText = kField.is<std::string_view>();
    static constexpr bool kIsList = kField.is<std::span<const std::string_view>>();
    static constexpr bool kIsNumber = kField.is<int>() || kField.is<std::int64_t>() ||
                                      kField.is<Amount>() || kField.is<std::uint64_t>() ||
                                      kField.is<std::chrono::nanoseconds>();

    static const auto& value(const RequestRecord& record) { return record.*kMember; }
    static bool is_left_out(const RequestRecord& record) {
        if constexpr (!kField.is_optional) {
            return false;
        } else if constexpr (kIsText) {
            return value(record).empty();
        } else if constexpr (kField.is<Amount>()) {
            return value(record).units < 0;
        } else {
            return value(record) < 0;
        }
    }
};

// Holds the marks that a form puts around a field.
struct FieldMarks {
    std::string_view before;  // stands before the name
    std::string_view behind;  // stands between the name and the value
    char end = 0;             // stands behind the value; 0: nothing does
};

// logfmt puts a text in quotes only if it needs them, so they are not among its marks.
template <class Field>
constexpr FieldMarks marks_of(LogFormat form) {
    const std::string_view json_before = Field::kIsFirst ? "{\"" : ",\"";
    switch (form) {
        case LogFormat::json:
            if (Field::kIsNumber) return {json_before, "\":"};
            if (Field::kIsList) return {json_before, "\":[", ']'};
            return {json_before, "\":\"", '"'};
        case LogFormat::text:
            return {" ", "=\"", '"'};
        case LogFormat::logfmt:
            break;
    }
    const std::string_view logfmt_before = Field::kIsFirst ? "" : " ";
    return Field::kIsList ? FieldMarks{logfmt_before, "=\"", '"'} : FieldMarks{logfmt_before, "="};
}

// Calls `visit` with each row, as a value of its type.
template <class Visit>
void for_each_field(Visit visit) {
    [&]<std::size_t... kRows>(std::index_sequence<kRows...>) {
        (visit(FieldAt<kRows>{}), ...);
    }
    (std::make_index_sequence<kRequestFields.size()>{});
}

}  // namespace

// Each caller knows the size when it is compiled, so the copy is a few stores.
template <class Text>
[[gnu::always_inline]] inline void LogLineFormatter::put_fixed(const Text& text) {
    std::memcpy(out_, text.bytes.data(), text.size);
    out_ += text.size;
}

std::string_view LogLineFormatter::line(LogFormat format, const RequestRecord& record) {
    switch (format) {
        case LogFormat::json:
            return json(record);
        case LogFormat::text:
            return text(record);
        case LogFormat::logfmt:
            break;
    }
    return logfmt(record);
}

std::string_view LogLineFormatter::json(const RequestRecord& record) {
    begin(record.time);
    for_each_field([&](auto field) { put_field<LogFormat::json>(field, record); });
    *out_++ = '}';
    return end();
}

std::string_view LogLineFormatter::text(const RequestRecord& record) {
    begin(record.time);
    put_common_log(record);
    for_each_field([&](auto field) {
        if constexpr (field.kField.in_text == InText::pair)
            put_field<LogFormat::text>(field, record);
    });
    for_each_field([&](auto field) {
        if constexpr (field.kField.in_text == InText::last)
            put_field<LogFormat::text>(field, record);
    });
    return end();
}

std::string_view LogLineFormatter::logfmt(const RequestRecord& record) {
    begin(record.time);
    for_each_field([&](auto field) { put_field<LogFormat::logfmt>(field, record); });
    return end();
}

template <LogFormat kForm, class Field>
void LogLineFormatter::put_field(Field field, const RequestRecord& record) {
    if (field.is_left_out(record)) return;
    static constexpr FieldMarks kMarks = marks_of<Field>(kForm);
    static constexpr FixedText kName(kMarks.before, Field::kField.name, kMarks.behind);
    put_fixed(kName);
    if constexpr (Field::kIsText && kForm == LogFormat::logfmt) {
        put_logfmt(field.value(record), Field::kField.bytes_max);
    } else if constexpr (Field::kIsText) {
        put_escaped(field.value(record), Field::kField.bytes_max);
    } else if constexpr (Field::kIsList && kForm == LogFormat::json) {
        put_elements(field.value(record));
    } else if constexpr (Field::kIsList) {
        put_list(field.value(record));
    } else {
        put(field.value(record));
    }
    if constexpr (kMarks.end != 0) *out_++ = kMarks.end;
}

void LogLineFormatter::put_common_log(const RequestRecord& record) {
    put_word(record.client, kNameBytesMax);
    put(" - - [");
    put(std::string_view(common_.data(), common_.size()));
    put(R"( +0000] ")");
    put_word(record.method, kMethodBytesMax);
    put(" ");
    put_word(record.path, kPathBytesMax);
    put(" HTTP/");
    put(number_of(record.version));
    put(R"(" )");
    put(record.status);
    put(" ");
    put(record.bytes_sent);
}

void LogLineFormatter::begin(Time time) {
    out_ = buffer_.data();
    update_time(time);
}

std::string_view LogLineFormatter::end() {
    *out_++ = '\n';
    return {buffer_.data(), static_cast<std::size_t>(out_ - buffer_.data())};
}

void LogLineFormatter::update_time(Time time) {
    using namespace std::chrono;
    const sys_seconds second = floor<seconds>(time);
    millisecond_ = static_cast<unsigned>(floor<milliseconds>(time - second).count());
    if (second == second_) return;
    second_ = second;

    static constexpr std::array<std::string_view, 12> kMonths{
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const sys_days day = floor<days>(second);
    const year_month_day date{day};
    const hh_mm_ss clock{second - day};
    const auto year = static_cast<unsigned>(std::clamp(static_cast<int>(date.year()), 0, 9999));
    const auto month = static_cast<unsigned>(date.month());
    const auto day_of_month = static_cast<unsigned>(date.day());

    std::array<char, 8> hms;
    put_decimal(hms.data(), static_cast<unsigned>(clock.hours().count()), 2);
    hms[2] = hms[5] = ':';
    put_decimal(hms.data() + 3, static_cast<unsigned>(clock.minutes().count()), 2);
    put_decimal(hms.data() + 6, static_cast<unsigned>(clock.seconds().count()), 2);

    char* out = put_decimal(rfc3339_.data(), year, 4);
    *out++ = '-';
    out = put_decimal(out, month, 2);
    *out++ = '-';
    out = put_decimal(out, day_of_month, 2);
    *out++ = 'T';
    std::memcpy(out, hms.data(), hms.size());

    out = put_decimal(common_.data(), day_of_month, 2);
    *out++ = '/';
    out = std::copy_n(kMonths[month - 1].data(), 3, out);
    *out++ = '/';
    out = put_decimal(out, year, 4);
    *out++ = ':';
    std::memcpy(out, hms.data(), hms.size());
}

void LogLineFormatter::put(Time /*time*/) {
    put(std::string_view(rfc3339_.data(), rfc3339_.size()));
    *out_++ = '.';
    out_ = put_decimal(out_, millisecond_, 3);
    *out_++ = 'Z';
}

void LogLineFormatter::put(std::string_view word) {
    out_ = std::copy_n(word.data(), word.size(), out_);
}

void LogLineFormatter::put(std::uint64_t number) {
    out_ = std::to_chars(out_, out_ + 20, number).ptr;
}

void LogLineFormatter::put(int number) {
    put(static_cast<std::uint64_t>(std::max(number, 0)));
}

void LogLineFormatter::put(std::int64_t number) {
    put(static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0)));
}

void LogLineFormatter::put(Amount amount) {
    amount.units = std::max<std::int64_t>(amount.units, 0);
    out_ = write_amount(amount, out_);
}

void LogLineFormatter::put(std::chrono::nanoseconds time) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(time).count();
    put(static_cast<std::uint64_t>(std::max<std::int64_t>(us, 0)));
}

void LogLineFormatter::put(Outcome outcome) {
    put(to_string(outcome));
}

void LogLineFormatter::put(Face face) {
    put(to_string(face));
}

void LogLineFormatter::put(HttpVersion version) {
    put(name_of(version));
}

void LogLineFormatter::put_escaped(std::string_view text, std::size_t bytes_max) {
    if (text.size() <= bytes_max) {
        out_ = write_json_escaped(text, out_);
    } else {
        out_ = write_json_escaped(utf8_prefix(text, bytes_max), out_);
        put("...");
    }
}

void LogLineFormatter::put_word(std::string_view text, std::size_t bytes_max) {
    if (text.empty()) return put("-");
    if (text.size() == 1 && text.front() == '-') return put(R"(\u002d)");
    if (text.size() <= bytes_max) {
        out_ = write_json_escaped_word(text, out_);
    } else {
        out_ = write_json_escaped_word(utf8_prefix(text, bytes_max), out_);
        put("...");
    }
}

void LogLineFormatter::put_logfmt(std::string_view text, std::size_t bytes_max) {
    // Readers take a bare `null` for a value that is not there.
    if (text.size() <= bytes_max && text != "null") {
        if (char* const end = write_if_plain_value(text, out_)) {
            out_ = end;
            return;
        }
    }
    *out_++ = '"';
    put_escaped(text, bytes_max);
    *out_++ = '"';
}

void LogLineFormatter::put_elements(Identifiers identifiers) {
    const std::size_t count = std::min(identifiers.size(), kIdentifiersMax);
    for (std::size_t i = 0; i < count; ++i) {
        if (i != 0) *out_++ = ',';
        *out_++ = '"';
        put_escaped(identifiers[i], kIdentifierBytesMax);
        *out_++ = '"';
    }
}

void LogLineFormatter::put_list(Identifiers identifiers) {
    const std::size_t count = std::min(identifiers.size(), kIdentifiersMax);
    for (std::size_t i = 0; i < count; ++i) {
        if (i != 0) *out_++ = ',';
        const std::string_view identifier = identifiers[i];
        char* const end = identifier.size() <= kIdentifierBytesMax
                              ? write_if_plain_item(identifier, out_)
                              : nullptr;
        if (end != nullptr) {
            out_ = end;
        } else {
            put_quoted_item(identifier);
        }
    }
}

void LogLineFormatter::put_quoted_item(std::string_view identifier) {
    const std::string_view shown = utf8_prefix(identifier, kIdentifierBytesMax);
    std::array<char, kIdentifierBytesMax * kEscapedBytesMax> escaped;
    const char* const end = write_json_escaped(shown, escaped.data());
    put(R"(\")");
    out_ =
        write_json_escaped({escaped.data(), static_cast<std::size_t>(end - escaped.data())}, out_);
    if (shown.size() < identifier.size()) put("...");
    put(R"(\")");
}

}  // namespace tidegate::telemetry
