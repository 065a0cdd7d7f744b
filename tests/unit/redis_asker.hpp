// A request that records its outcome: for tests of clients and clusters.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "redis/client.hpp"

namespace tidegate::redis {

inline constexpr Script kScript{"count", "0123456789012345678901234567890123456789", "return 1"};

// Records what became of it.
struct Asker final : Request {
    explicit Asker(std::string own_name) : name(std::move(own_name)) {}

    void append_command(std::string& out) override {
        ++written;
        append_resp({"EVALSHA", kScript.sha1, "0", name}, out);
    }
    const Script* script() const override { return &kScript; }
    void on_reply(const Reply& reply) override {
        ++told;
        text = reply.text;
        kind = reply.kind;
    }
    void on_failure(Failure why) override {
        ++told;
        failure = why;
        told_at = std::chrono::steady_clock::now();
    }
    bool answered(std::string_view expected) const {
        return told == 1 && !failure && text == expected;
    }
    bool failed(Failure why) const { return told == 1 && failure == why; }

    std::string name;
    int written = 0;
    int told = 0;
    std::string text;
    Reply::Kind kind = Reply::Kind::nil;
    std::optional<Failure> failure;
    std::chrono::steady_clock::time_point told_at;
};

}  // namespace tidegate::redis
