// What the tests of commands to Redis and of their answers share: limits, packed numbers and
// commands taken apart.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "limit/charge.hpp"

namespace tidegate::test {

// The limit of `spec`, which must be valid.
inline limit::Limit made(const limit::LimitSpec& spec) {
    auto limit = limit::make_limit(spec);
    if (!limit) throw std::invalid_argument(limit.error().what);
    return *limit;
}

inline limit::LimitSpec spec_of(limit::Algorithm algorithm, std::int64_t quota,
                                limit::Micros duration) {
    limit::LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = quota;
    spec.duration = duration;
    return spec;
}

inline limit::Limit window(std::int64_t quota, limit::Micros duration) {
    return made(spec_of(limit::Algorithm::sliding_window, quota, duration));
}

inline limit::Policy policy(std::string name, std::vector<limit::Limit> limits) {
    limit::Policy policy;
    policy.name = std::move(name);
    policy.key = {limit::single_key(limit::KeyPart::Kind::user)};
    policy.limits = std::move(limits);
    return policy;
}

// A number as the scripts read it: little endian, as this machine is.
template <class Number>
std::string packed(Number number) {
    std::string bytes(sizeof(number), '\0');
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
}

// Packed doubles, one after the other.
template <class... Numbers>
std::string doubles(Numbers... numbers) {
    return (std::string() + ... + packed(static_cast<double>(numbers)));
}

// Splits one RESP command; fails the test on anything else.
inline std::vector<std::string> words_of(std::string_view resp) {
    const auto number = [&](char type) {
        REQUIRE(!resp.empty());
        REQUIRE(resp.front() == type);
        const std::size_t end = resp.find("\r\n");
        REQUIRE(end != std::string_view::npos);
        const std::size_t value = std::stoul(std::string(resp.substr(1, end - 1)));
        resp.remove_prefix(end + 2);
        return value;
    };
    std::vector<std::string> words(number('*'));
    for (std::string& word : words) {
        const std::size_t size = number('$');
        REQUIRE(resp.size() >= size + 2);
        word = resp.substr(0, size);
        REQUIRE(resp.substr(size, 2) == "\r\n");
        resp.remove_prefix(size + 2);
    }
    REQUIRE(resp.empty());
    return words;
}

}  // namespace tidegate::test
