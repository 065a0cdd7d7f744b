// Counts of another process: whatever the bytes, a store that has read them decides, and what it
// writes then is read as it was written.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz_check.hpp"
#include "store/memory_store.hpp"

namespace {

using namespace tidegate;
using namespace std::chrono_literals;

constexpr limit::Micros kNow{1'700'000'000'000'000};

const limit::Policy& policy() {
    static const limit::Policy made = [] {
        limit::Policy all;
        all.name = "p";
        all.key = {limit::single_key(limit::KeyPart::Kind::ip)};
        for (std::size_t i = 0; i < limit::kAlgorithms.size(); ++i) {
            limit::LimitSpec spec;
            spec.algorithm = static_cast<limit::Algorithm>(i);
            spec.quota = 5;
            if (spec.algorithm != limit::Algorithm::concurrency) spec.duration = 60s;
            all.limits.push_back(*limit::make_limit(spec));
        }
        return all;
    }();
    return made;
}

std::string saved(const store::MemoryStore& from) {
    std::string bytes;
    from.save([&](std::string_view piece) { bytes += piece; });
    return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    store::MemoryStore first({.max_keys = 100});
    const auto loaded = first.load(bytes, kNow);
    if (loaded) {
        store::MemoryStore second({.max_keys = 100});
        const std::string again = saved(first);
        FUZZ_CHECK(second.load(again, kNow) == first.keys());
        FUZZ_CHECK(second.keys() == first.keys());
    }
    const limit::ChargeItem item{&policy(), "a"};
    limit::Verdict verdict;
    for (int i = 0; i < 8; ++i) {
        const limit::Micros now = kNow + i * 17s;
        const limit::Charge charge{.items = {&item, 1},
                                   .cost = 1,
                                   .lease = {1, static_cast<std::uint64_t>(i)},
                                   .moment = now};
        first.charge(charge, now, verdict);
        if (verdict.admitted && i % 2 == 0) first.release(charge);
        first.count({&item, 1}, now);
    }
    return 0;
}
