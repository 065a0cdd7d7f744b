#include "store/inspector.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "limit/kinds.hpp"
#include "net/deadline.hpp"
#include "store/charge_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Limit;

// False: the script cannot have sent these numbers.
bool read_limit_count(const Limit& limit, const limit::InspectedNumbers& numbers, Micros now,
                      LimitCount& count) {
    if (numbers[0] < 0 || numbers[1] < 0) return false;
    return limit::with_kind(limit.state(), [&]<class Kind>(std::type_identity<Kind>) {
        if (!Kind::is_possible(limit, numbers)) return false;
        count = Kind::count_of(limit, numbers, now);
        return true;
    });
}

bool read_item(limit::PackedReader& reader, const ChargeItem& item, Micros now,
               ItemCounts& counts) {
    for (const Limit& limit : item.limits()) {
        limit::InspectedNumbers numbers{};
        for (std::int64_t& number : numbers) number = reader.number();
        if (reader.is_broken()) return false;
        if (!read_limit_count(limit, numbers, now, counts.limits.emplace_back())) return false;
    }
    const std::uint8_t others = reader.byte();
    for (std::uint8_t i = 0; i < others; ++i) {
        const auto id = reader.packed<std::uint32_t>();
        const Micros all_free = Micros{reader.number()} - now;
        if (all_free > Micros{0}) counts.others.push_back({id, all_free});
    }
    return !reader.is_broken();
}

// The moments of all schedules come behind everything else, in the order of items and limits.
bool read_schedules(limit::PackedReader& reader, std::span<const ChargeItem> items, Micros now,
                    std::span<ItemCounts> counts) {
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto limits = items[i].limits();
        for (std::size_t k = 0; k < limits.size(); ++k) {
            if (!limits[k].traits().has_moments) continue;
            limit::ListedMoments list;
            if (!limit::read_moments(reader, list)) return false;
            counts[i].limits[k] = limit::count_of_moments(list, limits[k], now);
        }
    }
    return true;
}

// Whether the set of the limit is forgotten: what requests in flight hold stays.
bool is_forgotten(const Limit& limit) {
    return limit.has_set() && !limit.traits().has_slots;
}

// One for each policy, in the order in which they come.
std::vector<const ChargeItem*> states_of(std::span<const ChargeItem> items) {
    std::vector<const ChargeItem*> states;
    for (const ChargeItem& item : items) {
        if (states.empty() || states.back()->policy != item.policy) states.push_back(&item);
    }
    return states;
}

// Sorted sets that a reset forgets, of moments: the item, and the limit.
std::vector<std::pair<const ChargeItem*, const Limit*>> schedules_of(
    std::span<const ChargeItem> items) {
    std::vector<std::pair<const ChargeItem*, const Limit*>> schedules;
    for (const ChargeItem& item : items) {
        for (const Limit& limit : item.limits()) {
            if (is_forgotten(limit)) schedules.emplace_back(&item, &limit);
        }
    }
    return schedules;
}

constexpr EnumTexts<redis::Failure> kFailures(
    {{redis::Failure::timeout, "Redis did not answer in time."},
     {redis::Failure::disconnected, "The connection to Redis was lost."},
     {redis::Failure::unavailable, "Redis is down."},
     {redis::Failure::overloaded, "Too many commands wait for Redis."},
     {redis::Failure::not_ready,
      "Redis does not carry out commands now: it is a replica, or its memory is full, or it loads "
      "its data. See the proxy's log."},
     {redis::Failure::refused,
      "Redis refused the command: its user lacks a right, or another program wrote the key (a "
      "reset removes it). See the proxy's log."}});

constexpr const char* kNotUnderstood = "Redis sent a reply that Tidegate cannot read.";

}  // namespace

void append_counts_command(std::span<const ChargeItem> items, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out) {
    assert(!items.empty() && items.size() <= kItemsCountedMax);
    const std::size_t keys = reading_keys(items);
    append_length('*', 5 + keys + (clock ? 1 : 0), out);
    append_string("EVALSHA", out);
    append_string(inspect_script().sha1, out);
    append_reading(items, keys, 0, prefix, clock, out);
    append_string("", out);
    if (clock) append_number(static_cast<std::uint64_t>(clock->count()), out);
}

bool read_counts_reply(std::string_view reply, std::span<const ChargeItem> items, Counts& counts) {
    limit::PackedReader reader(reply);
    const Micros now{reader.number()};
    if (reader.is_broken() || now < Micros{0} || now > limit::kNowMax) return false;
    counts.now = now;
    const std::size_t first = counts.items.size();
    for (const ChargeItem& item : items) {
        if (!read_item(reader, item, now, counts.items.emplace_back())) return false;
    }
    return read_schedules(reader, items, now, std::span(counts.items).subspan(first)) &&
           reader.is_at_end();
}

void append_forget_command(std::span<const ChargeItem> items, std::string_view prefix,
                           std::string& out) {
    assert(!items.empty() && items.size() <= kItemsCountedMax);
    const auto states = states_of(items);
    const auto schedules = schedules_of(items);
    redis::append_evalsha(forget_script(), states.size() + schedules.size(), 0, out);
    for (const ChargeItem* item : states) append_state_key(*item, prefix, out);
    for (const auto& [item, limit] : schedules) append_set_key(*item, *limit, prefix, out);
}

std::optional<std::vector<bool>> read_forget_reply(std::string_view reply,
                                                   std::span<const ChargeItem> items) {
    const auto states = states_of(items);
    const auto schedules = schedules_of(items);
    if (reply.size() != states.size() + schedules.size()) return std::nullopt;
    if (reply.find_first_not_of("01") != std::string_view::npos) return std::nullopt;
    std::vector<bool> forgotten;
    auto of_states = reply.begin();
    auto of_schedules = of_states + static_cast<std::ptrdiff_t>(states.size());
    for (std::size_t i = 0; i < items.size();) {
        const limit::Policy* const policy = items[i].policy;
        bool any = *of_states++ == '1';
        for (; i < items.size() && items[i].policy == policy; ++i) {
            for (const Limit& limit : items[i].limits()) {
                if (is_forgotten(limit) && *of_schedules++ == '1') any = true;
            }
        }
        forgotten.resize(i, any);
    }
    return forgotten;
}

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
