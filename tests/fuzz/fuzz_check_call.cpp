// The check API's calls: whatever comes, the reader says a call within its bounds or a sentence.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "faces/check_call.hpp"
#include "fuzz_check.hpp"

namespace {

using namespace tidegate::faces;

bool has_control(std::string_view text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return true;
    }
    return false;
}

void check(std::string_view body, bool reserves) {
    const auto call = read_check_call(body, reserves);
    if (!call) {
        FUZZ_CHECK(!call.error().empty());
        return;
    }
    FUZZ_CHECK(!call->items.empty() && call->items.size() <= kCheckItemsMax);
    FUZZ_CHECK(call->ttl.count() > 0 && call->ttl <= kReserveTimeMax);
    for (const CheckItem& item : call->items) {
        FUZZ_CHECK(!item.cost || *item.cost >= 0);
        FUZZ_CHECK(!has_control(item.policy));
        FUZZ_CHECK(!has_control(item.request.method + item.request.path + item.request.host));
        for (const auto& [name, value] : item.request.headers) {
            FUZZ_CHECK(!has_control(name + value));
        }
        for (const auto& [name, value] : item.identifiers) FUZZ_CHECK(!has_control(value));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    check(body, false);
    check(body, true);
    const auto settled = read_settle_call(body);
    FUZZ_CHECK(!settled || settled->cost >= 0);
    return 0;
}
