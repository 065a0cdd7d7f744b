#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/ip.hpp"
#include "base/text.hpp"
#include "simulate/log.hpp"
#include "usage/json_reader.hpp"

namespace tidegate::simulate {

namespace {

constexpr std::string_view kNotCommon =
    "the line is not in the common log format: `client - user [time] \"request\" status bytes`";
constexpr std::string_view kTextInFront =
    "the line has text before the client, such as that of syslog: a line begins with the client's "
    "address, or with the name of the server and the address";
constexpr std::string_view kInDockersJson =
    "the lines of the log are texts in JSON, as Docker keeps them: write `jq -j .log FILE | "
    "tidegate "
    "simulate ... -`";
constexpr std::string_view kNotHaproxy =
    "the line is not in HAProxy's HTTP format: `client:port [time] frontend backend/server timers "
    "status ... \"request\"`";
constexpr std::string_view kNotAlb = "the line is not one of an AWS application load balancer";
constexpr std::string_view kNotJson = "the line is not a JSON object";
constexpr std::string_view kNotLogfmt = "the line is not `name=value` with spaces between";
constexpr std::string_view kNotRecorded =
    "the line is not one that `tidegate simulate --record` has written";
constexpr std::string_view kNoTimeField = "the line does not say when the request came";
constexpr std::string_view kNotAddress =
    "the client is not an address: set `HostnameLookups Off` where Apache logs host names, or say "
    "by --map client=FIELD where the line has the address";
constexpr std::string_view kTooLong = "the line has more than 65,535 bytes";

// As rfind(), by the vector instructions of the C library.
std::size_t last_of(std::string_view text, char c) {
    const void* const found = ::memrchr(text.data(), c, text.size());
    return found != nullptr
               ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data())
               : text.npos;
}

// Where the quoted text ends that begins at `open`; npos: nowhere. A backslash escapes.
std::size_t end_of_quoted(std::string_view line, std::size_t open) {
    for (std::size_t at = open + 1;;) {
        const std::size_t quote = line.find('"', at);
        if (quote == line.npos) return quote;
        std::size_t slashes = 0;
        while (quote - slashes > at && line[quote - slashes - 1] == '\\') ++slashes;
        if (slashes % 2 == 0) return quote;
        at = quote + 1;
    }
}

// Cuts the next word off `line`. What is in quotes or brackets is one word, without these.
std::string_view take_word(std::string_view& line) {
    while (line.starts_with(' ')) line.remove_prefix(1);
    if (line.empty()) return {};
    const char first = line.front();
    std::size_t begin = 0;
    std::size_t end = line.npos;
    if (first == '"') end = end_of_quoted(line, 0);
    if (first == '[') end = line.find(']');
    if (first == '{') end = line.find('}');
    const bool is_whole = end != line.npos && (end + 1 == line.size() || line[end + 1] == ' ');
    if (is_whole) {
        begin = 1;
    } else {
        end = std::min(line.find(' '), line.size());
    }
    const std::string_view word = line.substr(begin, end - begin);
    line.remove_prefix(std::min(end + (is_whole ? 1 : 0), line.size()));
    return word;
}

// `12` or, of what HAProxy captured, `12.2`: a word, and a part of it between `|`.
struct WordPlace {
    std::size_t word = 0;  // from 1 on; 0: it is no number
    std::size_t part = 0;  // from 1 on; 0: the whole word
};

WordPlace place_of(std::string_view text) {
    const std::size_t dot = std::min(text.find('.'), text.size());
    WordPlace place;
    place.word = parse_number<std::size_t>(text.substr(0, dot)).value_or(0);
    if (dot < text.size()) place.part = parse_number<std::size_t>(text.substr(dot + 1)).value_or(0);
    return place;
}

std::string_view part_of(std::string_view word, std::size_t part) {
    for (; part > 1; --part) {
        const std::size_t bar = word.find('|');
        if (bar == word.npos) return {};
        word.remove_prefix(bar + 1);
    }
    return part == 0 ? word : word.substr(0, word.find('|'));
}

bool is_status(std::string_view text) {
    return text == "-" ||
           (text.size() == 3 && is_digit(text[0]) && is_digit(text[1]) && is_digit(text[2]));
}

// Requires is_status(text).
void take_status(std::string_view text, LoggedRequest& out) {
    if (text == "-") return;
    out.number(LogNumber::status) = (text[0] - '0') * 100 + (text[1] - '0') * 10 + (text[2] - '0');
}

// `0.012`, as nginx writes $request_time.
bool is_request_time(std::string_view text) {
    return text.size() >= 5 && text[text.size() - 4] == '.' &&
           std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '.'; });
}

// `203.0.113.7` or `203.0.113.7, 10.0.0.1`: no text of another field.
bool is_address_list(std::string_view text) {
    const std::string_view first = text.substr(0, text.find(','));
    return !text.empty() && parse_ip(trimmed(first)).has_value();
}

bool is_port(std::string_view text) {
    constexpr std::size_t kDigitsMax = 5;
    return !text.empty() && text.size() <= kDigitsMax &&
           std::all_of(text.begin(), text.end(), is_digit);
}

// An address in a line: what it is, and its text without port and zone.
struct LoggedAddress {
    std::optional<IpAddress> address;
    std::string_view text{};
};

// The address in `203.0.113.7:4711`, `[2001:db8::1]:4711` or `fe80::1%eth0`, if there is one.
LoggedAddress address_in(std::string_view text) {
    if (const auto plain = parse_ip(text)) return {plain, text};
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == text.npos) return {};
        const std::string_view behind = text.substr(close + 1);
        const bool is_end = behind.empty() || (behind.front() == ':' && is_port(behind.substr(1)));
        if (!is_end) return {};
        text = text.substr(1, close - 1);
    } else if (const std::size_t colon = text.find(':');
               colon != text.npos && text.find(':', colon + 1) == text.npos) {
        if (!is_port(text.substr(colon + 1))) return {};
        text = text.substr(0, colon);
    }
    return {parse_scoped_ip(text), text.substr(0, text.find('%'))};
}

// `api.example:443` or `[2001:db8::1]:443`, and no address alone, which may be a client's.
bool is_server_name(std::string_view text) {
    return !parse_scoped_ip(text) && std::all_of(text.begin(), text.end(), [](char c) {
        return is_alphanumeric(c) || std::string_view(".:-_*[]").find(c) != std::string_view::npos;
    });
}

// The address in `203.0.113.7:4711` or `2001:db8::1:4711`, whose port is behind the last colon, as
// HAProxy and AWS write it. Other texts as they are.
std::string_view before_port(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos || !is_port(text.substr(colon + 1))) return text;
    const std::string_view address = text.substr(0, colon);
    return parse_scoped_ip(address) ? address : text;
}

}  // namespace

struct LogReader::Impl {
    Impl(LogFormat of, const LogLayout& layout)
        : format(of), fields(of, layout), host(layout.host) {
        value_count = layout.wanted.size();
        needs_address = layout.needs_address;
        if (is_json(format)) {
            prepare_json();
            return;
        }
        for (const LogField& field : fields.all()) places.push_back(place_of(field.theirs));
        has_words = std::any_of(places.begin(), places.end(),
                                [](const WordPlace& place) { return place.word > 0; });
    }

    void prepare_json() {
        std::vector<std::string> distinct;
        for (const LogField& field : fields.all()) {
            auto found = std::find(distinct.begin(), distinct.end(), field.theirs);
            if (found == distinct.end()) found = distinct.insert(distinct.end(), field.theirs);
            members.push_back(static_cast<std::size_t>(found - distinct.begin()));
        }
        rooms.resize(distinct.size());
        pointers = std::make_unique<usage::JsonPointers>(distinct);
        // An absent member leaves its room empty.
        const auto keep = [this](const usage::JsonReader::Members& found) {
            for (std::size_t i = 0; i < found.size(); ++i) {
                if (found[i].is_scalar() && !found[i].too_long) rooms[i].assign(found[i].text);
            }
        };
        constexpr std::size_t kTextMax = 16'384;
        json = std::make_unique<usage::JsonReader>(
            *pointers, usage::JsonReader::Options{.text_max = kTextMax}, keep);
    }

    std::string_view read(std::string_view line, LoggedRequest& out) {
        if (line.size() > kLineBytesMax) return kTooLong;
        out.reset(value_count);
        if (has_words) {
            if (const auto wrong = read_words(line, out); !wrong.empty()) return wrong;
        }
        switch (format) {
            case LogFormat::common:
            case LogFormat::combined:
                return read_common(line, out);
            case LogFormat::haproxy:
                return read_haproxy(line, out);
            case LogFormat::alb:
                return read_alb(line, out);
            case LogFormat::logfmt:
                return read_pairs(line, out) && out.time.count() > 0 ? fault : not_pairs();
            case LogFormat::caddy:
            case LogFormat::traefik:
            case LogFormat::tidegate:
            case LogFormat::json:
                return read_json(line, out);
            case LogFormat::recording:
                return read_recorded(line, out);
        }
        return {};
    }

    // Makes the client an address. False: it is none, and the request needs one. A proxy of our own
    // that listens at a path has clients without one.
    bool take_address(LoggedRequest& out) {
        std::string_view& client = out.text(LogText::client);
        if (client == "-") client = {};
        const LoggedAddress found = address_in(client);
        out.address = found.address;
        if (found.address) {
            client = found.text;
            return true;
        }
        const bool is_own =
            format == LogFormat::tidegate || format == LogFormat::logfmt || format_has_pairs;
        return !needs_address || (is_own && client.empty()) || out.text(LogText::method).empty();
    }

    std::string_view not_pairs() const { return fault.empty() ? kNotLogfmt : fault; }

    // What --map says of words by their number.
    std::string_view read_words(std::string_view line, LoggedRequest& out) {
        for (std::size_t number = 1; !line.empty(); ++number) {
            const std::string_view word = take_word(line);
            for (std::size_t i = 0; i < places.size(); ++i) {
                if (places[i].word != number) continue;
                const auto why = fields.take(fields.all()[i], part_of(word, places[i].part), out);
                if (!why.empty()) return why;
            }
        }
        return {};
    }

    std::string_view read_common(std::string_view line, LoggedRequest& out) {
        std::size_t quote = line.find('"');
        // Apache writes an empty user as `""`.
        if (quote != line.npos && line.substr(quote).starts_with("\"\" [")) {
            quote = line.find('"', quote + 2);
        }
        if (quote == line.npos || quote < 6) return kNotCommon;
        const std::size_t bracket = last_of(line.substr(0, quote), '[');
        if (bracket == line.npos || bracket < 5 || line[bracket - 1] != ' ' ||
            line[quote - 1] != ' ' || line[quote - 2] != ']') {
            return kNotCommon;
        }
        if (out.time.count() == 0) {
            const auto why = fields.take_time(line.substr(bracket + 1, quote - 3 - bracket), out);
            if (!why.empty()) return why;
        }
        const auto unclear = take_names(line.substr(0, bracket - 1), out);
        if (!unclear.empty()) return unclear;
        const std::size_t end = end_of_quoted(line, quote);
        if (end == line.npos) return kNotCommon;
        fields.take_request(line.substr(quote + 1, end - quote - 1), out);
        std::string_view rest = line.substr(end + 1);
        const std::string_view status = take_word(rest);
        if (!is_status(status)) return kNotCommon;
        take_status(status, out);
        (void)take_word(rest);
        return take_extras(rest, out);
    }

    // `client ident user`, and with the name of the server before it where Apache logs that. Only
    // behind the address of a client a user may have spaces: else these are words of another kind.
    std::string_view take_names(std::string_view names, LoggedRequest& out) {
        std::string_view user = names;
        std::string_view client = take_until(user, ' ');
        if (client.size() == names.size()) return kNotCommon;
        std::string_view ident = take_until(user, ' ');
        if (user.find(' ') != user.npos) {
            bool is_clear = true;
            if (address_in(ident).address) {
                is_clear = is_server_name(client);
                if (is_clear && client != "-") take_server_name(client, out);
                client = ident;
                ident = take_until(user, ' ');
            }
            const bool has_spaces = user.find(' ') != user.npos;
            if (has_spaces) is_clear = is_clear && ident == "-" && address_in(client).address;
            if (!is_clear) {
                // By --map the client is known, whatever is before it.
                if (out.text(LogText::client).empty()) return kTextInFront;
                user.remove_prefix(user.rfind(' ') + 1);
            }
        }
        if (out.text(LogText::client).empty()) out.text(LogText::client) = client;
        if (out.text(LogText::user).empty() && user != "-" && user != "\"\"") {
            out.text(LogText::user) = user;
        }
        return {};
    }

    void take_server_name(std::string_view name, LoggedRequest& out) {
        has_server_names = true;
        if (out.text(LogText::host).empty()) out.text(LogText::host) = name;
    }

    // Behind the bytes: Referer and User-Agent, then what the operator has added, or the pairs of
    // our own text form.
    std::string_view take_extras(std::string_view rest, LoggedRequest& out) {
        if (rest.size() < 2) return {};
        // Without anything behind the user agent in the first lines, only a line that does not end
        // with a quote has something there.
        if (lines > kTellingLines && !has_extras && rest.back() == '"') return {};
        ++lines;
        if (rest.starts_with(" id=\"")) {
            has_extras = true;
            format_has_pairs = true;
            return read_pairs(rest, out) ? fault : std::string_view(kNotCommon);
        }
        for (std::size_t number = 1; !rest.empty(); ++number) {
            const bool is_quoted = rest.starts_with(" \"");
            std::string_view word = take_word(rest);
            if (number <= 2 && is_quoted) continue;
            has_extras = true;
            for (const std::string_view name : {"rt=", "request_time="}) {
                if (word.starts_with(name)) word.remove_prefix(name.size());
            }
            const auto took = is_request_time(word) ? read_log_duration(word) : std::nullopt;
            if (took && !knows_duration(out)) {
                out.number(LogNumber::duration_us) = *took;
                out.is_end = true;
            } else if (is_quoted && number == 3 && is_address_list(word)) {
                out.text(LogText::forwarded_for) = word;
            }
        }
        return {};
    }

    static bool knows_duration(const LoggedRequest& out) {
        return out.number(LogNumber::duration_us) != LoggedRequest::kUnknown;
    }

    // `name=value name="value"`. False: it is not.
    bool read_pairs(std::string_view rest, LoggedRequest& out) {
        fault = {};
        std::size_t count = 0;
        while (!rest.empty()) {
            while (rest.starts_with(' ')) rest.remove_prefix(1);
            if (rest.empty()) break;
            const std::size_t equals = rest.find('=');
            if (equals == rest.npos || rest.substr(0, equals).find_first_of(" \"") != rest.npos) {
                return false;
            }
            const std::string_view name = rest.substr(0, equals);
            rest.remove_prefix(equals + 1);
            std::string_view value;
            if (rest.starts_with('"')) {
                const std::size_t end = end_of_quoted(rest, 0);
                if (end == rest.npos) return false;
                if (rooms.size() <= count) rooms.resize(count + 1);
                value = unescaped(rest.substr(1, end - 1), rooms[count]);
                rest.remove_prefix(end + 1);
            } else {
                value = rest.substr(0, rest.find(' '));
                rest.remove_prefix(value.size());
            }
            constexpr std::size_t kPairsMax = 256;
            if (++count > kPairsMax) return false;
            fault = take_pair(name, value, out);
            if (!fault.empty()) return true;
        }
        return count > 0;
    }

    std::string_view take_pair(std::string_view name, std::string_view value, LoggedRequest& out) {
        if (format == LogFormat::logfmt) return fields.take_named(name, value, out);
        // Our text form has the names of logfmt, and no times among its pairs.
        if (name == "identifiers") return fields.take(identifiers, value, out);
        if (name == "host" && out.text(LogText::host).empty()) out.text(LogText::host) = value;
        if (name == "tier" && out.text(LogText::tier).empty()) out.text(LogText::tier) = value;
        if (name == "usage_model") out.text(LogText::model) = value;
        if (name == "usage_answer_model") out.text(LogText::answer_model) = value;
        const auto number = [&](LogNumber which) {
            const auto read = parse_number<std::int64_t>(value);
            if (read && *read >= 0) out.number(which) = *read;
        };
        for (const LogNumber which : kEnumerators<LogNumber>) {
            if (which != LogNumber::status && name == to_string(which)) number(which);
        }
        return {};
    }

    // `Proxy www stopped (...)`, also behind `haproxy[7]: ` of syslog: what HAProxy says of itself.
    static bool is_haproxy_message(std::string_view line) {
        const std::size_t name = line.find("haproxy");
        const std::size_t colon = name == line.npos ? name : line.find(": ", name);
        if (colon != line.npos) line.remove_prefix(colon + 2);
        constexpr std::array<std::string_view, 8> kBegins{
            "Proxy ",           "Server ",  "Backend ",  "backend ",
            "Health check for", "[NOTICE]", "[WARNING]", "[ALERT]"};
        return std::any_of(kBegins.begin(), kBegins.end(),
                           [&](std::string_view begin) { return line.starts_with(begin); });
    }

    std::string_view read_haproxy(std::string_view line, LoggedRequest& out) {
        std::size_t bracket = line.find(" [");
        // `haproxy[123]:` of syslog has no space before its bracket.
        while (bracket != line.npos &&
               !(bracket + 4 < line.size() && is_digit(line[bracket + 2]) &&
                 (line[bracket + 4] == '/' || is_digit(line[bracket + 4])))) {
            bracket = line.find(" [", bracket + 1);
        }
        if (bracket == line.npos) {
            const bool is_known = is_haproxy_message(line) && fields.repeat_time(out);
            return is_known ? std::string_view() : kNotHaproxy;
        }
        const std::size_t close = line.find(']', bracket);
        if (close == line.npos) return kNotHaproxy;
        if (out.time.count() == 0) {
            const auto why = fields.take_time(line.substr(bracket + 2, close - bracket - 2), out);
            if (!why.empty()) return why;
        }
        const std::size_t before = line.rfind(' ', bracket - (bracket > 0 ? 1 : 0));
        const std::size_t begin = before == line.npos ? 0 : before + 1;
        if (out.text(LogText::client).empty()) {
            out.text(LogText::client) = before_port(line.substr(begin, bracket - begin));
        }
        return take_haproxy_rest(line.substr(close + 1), out);
    }

    // ` www~/1: SSL handshake failure`: of a connection without a request.
    static bool is_haproxy_fault(std::string_view rest) {
        const std::string_view place = take_word(rest);
        return place.ends_with(':') && place.find('/') != place.npos && rest.size() > 1;
    }

    // ` www be/s1 0/0/5007 212 -- 0/0/0/0/3 0/0`: of a connection that went on as TCP.
    static bool is_haproxy_tcp(std::string_view rest) {
        std::array<std::string_view, 6> words;  // the place, timers, bytes, state and connections
        for (std::string_view& word : words) word = take_word(rest);
        const auto slashes = [](std::string_view word) {
            return std::count(word.begin(), word.end(), '/');
        };
        const std::string_view bytes = words[3].substr(words[3].starts_with('+') ? 1 : 0);
        return slashes(words[1]) == 1 && slashes(words[2]) == 2 && slashes(words[5]) == 4 &&
               words[4].size() == 2 && parse_number<std::int64_t>(bytes).has_value();
    }

    std::string_view take_haproxy_rest(std::string_view rest, LoggedRequest& out) {
        const std::size_t quote = rest.find('"');
        if (quote == rest.npos) {
            const bool has_no_request = is_haproxy_fault(rest) || is_haproxy_tcp(rest);
            return has_no_request ? std::string_view() : kNotHaproxy;
        }
        std::string_view words = rest.substr(0, quote);
        std::array<std::string_view, 4> first;  // frontend, backend/server, timers, status
        for (std::string_view& word : first) word = take_word(words);
        if (!is_status(first[3]) && first[3] != "-1") return kNotHaproxy;
        take_status(first[3] == "-1" ? "-" : first[3], out);
        const std::string_view total = first[2].substr(first[2].rfind('/') + 1);
        const auto millis =
            parse_number<std::int64_t>(total.starts_with('+') ? total.substr(1) : total);
        if (millis && *millis >= 0 && *millis < INT32_MAX && !knows_duration(out)) {
            out.number(LogNumber::duration_us) = *millis * 1'000;
        }
        // A long request is cut, and has no quote at its end then.
        const std::size_t end = end_of_quoted(rest, quote);
        fields.take_request(rest.substr(quote + 1, end == rest.npos ? end : end - quote - 1), out);
        return {};
    }

    std::string_view read_alb(std::string_view line, LoggedRequest& out) {
        constexpr std::size_t kWords = 22;
        std::array<std::string_view, kWords> words;
        std::size_t count = 0;
        while (count < kWords && !line.empty()) words[count++] = take_word(line);
        constexpr std::array<std::string_view, 6> kTypes{"http",  "https", "h2",
                                                         "grpcs", "ws",    "wss"};
        if (count < 13 || std::find(kTypes.begin(), kTypes.end(), words[0]) == kTypes.end()) {
            return kNotAlb;
        }
        std::int64_t took = 0;  // word 1 is when the answer was made, word 21 when the request came
        for (std::size_t i = 5; i < 8; ++i) took += read_log_duration(words[i]).value_or(0);
        if (out.time.count() == 0) {
            const bool has_begin = !words[21].empty() && words[21] != "-";
            const auto why = fields.take_time(has_begin ? words[21] : words[1], out);
            if (!why.empty()) return why;
            out.is_end = !has_begin;
        }
        if (!knows_duration(out)) out.number(LogNumber::duration_us) = took;
        if (!is_status(words[8])) return kNotAlb;
        take_status(words[8], out);
        if (out.text(LogText::client).empty()) out.text(LogText::client) = before_port(words[3]);
        // `- http://...- -` is a request that could not be read.
        if (!words[12].starts_with("- ")) fields.take_request(words[12], out);
        return {};
    }

    std::string_view read_json(std::string_view line, LoggedRequest& out) {
        if (!line.starts_with('{')) return kNotJson;
        for (std::string& room : rooms) room.clear();
        json->read(line);
        if (json->end() != usage::JsonReader::Fault::none) return kNotJson;
        for (std::size_t i = 0; i < members.size(); ++i) {
            const std::string& text = rooms[members[i]];
            if (text.empty()) continue;
            const auto why = fields.take(fields.all()[i], text, out);
            if (!why.empty()) return why;
        }
        return out.time.count() > 0 ? std::string_view() : kNoTimeField;
    }

    std::string_view read_recorded(std::string_view line, LoggedRequest& out) {
        const auto why = read_json(line, out);
        if (!why.empty()) return why;
        std::string_view rest = out.text(LogText::charges);
        if (rest.empty()) return kNotRecorded;
        while (!rest.empty()) {
            if (!take_recorded_charge(rest)) return kNotRecorded;
        }
        return {};
    }

    LogFormat format;
    LogFields fields;
    std::string host;  // of requests whose line names none
    const LogField identifiers{LogField::Kind::identifiers, 0, {}};
    std::size_t value_count = 0;
    bool needs_address = true;
    bool has_words = false;
    std::size_t lines = 0;             // of the common format, until there are enough
    bool has_extras = false;           // behind the user agent
    bool format_has_pairs = false;     // our own text form
    bool has_server_names = false;     // before the clients, in the common format
    std::vector<WordPlace> places;     // of the fields, in lines of text
    std::vector<std::size_t> members;  // of the fields, in lines of JSON
    std::deque<std::string> rooms;     // of members, or of quoted values; they stay where they are
    std::string_view fault;
    std::unique_ptr<usage::JsonPointers> pointers;
    std::unique_ptr<usage::JsonReader> json;
};

LogReader::LogReader(LogFormat format, const LogLayout& layout)
    : impl_(std::make_unique<Impl>(format, layout)) {}
LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;
LogReader& LogReader::operator=(LogReader&&) noexcept = default;

LogFormat LogReader::format() const {
    return impl_->format;
}

std::string_view LogReader::read(std::string_view line, LoggedRequest& out) {
    const std::string_view fault = impl_->read(line, out);
    if (out.text(LogText::host).empty()) out.text(LogText::host) = impl_->host;
    if (!fault.empty() || impl_->take_address(out) || !gives(LogText::client)) return fault;
    return kNotAddress;
}

void LogReader::begin_again() {
    impl_->fields.forget_time();
}

bool LogReader::gives(LogText text) const {
    // Targets of AWS are whole URLs.
    const bool gives_host =
        !impl_->host.empty() || impl_->has_server_names || impl_->format == LogFormat::alb;
    if (text == LogText::host && gives_host) return true;
    if (impl_->fields.gives(LogField::Kind::text, static_cast<std::size_t>(text))) return true;
    if (impl_->format_has_pairs && text != LogText::forwarded_for) return true;
    switch (impl_->format) {
        case LogFormat::common:
        case LogFormat::combined:
            return text == LogText::client || text == LogText::method || text == LogText::target ||
                   text == LogText::user;
        case LogFormat::haproxy:
        case LogFormat::alb:
            return text == LogText::client || text == LogText::method || text == LogText::target;
        case LogFormat::tidegate:
        case LogFormat::logfmt:
            return text == LogText::user;
        default:
            return impl_->fields.gives(LogField::Kind::request, 0) &&
                   (text == LogText::method || text == LogText::target);
    }
}

bool LogReader::gives(LogNumber number) const {
    if (impl_->fields.gives(LogField::Kind::number, static_cast<std::size_t>(number))) return true;
    if (number == LogNumber::duration_us && impl_->fields.gives_duration()) return true;
    if (impl_->format_has_pairs) return true;
    const bool is_text = !is_json(impl_->format) && impl_->format != LogFormat::logfmt;
    if (number == LogNumber::status) return is_text;
    return number == LogNumber::duration_us &&
           (impl_->format == LogFormat::haproxy || impl_->format == LogFormat::alb);
}

bool LogReader::gives_value(std::size_t wanted) const {
    if (impl_->fields.gives(LogField::Kind::value, wanted)) return true;
    return impl_->format == LogFormat::tidegate || impl_->format == LogFormat::logfmt ||
           impl_->format_has_pairs;
}

bool LogReader::gives_query() const {
    return impl_->format != LogFormat::tidegate && impl_->format != LogFormat::logfmt &&
           !impl_->format_has_pairs;
}

Result<LogFormat, std::string> tell_format(std::span<const std::string> lines,
                                           const LogLayout& layout) {
    const bool maps_time =
        std::any_of(layout.map.begin(), layout.map.end(),
                    [](const LogMapping& one) { return one.ours == "time" || one.ours == "end"; });
    LogFormat best = LogFormat::json;
    std::size_t most = 0;
    std::string why;
    LoggedRequest request;
    LogLayout with = layout;
    with.needs_address = false;  // a log of host names has its format, too
    for (const LogFormat format : kEnumerators<LogFormat>) {
        if (format == LogFormat::common) continue;  // read as `combined`
        const bool has_own_time = format == LogFormat::caddy || format == LogFormat::traefik ||
                                  format == LogFormat::tidegate || format == LogFormat::recording;
        if ((format == LogFormat::json && !maps_time) || (has_own_time && maps_time)) continue;
        LogReader reader(format, with);
        std::size_t count = 0;
        for (const std::string& line : lines) {
            const std::string_view fault = reader.read(line, request);
            const bool has_request =
                !request.text(LogText::target).empty() || format == LogFormat::recording;
            if (fault.empty() &&
                (has_request || format == LogFormat::haproxy || format == LogFormat::combined)) {
                ++count;
            } else if (why.empty() &&
                       (fault == kTextInFront || fault.find("--zone") != fault.npos)) {
                why = fault;
            }
        }
        if (count <= most) continue;
        most = count;
        best = format;
    }
    if (most > 0) return best;
    if (!why.empty()) return ErrorMessage{why};
    if (!lines.empty() && lines.front().starts_with("{\"log\":\"")) {
        return ErrorMessage{std::string(kInDockersJson)};
    }
    return ErrorMessage{
        "no line has a format that Tidegate knows: name it by --format, or say by --map where "
        "lines of JSON have `time`, `client`, `method` and `path`"};
}

}  // namespace tidegate::simulate
