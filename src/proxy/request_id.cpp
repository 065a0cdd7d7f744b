#include "proxy/request_id.hpp"

#include <array>
#include <cstddef>
#include <random>

namespace tidegate::proxy {

namespace {

void append_hex(std::uint64_t number, std::string& out) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::array<char, 16> text;
    for (std::size_t i = 0; i < text.size(); ++i) text[i] = kDigits[number >> (60 - 4 * i) & 15];
    out.append(text.data(), text.size());
}

}  // namespace

RequestIds::RequestIds() {
    std::random_device random;
    const auto draw = [&random] { return (std::uint64_t{random()} << 32) | random(); };
    append_hex(draw(), prefix_);
    state_ = draw();
}

void RequestIds::next(std::string& out) {
    // SplitMix64: a permutation of the counter, so no two are the same.
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    out.assign(prefix_);
    append_hex(mixed ^ (mixed >> 31), out);
}

}  // namespace tidegate::proxy
