#include "store/inspector.hpp"

#include <algorithm>
#include <cassert>
#include <memory>
#include <optional>

#include "net/deadline.hpp"
#include "store/counts_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {
namespace {

using limit::ChargeItem;

constexpr EnumTexts<redis::Failure> kFailures(
    {{redis::Failure::timeout, "Redis did not answer in time."},
     {redis::Failure::disconnected, "The connection to Redis was lost."},
     {redis::Failure::unavailable, "Redis is down."},
     {redis::Failure::overloaded, "Too many commands wait for Redis."},
     {redis::Failure::refused,
      "Redis refused the command: its user lacks a right, or another program wrote the key (a "
      "reset removes it). See the proxy's log."}});

constexpr const char* kNotUnderstood = "Redis sent a reply that Tidegate cannot read.";

}  // namespace

// A command, and what its replies have brought so far.
struct Inspector::Count {
    using Answer = Counts;

    std::optional<Micros> clock;
    Counts answer;

    static const redis::Script& script() { return inspect_script(); }
    void append(std::span<const ChargeItem> items, std::string_view prefix,
                std::string& out) const {
        append_counts_command(items, prefix, clock, out);
    }
    bool read(std::string_view reply, std::span<const ChargeItem> items) {
        return read_counts_reply(reply, items, answer);
    }
};

struct Inspector::Forget {
    using Answer = std::vector<bool>;

    std::vector<bool> answer;

    static const redis::Script& script() { return forget_script(); }
    static void append(std::span<const ChargeItem> items, std::string_view prefix,
                       std::string& out) {
        append_forget_command(items, prefix, out);
    }
    bool read(std::string_view reply, std::span<const ChargeItem> items) {
        const auto forgotten = read_forget_reply(reply, items);
        if (forgotten) answer.insert(answer.end(), forgotten->begin(), forgotten->end());
        return forgotten.has_value();
    }
};

// One command after the other, a portion of the items each. Deletes itself.
template <class Command>
class Inspector::Request final : public redis::Request {
  public:
    using Done = std::function<void(Result<typename Command::Answer, std::string>)>;

    Request(RedisStore redis, Command command, std::span<const ChargeItem> items,
            SteadyTime needed_by, Done done)
        : redis_(std::move(redis)),
          command_(std::move(command)),
          left_(items),
          needed_by_(needed_by),
          done_(std::move(done)) {}

    // Sends the next portion, or ends.
    static void go_on(std::unique_ptr<Request> self) {
        if (self->left_.empty()) {
            self->done_(std::move(self->command_.answer));
        } else if (const auto failed = self->redis_.servers.send(
                       *self, self->redis_.slot_of(self->left_), steady_now(), self->needed_by_)) {
            self->done_(std::string(kFailures[*failed]));
        } else {
            static_cast<void>(self.release());  // until the reply
        }
    }

    void append_command(std::string& out) override {
        command_.append(portion(), redis_.key_prefix, out);
    }
    const redis::Script* script() const override { return &Command::script(); }
    void on_reply(const redis::Reply& reply) override {
        std::unique_ptr<Request> self(this);
        if (reply.kind != redis::Reply::Kind::string || !command_.read(reply.text, portion())) {
            done_(std::string(kNotUnderstood));
            return;
        }
        left_ = left_.subspan(portion().size());
        go_on(std::move(self));
    }
    void on_failure(redis::Failure failure) override {
        const std::unique_ptr<Request> self(this);
        done_(std::string(kFailures[failure]));
    }

  private:
    std::span<const ChargeItem> portion() const {
        return left_.first(std::min(left_.size(), kItemsCountedMax));
    }

    RedisStore redis_;
    Command command_;
    std::span<const ChargeItem> left_;
    SteadyTime needed_by_;
    Done done_;
};

void Inspector::count(std::span<const ChargeItem> items, SteadyTime needed_by,
                      OnCounts done) const {
    assert(!items.empty());
    using Counting = Request<Count>;
    Counting::go_on(std::make_unique<Counting>(redis_, Count{redis_.clock(), {}}, items, needed_by,
                                               std::move(done)));
}

void Inspector::forget(std::span<const ChargeItem> items, OnForgotten done) const {
    assert(!items.empty());
    using Forgetting = Request<Forget>;
    Forgetting::go_on(
        std::make_unique<Forgetting>(redis_, Forget{}, items, SteadyTime::max(), std::move(done)));
}

}  // namespace tidegate::store
