#include "h2/outgoing_fields.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/text.hpp"
#include "h2/fields.hpp"
#include "h2/session.hpp"
#include "http/framing.hpp"

namespace tidegate::h2 {

namespace {

using http::FieldName;

// nghttp2 copies its arguments, and asks for pointers to data that could change.
std::uint8_t* bytes_of(std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
}

}  // namespace

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

void OutgoingFields::set_request(const RequestLine& request, std::string_view lines) {
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
