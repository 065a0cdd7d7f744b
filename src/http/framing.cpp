#include "http/framing.hpp"

#include <algorithm>

#include "base/ascii.hpp"
#include "http/forwarding_fields.hpp"

namespace tidegate::http {

namespace {

constexpr EnumTexts<FramingFault> kFramingFaults(
    {{FramingFault::none, ""},
     {FramingFault::bad_transfer_encoding,
      "Transfer-Encoding must be exactly \"chunked\", once, in HTTP/1.1."},
     {FramingFault::bad_content_length, "Content-Length must be one decimal number, once."},
     {FramingFault::length_and_encoding,
      "Content-Length and Transfer-Encoding exclude each other."},
     {FramingFault::bad_host, "Exactly one valid Host field is required."},
     {FramingFault::bad_expectation, "The only known expectation is 100-continue."},
     {FramingFault::too_many_options, "Connection names more than 100 fields."}});

bool parse_length(std::string_view text, std::uint64_t& length) {
    if (text.empty() || text.size() > 19) return false;
    length = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return false;
        length = length * 10 + static_cast<std::uint64_t>(c - '0');
    }
    return length <= kLengthMax;
}

// The facts of the fields, before the rules of requests and responses.
struct Seen {
    int lengths = 0;
    int encodings = 0;
    int hosts = 0;
    std::size_t options = 0;
    bool close = false;
    bool keep_alive = false;
};

bool read_connection(std::string_view list, Seen& seen, Framing& framing) {
    std::string_view item;
    while (next_list_item(list, item)) {
        if (++seen.options > kConnectionOptionsMax) return false;
        if (equal_ignoring_case(item, "close")) {
            seen.close = true;
        } else if (equal_ignoring_case(item, "keep-alive")) {
            seen.keep_alive = true;
        } else {
            framing.names_fields = true;
        }
    }
    return true;
}

// Some order that ignores case.
bool is_before(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return a.size() < b.size();
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                        [](char x, char y) { return to_lower(x) < to_lower(y); });
}

bool is_written_anew(const Field& field) {
    return is_hop_by_hop(field) || is_forwarding_field(field.id) || field.id == FieldName::host ||
           field.id == FieldName::x_request_id;
}

void mark_named(Fields& fields) {
    const ListedNames names = connection_names(fields);
    for (Field& field : fields) {
        if (is_written_anew(field) || !names.include(field.name)) continue;
        field.id = FieldName::named_by_connection;
    }
}

// `of_request`: Host counts. In an answer it means nothing, right or wrong.
FramingFault read_fields(const Fields& fields, int minor_version, bool of_request, Seen& seen,
                         Framing& framing) {
    for (const Field& field : fields) {
        switch (field.id) {
            case FieldName::content_length:
                if (++seen.lengths > 1 || !parse_length(field.value, framing.length)) {
                    return FramingFault::bad_content_length;
                }
                break;
            case FieldName::transfer_encoding:
                if (++seen.encodings > 1 || minor_version == 0 ||
                    !equal_ignoring_case(field.value, "chunked")) {
                    return FramingFault::bad_transfer_encoding;
                }
                break;
            case FieldName::connection:
                if (!read_connection(field.value, seen, framing)) {
                    return FramingFault::too_many_options;
                }
                break;
            case FieldName::host:
                if (of_request && (++seen.hosts > 1 || !is_valid_host(field.value))) {
                    return FramingFault::bad_host;
                }
                break;
            default:
                break;
        }
    }
    if (seen.lengths > 0 && seen.encodings > 0) return FramingFault::length_and_encoding;
    framing.keep_alive = !seen.close && (minor_version == 1 || seen.keep_alive);
    return FramingFault::none;
}

void set_request_body(const Seen& seen, Framing& framing) {
    if (seen.encodings > 0) {
        framing.body = BodyKind::chunked;
    } else if (framing.length > 0) {
        framing.body = BodyKind::length;
    }
}

}  // namespace

std::string_view describe(FramingFault fault) {
    return kFramingFaults[fault];
}

FramingFault request_framing(RequestHead& head, Framing& framing) {
    framing = {};
    Seen seen;
    const FramingFault fault = read_fields(head.fields, head.minor_version, true, seen, framing);
    if (fault != FramingFault::none) return fault;
    if (seen.hosts == 0 && head.minor_version == 1) return FramingFault::bad_host;
    set_request_body(seen, framing);
    for (const Field& field : head.fields) {
        if (field.id != FieldName::expect) continue;
        if (!equal_ignoring_case(field.value, "100-continue")) return FramingFault::bad_expectation;
        // RFC 9110 section 10.1.1: ignored in HTTP/1.0, and without a body there is nothing to
        // wait for.
        framing.expects_continue = head.minor_version == 1 && framing.body != BodyKind::none;
    }
    if (framing.names_fields) mark_named(head.fields);
    return FramingFault::none;
}

FramingFault local_request_framing(const RequestHead& head, Framing& framing) {
    framing = {};
    Seen seen;
    const FramingFault fault = read_fields(head.fields, head.minor_version, false, seen, framing);
    set_request_body(seen, framing);
    return fault;
}

FramingFault response_framing(ResponseHead& head, bool to_head, Framing& framing) {
    framing = {};
    Seen seen;
    const FramingFault fault = read_fields(head.fields, head.minor_version, false, seen, framing);
    if (fault != FramingFault::none) return fault;
    const bool bodiless = to_head || head.status < 200 || head.status == 204 || head.status == 304;
    if (bodiless) {
        framing.body = BodyKind::none;
        // The status has no body and its fields announce one: bytes that follow answer no request.
        const bool announced = seen.encodings > 0 || framing.length > 0;
        if (head.status == 204 && announced) framing.keep_alive = false;
    } else if (seen.encodings > 0) {
        framing.body = BodyKind::chunked;
    } else if (seen.lengths > 0) {
        framing.body = framing.length > 0 ? BodyKind::length : BodyKind::none;
    } else {
        framing.body = BodyKind::until_close;
        framing.keep_alive = false;
    }
    if (framing.names_fields) mark_named(head.fields);
    return FramingFault::none;
}

bool next_list_item(std::string_view& list, std::string_view& item) {
    const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        item = list.substr(0, comma);
        list.remove_prefix(std::min(comma + 1, list.size()));
        while (!item.empty() && is_space(item.front())) item.remove_prefix(1);
        while (!item.empty() && is_space(item.back())) item.remove_suffix(1);
        if (!item.empty()) return true;
    }
    return false;
}

void ListedNames::add(std::string_view list) {
    std::string_view item;
    while (next_list_item(list, item)) names_.push_back(item);
}

void ListedNames::sort() {
    std::sort(names_.begin(), names_.end(), is_before);
}

bool ListedNames::include(std::string_view name) const {
    return std::binary_search(names_.begin(), names_.end(), name, is_before);
}

ListedNames connection_names(const Fields& fields) {
    ListedNames names;
    for (const Field& field : fields) {
        if (field.id == FieldName::connection) names.add(field.value);
    }
    names.sort();
    return names;
}

bool is_hop_by_hop(const Field& field) {
    switch (field.id) {
        case FieldName::connection:
        case FieldName::content_length:
        case FieldName::keep_alive:
        case FieldName::named_by_connection:
        case FieldName::proxy_authenticate:
        case FieldName::proxy_authorization:
        case FieldName::proxy_connection:
        case FieldName::te:
        case FieldName::transfer_encoding:
        case FieldName::upgrade:
            return true;
        default:
            return false;
    }
}

// Only names with a `-` have other spellings that fold into them. Nearly all fields end at their
// length or first byte.
bool looks_like_framing(std::string_view name) {
    switch (name.size()) {
        case 10:
            return equal_as_variable(name, "keep-alive");
        case 14:
            return equal_as_variable(name, "content-length");
        case 16:
            return equal_as_variable(name, "proxy-connection");
        case 17:
            return equal_as_variable(name, "transfer-encoding");
        case 18:
            return equal_as_variable(name, "proxy-authenticate");
        case 19:
            return equal_as_variable(name, "proxy-authorization");
        default:
            return false;
    }
}

}  // namespace tidegate::http
