// Lines of access logs, which hold what clients sent: each format reads or refuses any bytes, says
// the same of them twice, and never makes a text longer than the line.
//
// The first byte of an input chooses the format.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "limit/window.hpp"
#include "simulate/log.hpp"

namespace {

using namespace tidegate::simulate;

LogLayout layout() {
    LogLayout with;
    with.wanted = {"header:x-tenant", "cookie:session"};
    for (const char* const map : {"header:x-tenant=3.1", "cookie:session=a.b", "host=7"}) {
        with.map.push_back(*parse_mapping(map));
    }
    return with;
}

std::string said(LogReader& reader, std::string_view line) {
    LoggedRequest request;
    std::string out(reader.read(line, request));
    if (!out.empty()) return out;
    FUZZ_CHECK(request.time.count() >= 0 && request.time <= tidegate::limit::kNowMax);
    FUZZ_CHECK(request.values.size() == 2);
    for (const std::string_view text : request.texts) {
        FUZZ_CHECK(text.size() <= line.size());
        out.append(text).append("\n");
    }
    std::string_view charges = request.text(LogText::charges);
    while (!charges.empty()) FUZZ_CHECK(take_recorded_charge(charges).has_value());
    for (const std::string_view value : request.values) {
        FUZZ_CHECK(value.size() <= line.size());
        out.append(value).append("\n");
    }
    for (const std::int64_t number : request.numbers) {
        FUZZ_CHECK(number >= -1);
        out.append(std::to_string(number)).append("\n");
    }
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const LogLayout kMapped = layout();
    static const LogLayout kPlain;
    if (size == 0) return 0;
    const auto& formats = tidegate::kEnumerators<LogFormat>;
    const LogFormat format = formats[data[0] % formats.size()];
    // A copy of its own: the sanitizers notice a read beyond its end.
    const std::vector<char> bytes(data + 1, data + size);
    const std::string_view line(bytes.data(), bytes.size());
    const bool is_mapped = data[0] >= 128;
    LogReader reader(format, kMapped);
    const std::string first = said(reader, line);
    FUZZ_CHECK(first == said(reader, line));
    if (!is_mapped) {
        LogReader plain(format, kPlain);
        LoggedRequest request;
        FUZZ_CHECK(plain.read(line, request) == plain.read(line, request));
    }
    return 0;
}
