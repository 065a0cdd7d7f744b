#include "store/local_report.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "redis/slot.hpp"
#include "store/memory_store.hpp"
#include "store/report_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::Micros;
using telemetry::LocalReportResult;

// After a failure nothing is sent for so long: it is no time to ask for more.
constexpr std::chrono::seconds kQuiet{1};
// What Redis refuses was not done and may be asked again, but not for ever.
constexpr int kRefusalsMax = 3;

std::uint16_t slot_of(const LocalTaken& taken) {
    return redis::slot_of_tag(taken.identifier);
}

std::optional<Micros> wall_clock(bool local_clock) {
    if (!local_clock) return std::nullopt;
    return std::chrono::duration_cast<Micros>(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

// One identifier on its way. Ends itself.
class LocalReport::Command final : public redis::Request {
  public:
    Command(LocalReport& report, LocalTaken taken) : report_(report), taken_(std::move(taken)) {}

    void append_command(std::string& out) override {
        has_left_ = true;
        append_report_command(taken_, process_now(), report_.options_.key_prefix,
                              wall_clock(report_.options_.local_clock), out);
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

    // Redis did not take it.
    LocalTaken come_back() { return std::move(taken_); }

    // It is not kept for another time; and if it has not left yet, it tells of nothing.
    void forget_if_meant(std::span<const limit::ChargeItem> items) {
        const bool is_meant = std::any_of(items.begin(), items.end(), [&](const auto& item) {
            return item.identifier == taken_.identifier && item.policy->name == taken_.policy->name;
        });
        if (!is_meant) return;
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

LocalReport::LocalReport(redis::Servers servers, Options options, telemetry::MetricsShard& metrics)
    : servers_(std::move(servers)),
      options_(std::move(options)),
      metrics_(&metrics),
      ledger_(options_.ledger) {}

void LocalReport::took(const limit::Charge& charge, const limit::Verdict& verdict) {
    count(LocalReportResult::forgotten, ledger_.take(charge, verdict));
}

void LocalReport::gave_back(const limit::Refund& refund, Micros now) {
    if (!ledger_.empty()) ledger_.give_back(refund, now);
}

void LocalReport::forget(std::span<const limit::ChargeItem> items) {
    ledger_.forget(items);
    for (Command* const command : in_flight_) command->forget_if_meant(items);
}

void LocalReport::send(redis::SteadyTime now) {
    if (std::exchange(failed_, false)) quiet_until_ = now + kQuiet;
    if (ledger_.empty() || now < quiet_until_ || in_flight_.size() >= options_.at_once) return;
    auto handed = ledger_.hand_out(options_.at_once - in_flight_.size(),
                                   [&](const LocalTaken& taken) { return is_reachable(taken); });
    for (LocalTaken& taken : handed) {
        if (taken.ends <= process_now()) {
            count(LocalReportResult::expired);
        } else {
            send_one(std::move(taken));
        }
    }
}

bool LocalReport::is_reachable(const LocalTaken& taken) const {
    return !servers_.is_away(servers_.is_cluster() ? slot_of(taken) : std::uint16_t{0});
}

void LocalReport::send_one(LocalTaken taken) {
    const std::uint16_t slot = slot_of(taken);
    auto command = std::make_unique<Command>(*this, std::move(taken));
    if (servers_.send(*command, slot)) {
        failed_ = true;
        keep(command->come_back());
        return;
    }
    in_flight_.push_back(command.release());  // ends itself
}

void LocalReport::keep(LocalTaken taken) {
    count(LocalReportResult::forgotten, ledger_.put_back(std::move(taken)));
}

void LocalReport::count(LocalReportResult result, std::size_t times) {
    if (times > 0) metrics_->count_local_report(result, times);
}

}  // namespace tidegate::store
