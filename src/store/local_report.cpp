#include "store/local_report.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "store/memory_store.hpp"
#include "store/report_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::Micros;

// The pause after a failure.
constexpr std::chrono::seconds kQuiet{1};
// A report that Redis refuses was not carried out: it is sent again, a few times.
constexpr int kRefusalsMax = 3;

}  // namespace

// One identifier on its way. Deletes itself.
class LocalReport::Command final : public redis::Request {
  public:
    Command(LocalReport& report, LocalTaken taken) : report_(report), taken_(std::move(taken)) {}

    void append_command(std::string& out) override {
        has_left_ = true;
        append_report_command(taken_, process_now(), report_.redis_.key_prefix,
                              report_.redis_.clock(), out);
    }
    const redis::Script* script() const override { return &report_script(); }

    void on_reply(const redis::Reply&) override {
        count(LocalReportResult::reported);
        end();
    }

    void on_failure(redis::Failure failure) override {
        report_.failed_ = true;
        const bool was_refused = has_left_ && failure == redis::Failure::refused;
        if (has_left_ && !was_refused) {
            count(LocalReportResult::lost);
        } else if (was_refused && ++taken_.refusals == kRefusalsMax) {
            count(LocalReportResult::refused);
        } else if (!is_forgotten_) {
            report_.keep(std::move(taken_));
        }
        end();
    }

    // Redis did not take the command.
    LocalTaken take_back() { return std::move(taken_); }

    // If it is about one of the items: is not kept for another time, and reports nothing if it has
    // not left yet.
    void forget_if_about(std::span<const limit::ChargeItem> items) {
        const bool is_about = std::any_of(items.begin(), items.end(), [&](const auto& item) {
            return item.identifier == taken_.identifier && item.policy->name == taken_.policy->name;
        });
        if (!is_about) return;
        is_forgotten_ = true;
        for (LocalTaken::OfLimit& of_limit : taken_.limits) of_limit = {};
    }

  private:
    void count(LocalReportResult result) {
        if (!is_forgotten_) report_.count(result);
    }

    void end() {
        std::erase(report_.in_flight_, this);
        delete this;
    }

    LocalReport& report_;
    LocalTaken taken_;
    bool has_left_ = false;  // it may have been carried out
    bool is_forgotten_ = false;
};

LocalReport::LocalReport(RedisStore redis, const Options& options, Metrics& metrics)
    : redis_(std::move(redis)),
      at_once_(options.at_once),
      metrics_(&metrics),
      ledger_(options.ledger) {}

void LocalReport::took(const limit::Charge& charge, const limit::Verdict& verdict) {
    const limit::Now now = process_now();
    count(LocalReportResult::forgotten, ledger_.take(charge, verdict, now.wall - now.steady));
}

void LocalReport::gave_back(const limit::Refund& refund, const limit::Now& now) {
    if (!ledger_.empty()) ledger_.give_back(refund, now);
}

void LocalReport::forget(std::span<const limit::ChargeItem> items) {
    ledger_.forget(items);
    for (Command* const command : in_flight_) command->forget_if_about(items);
}

void LocalReport::send(SteadyTime now) {
    if (std::exchange(failed_, false)) quiet_until_ = now + kQuiet;
    if (ledger_.empty() || now < quiet_until_ || in_flight_.size() >= at_once_) return;
    auto handed = ledger_.hand_out(at_once_ - in_flight_.size(),
                                   [&](const LocalTaken& taken) { return is_reachable(taken); });
    for (LocalTaken& taken : handed) {
        if (taken.ends <= process_now().steady) {
            count(LocalReportResult::expired);
        } else {
            send_one(std::move(taken));
        }
    }
}

bool LocalReport::is_reachable(const LocalTaken& taken) const {
    const limit::ChargeItem item = taken.item();
    return !redis_.servers.is_away(redis_.slot_of({&item, 1}));
}

void LocalReport::send_one(LocalTaken taken) {
    const limit::ChargeItem item = taken.item();
    const std::uint16_t slot = redis_.slot_of({&item, 1});
    auto command = std::make_unique<Command>(*this, std::move(taken));
    if (redis_.servers.send(*command, slot)) {
        failed_ = true;
        keep(command->take_back());
        return;
    }
    in_flight_.push_back(command.release());  // deletes itself
}

void LocalReport::keep(LocalTaken taken) {
    count(LocalReportResult::forgotten, ledger_.put_back(std::move(taken)));
}

void LocalReport::count(LocalReportResult result, std::size_t times) {
    if (times > 0) metrics_->local_reports[result].add(times);
}

}  // namespace tidegate::store
