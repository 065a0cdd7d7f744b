#include "telemetry/trace_record.hpp"

#include <algorithm>
#include <cstddef>

namespace tidegate::telemetry {

namespace {

// Calls `visit` with each text of `record` and the row of its field.
template <class Visit>
void for_each_text(RequestRecord& record, Visit visit) {
    for (const RequestField& field : kRequestFields) {
        const auto* const member = std::get_if<std::string_view RequestRecord::*>(&field.member);
        if (member != nullptr) visit(record.**member, field);
    }
}

}  // namespace

void TraceRecord::set_request(const RequestRecord& from) {
    request = from;
    request.identifiers = {};  // `decide` has digests of them
    std::size_t bytes = 0;
    for_each_text(request, [&](std::string_view& text, const RequestField& field) {
        if (field.attribute.span == SpanName::none) text = {};
        bytes += text.size();
    });
    texts = std::make_unique_for_overwrite<char[]>(bytes);
    char* copy = texts.get();
    for_each_text(request, [&](std::string_view& text, const RequestField&) {
        char* const end = std::copy_n(text.data(), text.size(), copy);
        text = {copy, text.size()};
        copy = end;
    });
}

}  // namespace tidegate::telemetry
