// Trace contexts: whatever the fields, what is passed on is a context that reads the same again,
// and a state within its bounds, made of whole members of what came. The first line is
// `traceparent`, the others are `tracestate`.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz_check.hpp"
#include "telemetry/trace_context.hpp"

namespace {

using namespace tidegate::telemetry;

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t end = text.find(at);
        parts.push_back(text.substr(0, end));
        if (end == text.npos) return parts;
        text.remove_prefix(end + 1);
    }
}

void check_parent(std::string_view value) {
    const auto parent = parse_traceparent(value);
    if (!parent) return;
    FUZZ_CHECK(value.size() >= kTraceParentBytes);
    FUZZ_CHECK(parent->trace != TraceId{} && parent->span != SpanId{});
    std::string written(kTraceParentBytes, ' ');
    write_traceparent(*parent, written.data());
    FUZZ_CHECK(written.substr(3, 49) == value.substr(3, 49));
    FUZZ_CHECK(parse_traceparent(written) == parent);
}

std::string state_of(const std::vector<std::string_view>& values) {
    std::string out;
    TraceStateReader reader(out);
    for (const std::string_view value : values) reader.add(value);
    reader.finish();
    return out;
}

void check_state(const std::vector<std::string_view>& values) {
    const std::string state = state_of(values);
    FUZZ_CHECK(state.size() <= kTraceStateBytesMax);
    FUZZ_CHECK(state_of({state}) == state);
    if (state.empty()) return;
    const auto members = split(state, ',');
    FUZZ_CHECK(members.size() <= kTraceStateMembersMax);
    std::vector<std::string_view> came;
    for (const std::string_view value : values) {
        for (std::string_view one : split(value, ',')) {
            while (one.starts_with(' ') || one.starts_with('\t')) one.remove_prefix(1);
            while (one.ends_with(' ') || one.ends_with('\t')) one.remove_suffix(1);
            came.push_back(one);
        }
    }
    auto at = came.begin();
    for (const std::string_view member : members) {
        at = std::find(at, came.end(), member);
        FUZZ_CHECK(at != came.end());
        ++at;
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto lines = split(text, '\n');
    check_parent(lines.front());
    check_state(std::vector<std::string_view>(lines.begin() + 1, lines.end()));
    return 0;
}
