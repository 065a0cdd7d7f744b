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
    // `script`: the one that the command runs, if it runs one.
    AwaitedCommand(std::string command, Wakeup& wakeup, const Script* script = nullptr)
        : command_(std::move(command)), script_(script), wakeup_(wakeup) {}

    void append_command(std::string& out) override { out += command_; }
    const Script* script() const override { return script_; }
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
    const Script* script_;
    Wakeup& wakeup_;
    bool done_ = false;
    std::string text_;
    std::optional<Reply> reply_;
    Failure failure_ = Failure::disconnected;
};

}  // namespace tidegate::redis
