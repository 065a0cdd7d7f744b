#include "faces/check_settle.hpp"

#include <algorithm>
#include <optional>

#include "client/stream.hpp"
#include "store/limiter.hpp"
#include "store/settlement.hpp"

namespace tidegate::faces {

namespace {

using std::chrono::milliseconds;

// For how long after its end a settled reservation is remembered: longer than clocks differ.
constexpr std::chrono::minutes kRememberedFor{10};

class Settling {
  public:
    using State = Settled::State;

    Settling(const Check& face, proxy::Exchange& exchange, const SealedReservation& reserved,
             milliseconds left)
        : face_(face),
          x_(exchange),
          limiter_(face.worker.engine.limiter()),
          reserved_(reserved),
          remembered_for_(left + kRememberedFor) {}

    Task<Settled> run(std::int64_t cost) {
        const bool is_in_redis = has_part(true);
        const bool is_ours = reserved_.process == face_.reservations.process;
        if (is_in_redis && limiter_.redis() == nullptr) co_return Settled{State::in_redis};
        if (!is_in_redis && !is_ours) co_return Settled{State::elsewhere};
        Settled settled{State::settled, cost};
        if (is_in_redis) {
            settled = co_await settle_redis(cost);
            if (settled.state != State::settled) co_return settled;
        }
        // What another process counts in its own memory expires there.
        if (is_ours && (!is_in_redis || has_part(false))) {
            settled = co_await settle_here(settled.cost);
        }
        co_return settled;
    }

  private:
    bool has_part(bool in_redis) const {
        const auto& parts = reserved_.reservation.parts;
        return std::any_of(parts.begin(), parts.end(),
                           [&](const auto& part) { return part.in_redis == in_redis; });
    }

    Task<Settled> settle_redis(std::int64_t cost) {
        const store::Settlement settlement{reserved_.reservation, reserved_.nonce, cost,
                                           remembered_for_};
        const std::optional<std::int64_t> settled = co_await store::settle_in_redis(
            *limiter_.redis(), settlement, x_.config(), x_.client->sleeper().wakeup());
        // Also without an answer: Redis may have given units back.
        for (const store::Reservation::Part& part : reserved_.reservation.parts) {
            for (const auto& item : part.items) limiter_.note_freed(item.identifier);
        }
        if (!settled) co_return Settled{State::no_redis};
        co_return Settled{State::settled, *settled};
    }

    Task<Settled> settle_here(std::int64_t cost) {
        using Claim = store::SettledIds::Claim;
        store::SettledIds& ids = face_.reservations.settled;
        const auto now = std::chrono::steady_clock::now();
        const Claim claim = ids.claim(reserved_.nonce, cost, now, now + remembered_for_);
        if (claim.state == Claim::State::full) co_return Settled{State::full};
        if (claim.state == Claim::State::settling) co_return Settled{State::settling};
        if (claim.state == Claim::State::settled) co_return Settled{State::settled, claim.cost};
        if (!co_await correct_here(cost)) {
            // The next settlement may count some of the units a second time, but misses none.
            ids.forget(reserved_.nonce);
            co_return Settled{State::uncounted};
        }
        ids.settled(reserved_.nonce);
        co_return Settled{State::settled, cost};
    }

    // False: more was spent than reserved, and no store has counted it.
    Task<bool> correct_here(std::int64_t cost) {
        const store::Reservation& reservation = reserved_.reservation;
        bool is_counted = true;
        for (const store::Reservation::Part& part : reservation.parts) {
            if (part.in_redis) continue;
            if (cost < reservation.cost) {
                give_back(part, reservation.cost - cost);
            } else if (cost > reservation.cost) {
                is_counted = co_await take_more(part, cost - reservation.cost) && is_counted;
            }
        }
        co_return is_counted;
    }

    void give_back(const store::Reservation::Part& part, std::int64_t units) const {
        const store::Reservation& reservation = reserved_.reservation;
        const store::ReservedItems reserved =
            store::items_to_give_back(part, reservation.cost, x_.config());
        if (reserved.items.empty()) return;
        limiter_.give_back_in_process({reserved.items, units, {}, reservation.moment},
                                      reserved.receipt);
    }

    // Counts what was spent, also above the quota: in Redis, if Redis is back.
    Task<bool> take_more(const store::Reservation::Part& part, std::int64_t units) {
        const store::ReservedItems counted = store::items_to_take(part, x_.config());
        if (counted.items.empty()) co_return true;
        store::LimitDecision more;
        more.items = counted.items;
        more.cost = units;
        more.moment = reserved_.reservation.moment;
        more.is_alone = true;
        Wakeup& wakeup = x_.client->sleeper().wakeup();
        limiter_.decide(more, wakeup);
        while (more.result == store::LimitDecision::Result::pending) co_await wakeup.wait();
        co_return more.result != store::LimitDecision::Result::unavailable;
    }

    const Check& face_;
    proxy::Exchange& x_;
    store::Limiter& limiter_;
    const SealedReservation& reserved_;
    milliseconds remembered_for_;
};

}  // namespace

Task<Settled> settle_reservation(const Check& face, proxy::Exchange& exchange,
                                 const SealedReservation& reserved, std::int64_t cost,
                                 milliseconds left) {
    Settling settling(face, exchange, reserved, left);
    co_return co_await settling.run(cost);
}

}  // namespace tidegate::faces
