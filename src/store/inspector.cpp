#include "store/inspector.hpp"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <memory>
#include <utility>

#include "redis/slot.hpp"
#include "store/counts_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {
namespace {

using limit::ChargeItem;

std::string sentence(redis::Failure failure) {
    switch (failure) {
        case redis::Failure::timeout:
            return "Redis did not answer in time.";
        case redis::Failure::disconnected:
            return "The connection to Redis was lost.";
        case redis::Failure::unavailable:
            return "Redis is down.";
        case redis::Failure::overloaded:
            return "Too many commands are on their way to Redis.";
        case redis::Failure::refused:
            break;
    }
    return "Redis refused: a right is missing, or a value is not of Tidegate's making, which a "
           "reset removes. The proxy's log says more.";
}

constexpr const char* kNotUnderstood = "Redis gave an answer that is none.";

std::uint16_t slot_of(std::span<const ChargeItem> items) {
    return redis::slot_of_tag(items.front().identifier);
}

}  // namespace

// What a question is made of: its words, and what they have brought so far.
struct Inspector::Counting {
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

struct Inspector::Forgetting {
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

// One command after the other, a portion of the items each. Ends itself.
template <class Words>
class Inspector::Question final : public redis::Request {
  public:
    using Done = std::function<void(Result<typename Words::Answer, std::string>)>;

    Question(const Inspector& asker, Words words, std::span<const ChargeItem> items, Done done)
        : servers_(asker.servers_),
          key_prefix_(asker.key_prefix_),
          words_(std::move(words)),
          left_(items),
          done_(std::move(done)) {}

    // Asks for the next portion, or ends.
    static void go_on(std::unique_ptr<Question> self) {
        if (self->left_.empty()) {
            self->done_(std::move(self->words_.answer));
        } else if (const auto failed = self->servers_.send(*self, slot_of(self->left_))) {
            self->done_(sentence(*failed));
        } else {
            static_cast<void>(self.release());  // until it is answered
        }
    }

    void append_command(std::string& out) override { words_.append(portion(), key_prefix_, out); }
    const redis::Script* script() const override { return &Words::script(); }
    void on_reply(const redis::Reply& reply) override {
        std::unique_ptr<Question> self(this);
        if (reply.kind != redis::Reply::Kind::string || !words_.read(reply.text, portion())) {
            done_(std::string(kNotUnderstood));
            return;
        }
        left_ = left_.subspan(portion().size());
        go_on(std::move(self));
    }
    void on_failure(redis::Failure failure) override {
        const std::unique_ptr<Question> self(this);
        done_(sentence(failure));
    }

  private:
    std::span<const ChargeItem> portion() const {
        return left_.first(std::min(left_.size(), kItemsCountedMax));
    }

    redis::Servers servers_;
    std::string key_prefix_;
    Words words_;
    std::span<const ChargeItem> left_;
    Done done_;
};

Inspector::Inspector(redis::Servers servers, std::string key_prefix, bool local_clock)
    : servers_(std::move(servers)), key_prefix_(std::move(key_prefix)), local_clock_(local_clock) {}

void Inspector::count(std::span<const ChargeItem> items, OnCounts done) const {
    assert(!items.empty());
    using Asked = Question<Counting>;
    Asked::go_on(std::make_unique<Asked>(*this, Counting{clock(), {}}, items, std::move(done)));
}

void Inspector::forget(std::span<const ChargeItem> items, OnForgotten done) const {
    assert(!items.empty());
    using Asked = Question<Forgetting>;
    Asked::go_on(std::make_unique<Asked>(*this, Forgetting{}, items, std::move(done)));
}

std::optional<Micros> Inspector::clock() const {
    if (!local_clock_) return std::nullopt;
    return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace tidegate::store
