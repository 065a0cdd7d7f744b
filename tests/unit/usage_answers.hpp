// What the tests of answers share: the usage that a reader finds, in one piece and in many.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "usage/answer.hpp"

namespace tidegate::usage {

struct Found {
    std::optional<Usage> usage;
    UnknownUsage reason = UnknownUsage::no_usage;
};

inline Found found_in(const UsageSource& source, AnswerReader::Form form, std::string_view body,
                      std::size_t piece = std::string_view::npos) {
    AnswerReader reader(source, form);
    for (std::size_t at = 0; at < body.size(); at += std::min(piece, body.size() - at)) {
        reader.read(body.substr(at, piece));
    }
    reader.end();
    return {reader.usage(), reader.reason()};
}

// The same in one piece and byte by byte, for the provider and for `automatic`.
inline void check_tokens(Provider provider, AnswerReader::Form form, std::string_view body,
                         const Tokens& expected, std::string_view model = "m-1") {
    CAPTURE(body);
    for (const Provider by : {provider, Provider::automatic}) {
        for (const std::size_t piece : {std::string_view::npos, std::size_t{1}}) {
            const Found found = found_in(UsageSource(by), form, body, piece);
            REQUIRE(found.usage);
            CHECK(found.usage->tokens == expected);
            CHECK(found.usage->model == model);
        }
    }
}

// `tokens`, of whose output so many are of a kind that is not known.
inline Tokens with_any(Tokens tokens, std::int64_t of_any) {
    tokens.of_any = of_any;
    return tokens;
}

inline std::string event(std::string_view json) {
    return "data: " + std::string(json) + "\n\n";
}

}  // namespace tidegate::usage
