#include "store/refund.hpp"

#include <string>
#include <utility>

#include "store/refund_script.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

using limit::Micros;

void Refunds::give_back(const Admission& from, limit::Refund::Of of,
                        limit::AnswerStatus status) const {
    const limit::Refund refund{from.charge, &from.receipt, of, status};
    if (!from.in_redis) {
        const limit::Now now = process_now();
        memory_.give_back(refund, now);
        local_report_.gave_back(refund, now);
        return;
    }
    std::string command;
    if (append_refund_command(refund, redis_.key_prefix, redis_.clock(), command)) {
        redis_.send_and_forget(std::move(command), &give_back_script(),
                               redis_.slot_of(from.charge.items));
    }
}

void Refunds::release(const limit::Charge& charge, bool in_redis, Micros hold) const {
    if (in_redis) {
        release_in_redis(charge, hold);
    } else {
        memory_.release(charge, hold > Micros{0} ? process_now().steady + hold : Micros{0});
    }
}

void Refunds::release_in_redis(const limit::Charge& charge, Micros hold) const {
    const std::uint16_t slot = redis_.slot_of(charge.items);
    if (hold > Micros{0}) {
        std::string command;
        if (append_hold_command(charge, redis_.key_prefix, hold, redis_.clock(), command)) {
            redis_.send_and_forget(std::move(command), &hold_script(), slot);
        }
        return;
    }
    for (std::string& command : release_commands(charge, redis_.key_prefix)) {
        redis_.send_and_forget(std::move(command), nullptr, slot);
    }
}

}  // namespace tidegate::store
