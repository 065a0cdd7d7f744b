// Forwarding fields as they are passed on: whole lines, whatever came. How they are read is for
// fuzz_x_forwarded_for and fuzz_forwarded.
#include <cstddef>
#include <cstdint>
#include <string>

#include "fuzz_check.hpp"
#include "http/forwarding_fields.hpp"

namespace {

using tidegate::http::FieldName;
using tidegate::http::Fields;

// The head parser lets no control through, and neither do we.
std::string printable(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ') c = '\t';
    return text;
}

void check_lines(const std::string& value) {
    const Fields fields = {{FieldName::x_forwarded_for, "X-Forwarded-For", value},
                           {FieldName::forwarded, "Forwarded", value},
                           {FieldName::via, "Via", value}};
    for (const bool trusted : {false, true}) {
        tidegate::http::ForwardingInput input{.fields = fields};
        input.peer_trusted = trusted;
        input.peer = tidegate::parse_ip("10.0.0.1");
        input.host = value;
        input.settings.forwarded = true;
        std::string out;
        append_forwarding_fields(input, out);
        FUZZ_CHECK(out.ends_with("\r\n") && out.find("\r\n\r\n") == out.npos);
        for (std::size_t at = out.find('\n'); at != out.npos; at = out.find('\n', at + 1))
            FUZZ_CHECK(at > 0 && out[at - 1] == '\r');
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    check_lines(printable(text));
    return 0;
}
