#include "store/local_report.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include <boost/unordered/unordered_flat_set.hpp>

#include "base/secrets.hpp"
#include "base/text.hpp"
#include "limit/bytes.hpp"
#include "store/charge_script.hpp"
#include "store/process_clock.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::Limit;
using limit::Micros;

constexpr std::size_t kSamples = 8;        // of entries that may be forgotten
constexpr std::size_t kLookedAtMost = 64;  // by one hand_out() that wants fewer

// Copies count in the same way and as much: what is noted of one is true of the other.
bool is_copy_of(const limit::Policy& copy, const ChargeItem& item) {
    const auto limits = item.limits();
    return copy.name == item.policy->name &&
           std::equal(copy.limits.begin(), copy.limits.end(), limits.begin(), limits.end(),
                      [](const Limit& left, const Limit& right) {
                          return left.id == right.id && left.quota == right.quota &&
                                 left.burst == right.burst && left.max_delay == right.max_delay &&
                                 left.zone == right.zone;
                      });
}

// Nothing taken yet, as the algorithm of each limit notes it.
std::vector<LocalTaken::OfLimit> nothing_taken(std::span<const Limit> limits) {
    std::vector<LocalTaken::OfLimit> made;
    for (const Limit& limit : limits) {
        made.push_back(limit::with_kind(
            limit.state(), []<class Kind>(std::type_identity<Kind>) -> LocalTaken::OfLimit {
                return typename Kind::Unreported{};
            }));
    }
    return made;
}

// The pause after a failure.
constexpr std::chrono::seconds kQuiet{1};
// How long Redis remembers the name of a report, and how long one without an answer is sent again.
constexpr std::chrono::milliseconds kNameKept{600'000};
constexpr std::chrono::seconds kAskedAgain{300};
constexpr std::size_t kUnsureMax = 1'000;
// A report that Redis refuses was not carried out: it is sent again, a few times. One for which
// Redis is not ready waits until it is, or until its units no longer count.
constexpr int kRefusalsMax = 3;

}  // namespace

void LocalTaken::take(std::size_t k, std::int64_t units, const limit::Now& at) {
    const Limit& limit = policy->limits[k];
    wall_ahead = at.wall - at.steady;
    std::visit(
        [&](auto& one) {
            one.take(limit, units, at);
            ends = std::max(ends, one.ends(limit, wall_ahead));
        },
        limits[k]);
}

void LocalTaken::give_back(std::size_t k, std::int64_t units, Micros at, const limit::Now& now) {
    std::visit([&](auto& one) { one.give_back(policy->limits[k], units, at, now); }, limits[k]);
}

void LocalTaken::add_later(const LocalTaken& later) {
    ends = Micros{0};
    wall_ahead = later.wall_ahead;
    for (std::size_t k = 0; k < limits.size(); ++k) {
        const Limit& limit = policy->limits[k];
        std::visit(
            [&]<class One>(One& one) {
                one.add_later(limit, std::get<One>(later.limits[k]));
                ends = std::max(ends, one.ends(limit, wall_ahead));
            },
            limits[k]);
    }
}

void LocalTaken::clear() {
    for (OfLimit& one : limits) {
        std::visit([]<class One>(One& of_limit) { of_limit = One{}; }, one);
    }
}

double LocalTaken::weight() const {
    double heaviest = 0;
    for (std::size_t k = 0; k < limits.size(); ++k) {
        const Limit& limit = policy->limits[k];
        const auto units = std::visit([](const auto& one) { return one.units(); }, limits[k]);
        heaviest = std::max(heaviest,
                            limit::weight_of(units, std::max<std::int64_t>(1, limit.quota), limit));
    }
    return heaviest;
}

std::size_t LocalTaken::portions() const {
    std::size_t count = 0;
    for (const OfLimit& one : limits) {
        count += std::visit([](const auto& of_limit) { return of_limit.portions(); }, one);
    }
    return count;
}

std::size_t LocalLedger::Hash::operator()(const Name& name) const {
    const auto policy = reinterpret_cast<std::uintptr_t>(name.policy);
    return hash_text(name.identifier, secret ^ policy, secret);
}

LocalLedger::LocalLedger(const Options& options) : options_(options), places_(0, Hash{1}) {
    std::random_device device;
    places_ = decltype(places_)(0, Hash{(std::uint64_t{device()} << 32 | device()) | 1});
    random_.seed(device());
}

LocalLedger::~LocalLedger() = default;

std::size_t LocalLedger::take(const limit::Charge& charge, const limit::Verdict& verdict,
                              Micros wall_ahead) {
    const limit::Now now{verdict.receipt.at, verdict.receipt.at + wall_ahead};
    latest_ = std::max(latest_, now.steady);
    std::size_t forgotten = 0;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        const ChargeItem& item = charge.items[i];
        const bool granted = verdict.receipt.generations[i] != 0;
        const auto limits = item.limits();
        const auto is_noted = [&](const Limit& limit) {
            return limit.traits().reports && (granted || limit.count == limit::Count::all);
        };
        const std::int64_t cost = charge.cost_of(item);
        if (cost == 0 || std::none_of(limits.begin(), limits.end(), is_noted)) continue;
        LocalTaken& taken = made(item, forgotten);
        const std::size_t before = taken.portions();
        for (std::size_t k = 0; k < limits.size(); ++k) {
            if (is_noted(limits[k])) taken.take(k, cost, now);
        }
        portions_ = portions_ + taken.portions() - before;
    }
    return forgotten + make_room(0);
}

void LocalLedger::give_back(const limit::Refund& refund, const limit::Now& now) {
    const auto& generations = refund.receipt->generations;
    if (generations.size() != refund.charge.items.size()) return;
    for (std::size_t i = 0; i < generations.size(); ++i) {
        const ChargeItem& item = refund.charge.items[i];
        const std::int64_t cost = refund.charge.cost_of(item);
        LocalTaken* const taken = generations[i] != 0 && cost > 0 ? find(item) : nullptr;
        if (taken == nullptr) continue;
        const std::size_t before = taken->portions();
        const auto limits = item.limits();
        for (std::size_t k = 0; k < limits.size(); ++k) {
            if (!limits[k].traits().reports || !refund.concerns(limits[k])) continue;
            taken->give_back(k, cost, refund.receipt->at, now);
        }
        portions_ -= before - taken->portions();
    }
}

void LocalLedger::forget(std::span<const ChargeItem> items) {
    boost::unordered_flat_set<std::pair<std::string_view, std::string_view>> meant;
    for (const ChargeItem& item : items) meant.emplace(item.identifier, item.policy->name);
    for (std::size_t place = kept_.size(); place > 0; --place) {
        const LocalTaken& one = *kept_[place - 1];
        if (meant.contains({one.identifier, one.policy->name})) remove(place - 1);
    }
}

std::vector<LocalTaken> LocalLedger::hand_out(std::size_t most, const Ready& ready) {
    std::vector<LocalTaken> handed;
    const std::size_t looked_at = std::min(kept_.size(), std::max(kLookedAtMost, most));
    for (std::size_t looked = 0; looked < looked_at && handed.size() < most; ++looked) {
        if (hand_ >= kept_.size()) hand_ = 0;
        if (ready(*kept_[hand_])) {
            handed.push_back(remove(hand_));
        } else {
            ++hand_;
        }
    }
    return handed;
}

std::size_t LocalLedger::put_back(LocalTaken taken) {
    const std::size_t forgotten = make_room(1);
    const auto there = places_.find(Name{taken.policy.get(), taken.identifier});
    if (there != places_.end()) {
        taken.add_later(remove(there->second));
    }
    keep(std::move(taken));
    return forgotten;
}

std::shared_ptr<const limit::Policy>& LocalLedger::place_of_copy(const ChargeItem& item) {
    // Tiers with quotas of tokens share an index.
    if (item.tier != nullptr && item.tier->by_claims) {
        constexpr std::size_t kKept = 10'000;
        if (copies_by_claims_.size() > kKept) copies_by_claims_.clear();
        return copies_by_claims_[item.tier];
    }
    const std::size_t index = item.tier != nullptr ? item.tier->index : item.policy->index;
    if (index >= copies_.size()) copies_.resize(index + 1);
    return copies_[index];
}

// Limits are copied once for all identifiers that they count.
const std::shared_ptr<const limit::Policy>& LocalLedger::copy_of(const ChargeItem& item) {
    std::shared_ptr<const limit::Policy>& copy = place_of_copy(item);
    if (copy && is_copy_of(*copy, item)) return copy;
    limit::Policy made;
    made.name = item.policy->name;
    made.limits.assign(item.limits().begin(), item.limits().end());
    made.shadow = item.policy->shadow;
    copy = std::make_shared<const limit::Policy>(std::move(made));
    return copy;
}

LocalTaken* LocalLedger::find(const ChargeItem& item) {
    const auto found = places_.find(Name{copy_of(item).get(), item.identifier});
    return found == places_.end() ? nullptr : kept_[found->second].get();
}

LocalTaken& LocalLedger::made(const ChargeItem& item, std::size_t& forgotten) {
    if (LocalTaken* const found = find(item)) return *found;
    forgotten += make_room(1);
    LocalTaken taken;
    taken.policy = copy_of(item);
    taken.identifier = item.identifier;
    taken.limits = nothing_taken(item.limits());
    keep(std::move(taken));
    return *kept_.back();
}

void LocalLedger::keep(LocalTaken taken) {
    portions_ += taken.portions();
    kept_.push_back(std::make_unique<LocalTaken>(std::move(taken)));
    const LocalTaken& one = *kept_.back();
    places_.emplace(Name{one.policy.get(), one.identifier}, kept_.size() - 1);
}

// The last one takes its place.
LocalTaken LocalLedger::remove(std::size_t place) {
    LocalTaken& one = *kept_[place];
    places_.erase(Name{one.policy.get(), one.identifier});
    LocalTaken removed = std::move(one);
    portions_ -= removed.portions();
    if (place + 1 < kept_.size()) {
        kept_[place] = std::move(kept_.back());
        places_.find(Name{kept_[place]->policy.get(), kept_[place]->identifier})->second = place;
    }
    kept_.pop_back();
    return removed;
}

// A flood of new names evicts its own entries, not those near their limit.
std::size_t LocalLedger::make_room(std::size_t names) {
    std::size_t forgotten = 0;
    while (!kept_.empty() &&
           (kept_.size() + names > options_.identifiers_max || portions_ > options_.portions_max)) {
        std::size_t least = 0;
        double least_weight = -1;
        for (std::size_t sample = 0; sample < kSamples; ++sample) {
            // The newest is among them, and goes before those that are as heavy: a flood of names
            // evicts its own entries.
            const std::size_t place = sample == 0 ? kept_.size() - 1 : random_() % kept_.size();
            const LocalTaken& one = *kept_[place];
            const double weight = one.ends <= latest_ ? 0 : one.weight();
            if (least_weight >= 0 && weight >= least_weight) continue;
            least = place;
            least_weight = weight;
        }
        remove(least);
        ++forgotten;
    }
    return forgotten;
}

void append_report_command(const LocalTaken& taken, const limit::Now& now, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out, std::string_view name) {
    const limit::ChargeItem item = taken.item();
    const bool is_named = !name.empty();
    std::string report;
    limit::append_double(now.steady.count(), report);
    for (std::size_t k = 0; k < taken.limits.size(); ++k) {
        std::visit(
            [&](const auto& one) { one.append_report(taken.policy->limits[k], now, report); },
            taken.limits[k]);
    }
    const std::size_t keys = reading_keys({&item, 1});
    append_length('*', (is_named ? 8 : 5) + keys + (clock ? 1 : 0), out);
    append_string("EVALSHA", out);
    append_string(is_named ? report_once_script().sha1 : report_script().sha1, out);
    if (!is_named) {
        append_reading({&item, 1}, keys, 0, prefix, clock, out);
    } else {
        append_number(keys + 1, out);
        append_reading_keys({&item, 1}, prefix, out);
        std::string claim(prefix);
        claim.append("reported:").append(name).append(":{").append(taken.identifier).append("}");
        append_string(claim, out);
        append_reading_argument({&item, 1}, 0, clock, out);
    }
    append_string(report, out);
    if (clock) append_number(static_cast<std::uint64_t>(clock->count()), out);
    if (!is_named) return;
    append_number(static_cast<std::uint64_t>(kNameKept.count()), out);
    append_string("1", out);
}

// One identifier on its way. Deletes itself.
class LocalReport::Command final : public redis::Request {
  public:
    // With a name, Redis takes the report once, however often it is sent.
    Command(LocalReport& report, LocalLedger& from, Unsure&& sent)
        : report_(report),
          from_(from),
          taken_(std::move(sent.taken)),
          name_(std::move(sent.name)),
          since_(sent.since),
          is_again_(sent.is_again) {}

    bool is_of(const LocalLedger& ledger) const { return &from_ == &ledger; }

    void append_command(std::string& out) override {
        has_left_ = true;
        append_report_command(taken_, process_now(), report_.redis_.key_prefix,
                              report_.redis_.clock(), out, name_);
    }
    const redis::Script* script() const override {
        return name_.empty() ? &report_script() : &report_once_script();
    }

    void on_reply(const redis::Reply&) override {
        count(LocalReportResult::reported);
        end();
    }

    void on_failure(redis::Failure failure) override {
        report_.failed_ = true;
        if (failure == redis::Failure::refused) ++taken_.refusals;
        const bool may_be_done = is_again_ || (has_left_ && is_outcome_unknown(failure));
        if (taken_.refusals == kRefusalsMax) {
            count(LocalReportResult::refused);
        } else if (!may_be_done) {
            if (!is_forgotten_) report_.keep(from_, std::move(taken_));
        } else if (name_.empty()) {
            count(LocalReportResult::lost);
        } else if (!is_forgotten_) {
            report_.ask_again({std::move(taken_), std::move(name_), since_});
        }
        end();
    }

    // Redis did not take the command.
    LocalTaken unsent() { return std::move(taken_); }
    Unsure unsent_again() { return {std::move(taken_), std::move(name_), since_, true}; }

    // If it is about one of the items: is not kept for another time, and reports nothing if it has
    // not left yet.
    void forget_if_about(std::span<const limit::ChargeItem> items) {
        const bool is_about = std::any_of(items.begin(), items.end(), [&](const auto& item) {
            return item.identifier == taken_.identifier && item.policy->name == taken_.policy->name;
        });
        if (!is_about) return;
        is_forgotten_ = true;
        taken_.clear();
    }

  private:
    static bool is_outcome_unknown(redis::Failure failure) {
        return failure == redis::Failure::timeout || failure == redis::Failure::disconnected;
    }

    void count(LocalReportResult result) {
        if (!is_forgotten_) report_.count(result);
    }

    void end() {
        std::erase(report_.in_flight_, this);
        delete this;
    }

    LocalReport& report_;
    LocalLedger& from_;
    LocalTaken taken_;
    std::string name_;
    SteadyTime since_;       // when it was sent first
    bool is_again_;          // an earlier one of this name may have been carried out
    bool has_left_ = false;  // so may this one, unless Redis says otherwise
    bool is_forgotten_ = false;
};

LocalReport::LocalReport(RedisStore redis, const Options& options, Metrics& metrics)
    : redis_(std::move(redis)),
      at_once_(options.at_once),
      more_at_once_(options.more_at_once),
      metrics_(&metrics),
      ledger_(options.ledger),
      more_(options.ledger),
      more_left_(options.more_at_once) {
    std::random_device device;
    append_hex64(std::uint64_t{device()} << 32 | device(), name_);
}

void LocalReport::took(const limit::Charge& charge, const limit::Verdict& verdict) {
    const limit::Now now = process_now();
    count(LocalReportResult::forgotten, ledger_.take(charge, verdict, now.wall - now.steady));
}

void LocalReport::gave_back(const limit::Refund& refund, const limit::Now& now) {
    if (!ledger_.empty()) ledger_.give_back(refund, now);
}

void LocalReport::took_more(const limit::Charge& more, bool in_redis) {
    const limit::Now now = process_now();
    limit::Verdict all;
    all.receipt.at = now.steady;
    all.receipt.generations.assign(more.items.size(), 1);
    LocalLedger& ledger = in_redis ? more_ : ledger_;
    count(LocalReportResult::forgotten, ledger.take(more, all, now.wall - now.steady));
    if (in_redis) send_more();
}

void LocalReport::forget(std::span<const limit::ChargeItem> items) {
    ledger_.forget(items);
    more_.forget(items);
    for (Command* const command : in_flight_) command->forget_if_about(items);
    std::erase_if(unsure_, [&](const Unsure& one) {
        return std::any_of(items.begin(), items.end(), [&](const limit::ChargeItem& item) {
            return item.identifier == one.taken.identifier &&
                   item.policy->name == one.taken.policy->name;
        });
    });
}

void LocalReport::send(SteadyTime now) {
    if (std::exchange(failed_, false)) quiet_until_ = now + kQuiet;
    more_left_ = now < quiet_until_ ? 0 : more_at_once_;
    if (now >= quiet_until_) send_unsure(now);
    send_more();
    if (ledger_.empty() || now < quiet_until_) return;
    const auto under_way = static_cast<std::size_t>(
        std::count_if(in_flight_.begin(), in_flight_.end(),
                      [&](const Command* command) { return command->is_of(ledger_); }));
    if (under_way < at_once_) send_from(ledger_, at_once_ - under_way);
}

// Until Redis has answered, a failure is not known: more_left_ bounds what is sent meanwhile.
void LocalReport::send_more() {
    if (more_left_ == 0 || more_.empty() || failed_) return;
    const std::size_t before = more_.size();
    send_from(more_, more_left_);
    more_left_ -= std::min(more_left_, before - std::min(before, more_.size()));
}

void LocalReport::send_from(LocalLedger& ledger, std::size_t most) {
    auto handed = ledger.hand_out(most, [&](const auto& taken) { return is_reachable(taken); });
    for (LocalTaken& taken : handed) {
        if (taken.ends <= process_now().steady) {
            count(LocalReportResult::expired);
        } else {
            send_one(ledger, std::move(taken));
        }
    }
}

bool LocalReport::is_idle() const {
    return std::none_of(in_flight_.begin(), in_flight_.end(),
                        [&](const Command* command) { return command->is_of(more_); });
}

bool LocalReport::is_reachable(const LocalTaken& taken) const {
    const limit::ChargeItem item = taken.item();
    return !redis_.servers.is_away(redis_.slot_of({&item, 1}));
}

// What requests cost more is counted once, so it has a name that Redis remembers. What was admitted
// while Redis was away is only a help, and needs none.
void LocalReport::send_one(LocalLedger& from, LocalTaken taken) {
    std::string name;
    if (&from == &more_) name = name_ + '-' + std::to_string(++last_name_);
    send_named(from, {std::move(taken), std::move(name), steady_now()});
}

void LocalReport::send_named(LocalLedger& from, Unsure report) {
    const limit::ChargeItem item = report.taken.item();
    const std::uint16_t slot = redis_.slot_of({&item, 1});
    const bool is_again = report.is_again;
    auto command = std::make_unique<Command>(*this, from, std::move(report));
    if (redis_.servers.send(*command, slot)) {
        failed_ = true;
        if (is_again) {
            unsure_.push_front(command->unsent_again());
        } else {
            keep(from, command->unsent());
        }
        return;
    }
    in_flight_.push_back(command.release());  // deletes itself
}

void LocalReport::ask_again(Unsure report) {
    report.is_again = true;
    if (unsure_.size() == kUnsureMax) {
        unsure_.pop_front();
        count(LocalReportResult::lost);
    }
    unsure_.push_back(std::move(report));
}

void LocalReport::send_unsure(SteadyTime now) {
    for (std::size_t left = std::min(unsure_.size(), more_at_once_); left > 0; --left) {
        Unsure report = std::move(unsure_.front());
        unsure_.pop_front();
        if (now - report.since > kAskedAgain) {
            count(LocalReportResult::lost);
        } else if (failed_ || !is_reachable(report.taken)) {
            unsure_.push_back(std::move(report));
        } else {
            send_named(more_, std::move(report));
        }
    }
}

void LocalReport::keep(LocalLedger& ledger, LocalTaken taken) {
    count(LocalReportResult::forgotten, ledger.put_back(std::move(taken)));
}

void LocalReport::count(LocalReportResult result, std::size_t times) {
    if (times > 0) metrics_->local_reports[result].add(times);
}

}  // namespace tidegate::store
