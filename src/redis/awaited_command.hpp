// A command that a coroutine sends and awaits.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "net/wakeup.hpp"
#include "redis/request.hpp"

namespace tidegate::redis {

// Wakes `wakeup` when it is done.
class AwaitedCommand final : public Request {
  public:
    AwaitedCommand(std::string command, Wakeup& wakeup)
        : command_(std::move(command)), wakeup_(wakeup) {}

    void append_command(std::string& out) override { out += command_; }
    const Script* script() const override { return nullptr; }
    void on_reply(const Reply& reply) override {
        text_ = reply.text;
        reply_ = {reply.kind, text_, reply.integer};
        finish();
    }
    void on_failure(Failure failure) override {
        failure_ = failure;
        finish();
    }

    bool done() const { return done_; }
    // Once it is done: the reply, or nothing and the failure.
    const std::optional<Reply>& reply() const { return reply_; }
    Failure failure() const { return failure_; }

  private:
    void finish() {
        done_ = true;
        wakeup_.wake_later();
    }

    std::string command_;
    Wakeup& wakeup_;
    bool done_ = false;
    std::string text_;
    std::optional<Reply> reply_;
    Failure failure_ = Failure::disconnected;
};

}  // namespace tidegate::redis
