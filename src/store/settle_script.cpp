#include "store/settle_script.hpp"

#include <cassert>

#include "store/charge_script.hpp"
#include "store/refund_script.hpp"
#include "store/resp.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::Micros;

void append_settle_call(const redis::Script& script, std::size_t keys, std::size_t arguments,
                        std::string& out) {
    append_length('*', 3 + keys + arguments, out);
    append_string("EVALSHA", out);
    append_string(script.sha1, out);
    append_number(keys, out);
}

void append_claim_key(const Claim& claim, std::string_view prefix, std::string& out) {
    std::string key(prefix);
    key.append("settled:").append(claim.reservation);
    key.append(":{").append(claim.identifier).append("}");
    append_string(key, out);
}

void append_claim_arguments(const Claim& claim, std::string& out) {
    assert(claim.cost >= 0 && claim.kept_for.count() > 0);
    append_number(static_cast<std::uint64_t>(claim.kept_for.count()), out);
    append_number(static_cast<std::uint64_t>(claim.cost), out);
}

}  // namespace

void append_settle_less_command(const Claim& claim, const limit::Refund& refund,
                                std::string_view prefix, std::optional<Micros> clock,
                                std::string& out) {
    const std::size_t keys = refund_keys(refund);
    const bool corrects = keys > 0;
    const std::size_t arguments = corrects ? 3 + (clock ? 1 : 0) : 2;
    append_settle_call(settle_less_script(), keys + 1, arguments, out);
    if (corrects) append_refund_keys(refund, prefix, out);
    append_claim_key(claim, prefix, out);
    if (corrects) {
        append_refund_argument(refund, out);
        append_clock(clock, out);
    }
    append_claim_arguments(claim, out);
}

void append_settle_more_command(const Claim& claim, const limit::Charge& charge,
                                std::string_view prefix, std::optional<Micros> clock,
                                std::string& out) {
    assert(!charge.items.empty() && charge.cost > 0);
    const std::size_t keys = reading_keys(charge.items);
    append_settle_call(settle_more_script(), keys + 1, 4 + (clock ? 1 : 0), out);
    append_reading_keys(charge.items, prefix, out);
    append_claim_key(claim, prefix, out);
    append_charge_arguments({&charge, 1}, clock, out);
    append_clock(clock, out);
    append_claim_arguments(claim, out);
}

}  // namespace tidegate::store
