#include "proxy/request_id.hpp"

#include <cstddef>
#include <random>

#include "base/text.hpp"
#include "http/field.hpp"
#include "http/head.hpp"

namespace tidegate::proxy {

RequestIds::RequestIds() {
    std::random_device random;
    const auto draw = [&random] { return (std::uint64_t{random()} << 32) | random(); };
    append_hex64(draw(), prefix_);
    state_ = draw();
}

void RequestIds::next(std::string& out) {
    // SplitMix64: a permutation of the counter, so no two are the same.
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    out.assign(prefix_);
    append_hex64(mixed ^ (mixed >> 31), out);
}

void adopt_request_id(ask::Facts& facts) {
    constexpr std::size_t kBytesMax = 128;
    if (!facts.peer.trusted) return;
    const std::string_view id =
        http::single_value(facts.head.fields, http::FieldName::x_request_id);
    if (id.size() <= kBytesMax && http::is_token(id)) facts.request_id = id;
}

}  // namespace tidegate::proxy
