#include "h2/fields.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "http/framing.hpp"
#include "http/problem.hpp"

namespace tidegate::h2 {

namespace {

using http::FieldName;
using http::HeadFault;

constexpr EnumTexts<Malformed> kMalformed(
    {{Malformed::none, ""},
     {Malformed::pseudo_field,
      "A pseudo-field is unknown, missing, repeated, empty or out of place."},
     {Malformed::field_name, "The name of a header field is malformed or has upper case."},
     {Malformed::line_break, "A header field has CR, LF or NUL in it."},
     {Malformed::hop_field,
      "HTTP/2 has no field Connection, Keep-Alive, Proxy-Connection, "
      "Transfer-Encoding or Upgrade."},
     {Malformed::te, "TE must be exactly \"trailers\" in HTTP/2."},
     {Malformed::length, "The body is not as long as Content-Length says."},
     {Malformed::trailers,
      "The trailers are malformed, larger than allowed, or do not end the request."},
     {Malformed::head, "The head of the answer is malformed or larger than allowed."},
     {Malformed::order, "The answer has no head, or a body where none may be."}});

constexpr std::size_t kListOverhead = 32;   // RFC 9113 section 6.5.2
constexpr std::size_t kLineOverhead = 4;    // `: ` and CR LF
constexpr std::size_t kFirstLineRest = 14;  // two spaces, `HTTP/1.1`, CR LF, and the empty line
constexpr std::string_view kCookie = "cookie";
constexpr std::string_view kBetweenCrumbs = "; ";

bool breaks_line(std::string_view value) {
    constexpr std::string_view bad("\r\n\0", 3);
    return value.find_first_of(bad) != std::string_view::npos;
}

bool is_padded(std::string_view value) {
    const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
    return !value.empty() && (is_space(value.front()) || is_space(value.back()));
}

using http::FieldName;

// nghttp2 copies its arguments, and asks for pointers to data that could change.
std::uint8_t* bytes_of(std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

}  // namespace

std::string_view describe(Malformed malformed) {
    return kMalformed[malformed];
}

bool is_for_one_hop(FieldName id) {
    switch (id) {
        case FieldName::connection:
        case FieldName::keep_alive:
        case FieldName::proxy_connection:
        case FieldName::transfer_encoding:
        case FieldName::upgrade:
            return true;
        default:
            return false;
    }
}

void FieldBlock::begin_request(const RequestRules& rules) {
    begin(rules, Kind::request);
}

void FieldBlock::begin_trailers(const RequestRules& rules) {
    begin(rules, Kind::trailers);
}

void FieldBlock::begin(const RequestRules& rules, Kind kind) {
    clear();
    rules_ = &rules;
    kind_ = kind;
    seen_field_ = false;
    seen_ = 0;
    malformed_ = Malformed::none;
    fault_ = HeadFault::none;
    list_bytes_ = 0;
    head_bytes_ = kind == Kind::trailers ? 0 : kFirstLineRest;
    std::fill(std::begin(pseudo_), std::end(pseudo_), Slice{});
}

void FieldBlock::clear() {
    clear_for_reuse(text_);
    slices_.clear();
    crumbs_.clear();
}

void FieldBlock::add(std::string_view name, std::string_view value) {
    list_bytes_ += name.size() + value.size() + kListOverhead;
    if (malformed_ != Malformed::none) return;
    const bool is_well = http::is_field_value(value);
    if (!is_well && breaks_line(value)) {
        malformed_ = Malformed::line_break;
        return;
    }
    if (name.starts_with(':')) return add_pseudo(name, value);
    seen_field_ = true;
    if (!http::is_lower_token(name)) {
        malformed_ = Malformed::field_name;
        return;
    }
    const FieldName id = http::field_name(name);
    if (fault_ == HeadFault::none && (!is_well || is_padded(value))) fault_ = HeadFault::bad_field;
    if (is_refused(id, value) || fault_ != HeadFault::none) return;
    if (kind_ == Kind::request && name == kCookie) return add_cookie(name, value);
    if (slices_.size() == rules_->bounds.fields) {
        fault_ = HeadFault::too_many_fields;
    } else if (has_room(name.size() + value.size() + kLineOverhead)) {
        slices_.emplace_back().id = id;
        keep(name, value, slices_.back());
    }
}

// A field that HTTP/2 does not have, or has with another value.
bool FieldBlock::is_refused(FieldName id, std::string_view value) {
    if (is_for_one_hop(id)) {
        malformed_ = Malformed::hop_field;
        return true;
    }
    if (id == FieldName::te && !http::equal_ignoring_case(value, "trailers")) {
        malformed_ = Malformed::te;
        return true;
    }
    return false;
}

FieldBlock::Pseudo FieldBlock::pseudo_of(std::string_view name) const {
    if (kind_ == Kind::trailers) return kPseudoFields;
    if (kind_ == Kind::response) return name == ":status" ? kStatus : kPseudoFields;
    return name == ":method"                                 ? kMethod
           : name == ":scheme"                               ? kScheme
           : name == ":path"                                 ? kPath
           : name == ":authority"                            ? kAuthority
           : name == ":protocol" && rules_->connect_protocol ? kProtocol
                                                             : kPseudoFields;
}

void FieldBlock::add_pseudo(std::string_view name, std::string_view value) {
    const Pseudo which = pseudo_of(name);
    if (which == kPseudoFields || has(which) || seen_field_) {
        malformed_ = Malformed::pseudo_field;
        return;
    }
    seen_ = static_cast<std::uint8_t>(seen_ | 1U << which);
    if (fault_ != HeadFault::none) return;
    if (which == kPath && value.size() > rules_->bounds.uri_bytes) {
        fault_ = HeadFault::uri_too_long;
    } else if (has_room(value.size())) {
        keep({}, value, pseudo_[which]);
    }
}

void FieldBlock::add_cookie(std::string_view name, std::string_view value) {
    if (crumbs_.empty()) {
        if (slices_.size() == rules_->bounds.fields) {
            fault_ = HeadFault::too_many_fields;
            return;
        }
        if (!has_room(name.size() + kLineOverhead)) return;
        cookie_at_ = slices_.size();
        slices_.emplace_back();
    }
    if (crumbs_.size() == rules_->cookie_crumbs) {
        fault_ = HeadFault::too_many_fields;
    } else if (has_room(value.size() + (crumbs_.empty() ? 0 : kBetweenCrumbs.size()))) {
        const bool is_first = crumbs_.empty();
        keep(is_first ? name : std::string_view{}, value, crumbs_.emplace_back());
    }
}

bool FieldBlock::has_room(std::size_t bytes) {
    head_bytes_ += bytes;
    if (head_bytes_ > rules_->bounds.bytes) fault_ = HeadFault::too_large;
    return fault_ == HeadFault::none;
}

void FieldBlock::keep(std::string_view name, std::string_view value, Slice& slice) {
    slice.begin = static_cast<std::uint32_t>(text_.size());
    slice.name_bytes = static_cast<std::uint32_t>(name.size());
    slice.value_bytes = static_cast<std::uint32_t>(value.size());
    text_.append(name).append(value);
}

std::string_view FieldBlock::name(const Slice& slice) const {
    return std::string_view(text_).substr(slice.begin, slice.name_bytes);
}

std::string_view FieldBlock::value(const Slice& slice) const {
    return std::string_view(text_).substr(slice.begin + slice.name_bytes, slice.value_bytes);
}

// RFC 9113 section 8.2.3: what was one field for better compression is one again.
void FieldBlock::join_cookies() {
    if (crumbs_.empty()) return;
    Slice& joined = slices_[cookie_at_];
    joined = crumbs_.front();
    if (crumbs_.size() == 1) return;
    std::size_t size = text_.size() + kCookie.size();
    for (const Slice& crumb : crumbs_) size += crumb.value_bytes + kBetweenCrumbs.size();
    text_.reserve(size);  // so that what is copied from it stays
    joined.begin = static_cast<std::uint32_t>(text_.size());
    joined.name_bytes = static_cast<std::uint32_t>(kCookie.size());
    text_ += kCookie;
    const std::size_t begin = text_.size();
    for (const Slice& crumb : crumbs_) {
        if (&crumb != &crumbs_.front()) text_ += kBetweenCrumbs;
        text_ += value(crumb);
    }
    joined.value_bytes = static_cast<std::uint32_t>(text_.size() - begin);
}

void FieldBlock::fill(http::Fields& fields) const {
    for (const Slice& slice : slices_) {
        fields.push_back({slice.id, name(slice), value(slice)});
    }
}

Malformed FieldBlock::missing() const {
    const bool is_connect = pseudo(kMethod) == "CONNECT";
    bool is_right = has(kMethod);
    if (is_connect && !has(kProtocol)) {
        is_right = is_right && !has(kScheme) && !has(kPath) && has(kAuthority);
    } else {
        is_right = is_right && has(kScheme) && has(kPath);
        if (has(kProtocol)) is_right = is_right && is_connect && has(kAuthority);
        // Fields beyond the bounds have not been kept.
        if (fault_ == HeadFault::none && pseudo(kPath).empty()) is_right = false;
    }
    return is_right ? Malformed::none : Malformed::pseudo_field;
}

HeadFault FieldBlock::end_request(http::RequestHead& head, std::string_view& protocol) {
    head.fields.clear();
    head.method = head.target = head.path = head.query = head.authority = {};
    head.minor_version = 1;
    if (malformed_ == Malformed::none) malformed_ = missing();
    if (malformed_ != Malformed::none) return HeadFault::none;
    if (fault_ == HeadFault::none) join_cookies();  // the last to change the text
    head.method = pseudo(kMethod);
    head.target = pseudo(kPath);
    protocol = pseudo(kProtocol);
    if (fault_ != HeadFault::none) return fault_;
    if (!http::is_token(head.method)) return HeadFault::bad_request_line;
    const HeadFault bad_target = set_target(head);
    if (bad_target != HeadFault::none) return bad_target;
    if (has(kAuthority)) head.fields.push_back({FieldName::host, "host", pseudo(kAuthority)});
    fill(head.fields);
    return check_authority(head);
}

HeadFault FieldBlock::set_target(http::RequestHead& head) const {
    if (!has(kPath)) {
        head.target = pseudo(kAuthority);  // of CONNECT, as in HTTP/1
        return http::is_valid_host(head.target) ? HeadFault::none : HeadFault::bad_target;
    }
    const std::string_view scheme = pseudo(kScheme);
    const bool is_known = scheme == "http" || scheme == "https";
    if (!is_known || (!rules_->any_scheme && (scheme == "https") != rules_->is_https)) {
        return HeadFault::bad_scheme;
    }
    if (pseudo(kPath) == "*") {
        head.path = head.target;
        return head.method == "OPTIONS" ? HeadFault::none : HeadFault::bad_target;
    }
    return http::set_origin_form(pseudo(kPath), head) ? HeadFault::none : HeadFault::bad_target;
}

// `:authority` is what HTTP/1 has in Host (RFC 9113 section 8.3.1). Two that differ would be two
// hosts for two servers.
HeadFault FieldBlock::check_authority(http::RequestHead& head) const {
    if (!has(kAuthority)) return HeadFault::none;
    const std::string_view authority = pseudo(kAuthority);
    if (!http::is_valid_host(authority)) return HeadFault::bad_target;
    const auto is_host = [](const http::Field& field) { return field.id == FieldName::host; };
    std::size_t hosts = 0;
    for (const http::Field& field : head.fields) {
        if (!is_host(field)) continue;
        if (!http::equal_ignoring_case(field.value, authority)) return HeadFault::bad_target;
        ++hosts;
    }
    // The first is from `:authority`. More than one beside it are for request_framing() to refuse.
    if (hosts == 2) head.fields.erase(head.fields.begin());
    return HeadFault::none;
}

void FieldBlock::end_trailers(http::Fields& trailers) {
    trailers.clear();
    if (malformed_ == Malformed::none && fault_ != HeadFault::none) {
        malformed_ = Malformed::trailers;
    }
    if (malformed_ == Malformed::none) fill(trailers);
}

void set_body(const http::RequestHead& head, bool has_body, http::Framing& framing) {
    if (!has_body || framing.body != http::BodyKind::none) return;
    bool expects_continue = false;
    for (const http::Field& field : head.fields) {
        if (field.id == FieldName::content_length) return;
        if (field.id == FieldName::expect) expects_continue = true;
    }
    framing.body = http::BodyKind::chunked;
    framing.expects_continue = expects_continue;
}

std::optional<std::uint64_t> announced_length(const http::Fields& fields) {
    std::optional<std::uint64_t> length;
    for (const http::Field& field : fields) {
        if (field.id != FieldName::content_length) continue;
        if (length) return std::nullopt;
        length = parse_number<std::uint64_t>(field.value);
        if (!length || *length > http::kLengthMax) return std::nullopt;
    }
    return length;
}

// FieldBlock: the heads of answers.
void FieldBlock::begin_response(const RequestRules& rules) {
    begin(rules, Kind::response);
}

bool FieldBlock::end_response(http::ResponseHead& head) {
    constexpr std::size_t kStatusDigits = 3;
    constexpr int kSwitchingProtocols = 101;  // HTTP/2 has none (RFC 9113 section 8.6)
    head.fields.clear();
    head.reason = {};
    head.minor_version = 1;
    head.status = 0;
    if (malformed_ == Malformed::none && fault_ != http::HeadFault::none)
        malformed_ = Malformed::head;
    if (malformed_ != Malformed::none) return false;
    const std::string_view digits = pseudo(kStatus);
    const auto status = parse_number<int>(digits);
    const bool is_right = digits.size() == kStatusDigits && status && *status >= 100 &&
                          *status <= 599 && *status != kSwitchingProtocols;
    if (!is_right) {
        malformed_ = Malformed::pseudo_field;
        return false;
    }
    head.status = *status;
    // HTTP/2 has no reason phrase. Some clients of HTTP/1, such as h2load, take an answer without
    // one for a failure.
    head.reason = http::status_title(head.status);
    fill(head.fields);
    return true;
}

void OutgoingFields::add(std::string_view name, std::string_view value) {
    list_.push_back(
        {bytes_of(name), bytes_of(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
}

void OutgoingFields::set_head(int status, std::string_view lines) {
    list_.clear();
    for (std::size_t at = status_.size(); at-- > 0; status /= 10) {
        status_[at] = static_cast<char>('0' + status % 10);
    }
    add(":status", {status_.data(), status_.size()});
    add_lines(lines);
}

void OutgoingFields::set_request(const PseudoFields& request, std::string_view lines) {
    list_.clear();
    add(":method", request.method);
    add(":scheme", request.scheme);
    add(":path", request.path);
    const std::size_t authority = list_.size();
    add_lines(lines);
    for (std::size_t at = authority; at < list_.size(); ++at) {
        nghttp2_nv& field = list_[at];
        if (http::field_name(text_of(field.name, field.namelen)) != FieldName::host) continue;
        // Pseudo-fields come first.
        constexpr std::string_view kAuthority = ":authority";
        field.name = bytes_of(kAuthority);
        field.namelen = kAuthority.size();
        std::swap(field, list_[authority]);
        break;
    }
}

void OutgoingFields::add_lines(std::string_view lines) {
    while (!lines.empty()) {
        const std::size_t end = lines.find("\r\n");
        const std::string_view line = lines.substr(0, end);
        lines.remove_prefix(end == lines.npos ? lines.size() : end + 2);
        const std::size_t colon = line.find(':');
        if (colon == line.npos) continue;
        const std::string_view name = line.substr(0, colon);
        if (!is_for_one_hop(http::field_name(name))) add(name, trimmed(line.substr(colon + 1)));
    }
}

std::size_t OutgoingFields::list_bytes() const {
    constexpr std::size_t kOverhead = 32;
    std::size_t bytes = 0;
    for (const nghttp2_nv& field : list_) bytes += field.namelen + field.valuelen + kOverhead;
    return bytes;
}

void OutgoingFields::set_trailers(const http::Fields& trailers) {
    list_.clear();
    for (const http::Field& field : trailers) {
        if (field.id == FieldName::host || field.id == FieldName::trailer ||
            http::is_hop_by_hop(field) || http::looks_like_framing(field.name)) {
            continue;
        }
        add(field.name, field.value);
    }
}

}  // namespace tidegate::h2
