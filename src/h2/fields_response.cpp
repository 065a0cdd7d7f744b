// FieldBlock: the heads of answers.
#include "base/text.hpp"
#include "h2/fields.hpp"
#include "http/problem.hpp"

namespace tidegate::h2 {

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

}  // namespace tidegate::h2
