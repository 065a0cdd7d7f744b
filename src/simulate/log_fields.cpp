#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "simulate/log.hpp"
#include "usage/json_reader.hpp"

namespace tidegate::simulate {

namespace {

using Kind = LogField::Kind;

constexpr std::size_t index_of(LogText text) {
    return static_cast<std::size_t>(text);
}
constexpr std::size_t index_of(LogNumber number) {
    return static_cast<std::size_t>(number);
}

struct MappedName {
    std::string_view name;
    Kind kind;
    std::size_t index = 0;
};

// What --map may name, beside `header:`, `cookie:` and `claim:`.
constexpr auto kMappedNames = std::to_array<MappedName>({
    {"time", Kind::begin},
    {"end", Kind::end},
    {"client", Kind::text, index_of(LogText::client)},
    {"method", Kind::text, index_of(LogText::method)},
    {"path", Kind::text, index_of(LogText::target)},
    {"request", Kind::request},
    {"host", Kind::text, index_of(LogText::host)},
    {"user", Kind::text, index_of(LogText::user)},
    {"tier", Kind::text, index_of(LogText::tier)},
    {"status", Kind::number, index_of(LogNumber::status)},
    {"duration", Kind::seconds},
    {"duration_ms", Kind::millis},
    {"duration_us", Kind::micros},
    {"duration_ns", Kind::nanos},
    {"model", Kind::text, index_of(LogText::model)},
    {"usage_input", Kind::number, index_of(LogNumber::usage_input)},
    {"usage_cached", Kind::number, index_of(LogNumber::usage_cached)},
    {"usage_cache_write", Kind::number, index_of(LogNumber::usage_cache_write)},
    {"usage_output", Kind::number, index_of(LogNumber::usage_output)},
    {"usage_cost", Kind::number, index_of(LogNumber::usage_cost)},
});

constexpr std::array<std::string_view, 3> kValueKinds{"header:", "cookie:", "claim:"};
constexpr std::string_view kForwardedFor = "header:x-forwarded-for";

const MappedName* find_name(std::string_view name) {
    const auto* const found = std::find_if(kMappedNames.begin(), kMappedNames.end(),
                                           [&](const MappedName& one) { return one.name == name; });
    return found != kMappedNames.end() ? found : nullptr;
}

bool is_value_name(std::string_view name) {
    return std::any_of(kValueKinds.begin(), kValueKinds.end(), [&](std::string_view kind) {
        return name.starts_with(kind) && name.size() > kind.size();
    });
}

// `x-tenant` as Go writes names of fields: `X-Tenant`.
std::string canonical(std::string_view name) {
    std::string out(name);
    bool begins = true;
    for (char& c : out) {
        c = begins ? to_upper(c) : to_lower(c);
        begins = c == '-';
    }
    return out;
}

bool is_duration(Kind kind) {
    return kind == Kind::seconds || kind == Kind::millis || kind == Kind::micros ||
           kind == Kind::nanos;
}

bool says_nothing(std::string_view text) {
    return text.empty() || text == "-" || text == "null";
}

// Writes `text` to `room` with `%41` as `A`; identifiers have no other escapes.
std::string_view without_percents(std::string_view text, std::string& room) {
    room.clear();
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int byte =
            text[i] == '%' && i + 2 < text.size() ? hex_byte(text[i + 1], text[i + 2]) : -1;
        room += byte < 0 ? text[i] : static_cast<char>(byte);
        if (byte >= 0) i += 2;
    }
    return room;
}

void append_utf8(char32_t code, std::string& out) {
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xc0 | code >> 6);
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        out += static_cast<char>(0xe0 | code >> 12);
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    } else {
        out += static_cast<char>(0xf0 | code >> 18);
        out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
        out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
        out += static_cast<char>(0x80 | (code & 0x3f));
    }
}

// The number that the four digits of `\uHHHH` at `at` write; -1: there are none.
int unit_at(std::string_view text, std::size_t at) {
    if (at + 6 > text.size() || text[at] != '\\' || text[at + 1] != 'u') return -1;
    const int high = hex_byte(text[at + 2], text[at + 3]);
    const int low = hex_byte(text[at + 4], text[at + 5]);
    return high < 0 || low < 0 ? -1 : high << 8 | low;
}

// Appends what the escape at `at` means. Returns how long it is.
std::size_t append_escape(std::string_view text, std::size_t at, std::string& out) {
    if (const int unit = unit_at(text, at); unit >= 0) {
        const int second = unit >= 0xd800 && unit < 0xdc00 ? unit_at(text, at + 6) : -1;
        if (second >= 0xdc00 && second < 0xe000) {
            append_utf8(
                static_cast<char32_t>(0x10000 + ((unit - 0xd800) << 10) + (second - 0xdc00)), out);
            return 12;
        }
        const bool is_half = unit >= 0xd800 && unit < 0xe000;
        append_utf8(is_half ? U'\ufffd' : static_cast<char32_t>(unit), out);
        return 6;
    }
    const char c = at + 1 < text.size() ? text[at + 1] : '\\';
    if (c == 'x' && at + 3 < text.size()) {
        if (const int byte = hex_byte(text[at + 2], text[at + 3]); byte >= 0) {
            out += static_cast<char>(byte);
            return 4;
        }
    }
    constexpr std::string_view kNames = "nrtbfv";
    constexpr std::string_view kMeans = "\n\r\t\b\f\v";
    const std::size_t name = kNames.find(c);
    out += name != kNames.npos ? kMeans[name] : c;
    return 2;
}

}  // namespace

std::string_view unescaped(std::string_view text, std::string& room) {
    if (text.find('\\') == text.npos) return text;
    room.clear();
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] == '\\') {
            at += append_escape(text, at, room);
        } else {
            room += text[at++];
        }
    }
    return room;
}

std::optional<RecordedCharge> take_recorded_charge(std::string_view& rest) {
    constexpr std::size_t kDigestBytes = 32;
    std::string_view text = take_until(rest, ';');
    const auto word = [&text] { return take_until(text, ' '); };
    RecordedCharge charge;
    charge.policy = word();
    charge.identifier = word();
    const auto cost = parse_number<std::int64_t>(word());
    charge.tier = word();
    const bool is_digest = charge.identifier.size() == kDigestBytes &&
                           std::all_of(charge.identifier.begin(), charge.identifier.end(),
                                       [](char c) { return hex_value(c) >= 0; });
    if (charge.policy.empty() || !is_digest || !text.empty() || !cost || *cost < 0 ||
        *cost > limit::kMoneyMax) {
        return std::nullopt;
    }
    charge.cost = *cost;
    return charge;
}

std::vector<std::string_view> mapped_names() {
    std::vector<std::string_view> names;
    names.reserve(std::size(kMappedNames) + 3);
    for (const MappedName& one : kMappedNames) names.push_back(one.name);
    names.insert(names.end(), {"header:NAME", "cookie:NAME", "claim:NAME"});
    return names;
}

Result<LogMapping, std::string> parse_mapping(std::string_view text) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || equals == 0 || equals + 1 == text.size()) {
        return ErrorMessage{quote(text) + " is not `NAME=FIELD`, such as `path=request.uri`"};
    }
    LogMapping mapping{std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
    if (mapping.ours.starts_with("header:")) mapping.ours = to_lower(std::move(mapping.ours));
    if (find_name(mapping.ours) == nullptr && !is_value_name(mapping.ours)) {
        std::string names;
        for (const std::string_view name : mapped_names()) {
            names.append(names.empty() ? "" : ", ").append(name);
        }
        return ErrorMessage{quote(mapping.ours) + " is no name that can be mapped: " + names};
    }
    if (!usage::is_json_pointer(usage::json_pointer_of(mapping.theirs))) {
        return ErrorMessage{quote(mapping.theirs) +
                            " names no member: write `request.uri` or `/request/uri`, or for "
                            "lines of text the number of a word"};
    }
    return mapping;
}

void LoggedRequest::reset(std::size_t value_count) {
    time = again = Micros{0};
    is_whole_second = is_end = false;
    numbers.fill(kUnknown);
    texts.fill({});
    values.assign(value_count, {});
    address.reset();
}

LogFields::LogFields(LogFormat format, const LogLayout& layout)
    : wanted_(layout.wanted), zone_(layout.zone), value_rooms_(layout.wanted.size()) {
    for (const LogMapping& one : layout.map) {
        const std::string theirs =
            is_json(format) ? usage::json_pointer_of(one.theirs) : one.theirs;
        if (const MappedName* const name = find_name(one.ours)) {
            add(name->kind, name->index, theirs);
        } else if (one.ours == kForwardedFor) {
            add(Kind::text, index_of(LogText::forwarded_for), theirs);
        }
        const auto wanted = std::find(wanted_.begin(), wanted_.end(), one.ours);
        if (wanted != wanted_.end()) {
            add(Kind::value, static_cast<std::size_t>(wanted - wanted_.begin()), theirs);
        }
    }
    mapped_ = fields_.size();
    add_defaults(format);
    add_wanted(format);
}

// A fact that --map names has no other place, also in another unit; a format may have several
// places for one.
void LogFields::add(Kind kind, std::size_t index, std::string theirs) {
    const auto is_mapped = [&](const LogField& one) {
        const bool is_time = kind == Kind::begin || kind == Kind::end;
        const bool has_time = one.kind == Kind::begin || one.kind == Kind::end;
        return (one.kind == kind && one.index == index) || (is_time && has_time) ||
               (is_duration(kind) && is_duration(one.kind));
    };
    const auto end = fields_.begin() + static_cast<std::ptrdiff_t>(mapped_);
    if (std::any_of(fields_.begin(), end, is_mapped)) return;
    fields_.push_back({kind, index, std::move(theirs)});
}

void LogFields::add_defaults(LogFormat format) {
    const auto text = [&](LogText which, const char* theirs) {
        add(Kind::text, index_of(which), theirs);
    };
    const auto number = [&](LogNumber which, const char* theirs) {
        add(Kind::number, index_of(which), theirs);
    };
    if (format == LogFormat::caddy) {
        add(Kind::end, 0, "/ts");
        text(LogText::client, "/request/client_ip");
        text(LogText::client, "/request/remote_ip");
        text(LogText::client, "/request/remote_addr");  // with its port, before Caddy 2.5
        text(LogText::method, "/request/method");
        text(LogText::host, "/request/host");
        text(LogText::target, "/request/uri");
        text(LogText::user, "/user_id");
        number(LogNumber::status, "/status");
        add(Kind::seconds, 0, "/duration");
    } else if (format == LogFormat::traefik) {
        add(Kind::begin, 0, "/StartUTC");
        add(Kind::begin, 0, "/StartLocal");
        text(LogText::client, "/ClientHost");
        text(LogText::method, "/RequestMethod");
        text(LogText::host, "/RequestHost");
        text(LogText::target, "/RequestPath");
        text(LogText::user, "/ClientUsername");
        number(LogNumber::status, "/DownstreamStatus");
        add(Kind::nanos, 0, "/Duration");
    } else if (format == LogFormat::recording) {
        add(Kind::begin, 0, "/at");
        text(LogText::charges, "/charges");
        number(LogNumber::refused_elsewhere, "/refused_elsewhere");
        number(LogNumber::status, "/status");
        add(Kind::micros, 0, "/took_us");
    } else if (format == LogFormat::tidegate || format == LogFormat::logfmt) {
        const std::string slash = format == LogFormat::tidegate ? "/" : "";
        add(Kind::begin, 0, slash + "time");
        for (const char* const name :
             {"client", "method", "path", "host", "tier", "status", "duration_us", "usage_input",
              "usage_cached", "usage_cache_write", "usage_output", "usage_cost"}) {
            const MappedName* const mapped = find_name(name);
            add(mapped->kind, mapped->index, slash + name);
        }
        add(Kind::text, index_of(LogText::model), slash + "usage_model");
        add(Kind::text, index_of(LogText::answer_model), slash + "usage_answer_model");
        if (format == LogFormat::logfmt) return add(Kind::identifiers, 0, "identifiers");
        constexpr int kIdentifiersMax = 16;
        for (int i = 0; i < kIdentifiersMax; ++i) {
            fields_.push_back({Kind::identifiers, 0, "/identifiers/" + std::to_string(i)});
        }
    }
}

void LogFields::add_wanted(LogFormat format) {
    constexpr std::string_view kHeader = "header:";
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
        if (!wanted_[i].starts_with(kHeader)) continue;
        const std::string name = canonical(std::string_view(wanted_[i]).substr(kHeader.size()));
        if (format == LogFormat::caddy) add(Kind::value, i, "/request/headers/" + name + "/0");
        if (format == LogFormat::traefik) add(Kind::value, i, "/request_" + name);
    }
}

bool LogFields::gives(Kind kind, std::size_t index) const {
    return std::any_of(fields_.begin(), fields_.end(),
                       [&](const LogField& one) { return one.kind == kind && one.index == index; });
}

bool LogFields::gives_duration() const {
    return gives(Kind::seconds, 0) || gives(Kind::millis, 0) || gives(Kind::micros, 0) ||
           gives(Kind::nanos, 0);
}

std::string_view LogFields::take_time(std::string_view text, LoggedRequest& out) {
    if (text != last_time_text_ || text.empty()) {
        last_time_ = read_log_time(text, zone_.get());
        last_time_text_.assign(text);
    }
    out.time = last_time_.at;
    out.again = last_time_.again;
    out.is_whole_second = last_time_.is_whole_second;
    return last_time_.fault;
}

bool LogFields::repeat_time(LoggedRequest& out) const {
    if (last_time_text_.empty() || !last_time_.fault.empty()) return false;
    out.time = last_time_.at;
    out.again = last_time_.again;
    out.is_whole_second = last_time_.is_whole_second;
    return true;
}

void LogFields::take_request(std::string_view line, LoggedRequest& out) {
    const std::size_t space = line.find(' ');
    if (space == line.npos || space == 0) return;
    const std::size_t last = line.rfind(' ');
    const bool has_version = last > space && line.substr(last + 1).starts_with("HTTP/");
    // HTTP/0.9 has no version.
    const std::string_view target =
        has_version ? line.substr(space + 1, last - space - 1) : line.substr(space + 1);
    if (out.text(LogText::method).empty()) out.text(LogText::method) = line.substr(0, space);
    if (out.text(LogText::target).empty()) {
        out.text(LogText::target) = unescaped(target, target_room_);
    }
}

void LogFields::take_identifier(std::string_view identifier, LoggedRequest& out) {
    constexpr std::string_view kUser = "user:";
    if (identifier.starts_with(kUser)) {
        std::string_view& user = out.text(LogText::user);
        if (user.empty()) user = without_percents(identifier.substr(kUser.size()), user_room_);
        return;
    }
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
        const std::string& name = wanted_[i];
        if (!identifier.starts_with(name) || identifier.size() <= name.size()) continue;
        if (identifier[name.size()] != '=') continue;
        out.values[i] = without_percents(identifier.substr(name.size() + 1), value_rooms_[i]);
    }
}

// Items with a comma, a quote or a space are in quotes.
void LogFields::take_identifiers(std::string_view list, LoggedRequest& out) {
    while (!list.empty()) {
        std::size_t end = std::min(list.find(','), list.size());
        if (list.front() == '"') {
            end = 1;
            while (end < list.size() && list[end] != '"') end += list[end] == '\\' ? 2 : 1;
            if (end >= list.size()) return;
            std::string room;
            take_identifier(unescaped(list.substr(1, end - 1), room), out);
            ++end;
        } else {
            take_identifier(list.substr(0, end), out);
        }
        list.remove_prefix(std::min(end + 1, list.size()));
    }
}

std::string_view LogFields::take(const LogField& field, std::string_view text, LoggedRequest& out) {
    if (says_nothing(text)) return {};
    const auto take_duration = [&](double micros) {
        const auto number = parse_number<std::int64_t>(text);
        constexpr std::int64_t kMost = std::int64_t{1} << 50;
        auto taken = number && *number >= 0 && *number < kMost && micros != 1e6
                         ? std::optional<std::int64_t>(
                               static_cast<std::int64_t>(static_cast<double>(*number) * micros))
                         : read_log_duration(text);
        const bool has_unit = !is_digit(text.back());
        // `12.5` milliseconds.
        if (!number && taken && !has_unit && micros != 1e6) {
            taken = static_cast<std::int64_t>(static_cast<double>(*taken) * micros / 1e6);
        }
        if (taken) out.number(LogNumber::duration_us) = *taken;
    };
    switch (field.kind) {
        case Kind::text:
            if (out.texts[field.index].empty()) out.texts[field.index] = text;
            return {};
        case Kind::number: {
            constexpr std::int64_t kMost = std::int64_t{1} << 53;
            const auto number = parse_number<std::int64_t>(text);
            if (number && *number >= 0 && *number <= kMost) out.numbers[field.index] = *number;
            return {};
        }
        case Kind::value:
            if (out.values[field.index].empty()) out.values[field.index] = text;
            return {};
        case Kind::begin:
        case Kind::end:
            if (out.time.count() != 0) return {};
            out.is_end = field.kind == Kind::end;
            return take_time(text, out);
        case Kind::seconds:
            take_duration(1e6);
            return {};
        case Kind::millis:
            take_duration(1e3);
            return {};
        case Kind::micros:
            take_duration(1);
            return {};
        case Kind::nanos:
            take_duration(1e-3);
            return {};
        case Kind::request:
            take_request(text, out);
            return {};
        case Kind::identifiers:
            take_identifiers(text, out);
            return {};
    }
    return {};
}

std::string_view LogFields::take_named(std::string_view name, std::string_view text,
                                       LoggedRequest& out) {
    for (const LogField& field : fields_) {
        if (field.theirs != name) continue;
        if (const std::string_view fault = take(field, text, out); !fault.empty()) return fault;
    }
    return {};
}

}  // namespace tidegate::simulate
