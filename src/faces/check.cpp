#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "ask/verdict.hpp"
#include "base/text.hpp"
#include "client/stream.hpp"
#include "faces/check_call.hpp"
#include "faces/check_question.hpp"
#include "faces/faces.hpp"
#include "http/field.hpp"
#include "net/task.hpp"
#include "proxy/exchange.hpp"
#include "proxy/fault_answer.hpp"
#include "proxy/record.hpp"
#include "proxy/request.hpp"
#include "store/limiter.hpp"
#include "store/reservation.hpp"

namespace tidegate::faces {

namespace {

struct Settled {
    enum class State : std::uint8_t {
        settled,
        // The same settle may be sent again, and does what is left:
        no_redis,   // Redis did not answer
        uncounted,  // more was spent, and the memory of this process has no room for it
        settling,   // another call is settling it now
        full,       // too many reservations are remembered
        // Not here:
        elsewhere,  // counted in the memory of another process
        in_redis,   // counted in Redis, and this process counts in its memory
    };
    State state = State::settled;
    store::Costs costs{};   // settled: its own, or those of the call that has settled it before
    bool is_first = false;  // settled: by this call
};

using std::chrono::milliseconds;

// For how long after its end a settled reservation is remembered: longer than clocks differ.
constexpr std::chrono::minutes kRememberedFor{10};

class Settling {
  public:
    using State = Settled::State;

    Settling(const CheckFace& face, proxy::Exchange& exchange, const SealedReservation& reserved,
             milliseconds left)
        : face_(face),
          x_(exchange),
          limiter_(face.worker.engine.limiter()),
          reserved_(reserved),
          remembered_for_(left + kRememberedFor) {}

    Task<Settled> run(const store::Costs& costs) {
        const bool is_in_redis = has_part(true);
        const bool is_ours = reserved_.process == face_.reservations.process;
        if (is_in_redis && limiter_.redis() == nullptr) co_return Settled{State::in_redis};
        if (!is_in_redis && !is_ours) co_return Settled{State::elsewhere};
        Settled settled{State::settled, costs};
        if (is_in_redis) {
            settled = co_await settle_redis(costs);
            if (settled.state != State::settled) co_return settled;
        }
        const bool is_first = settled.is_first;
        const store::Costs decided = settled.costs;
        // What another process counts in its own memory expires there.
        if (is_ours && (!is_in_redis || has_part(false))) settled = co_await settle_here(decided);
        // Where the part in process has no costs, as another call settles it now, Redis still has
        // taken them. A first call in process settles the costs that were asked for.
        if (is_in_redis ? is_first : settled.is_first) count(decided);
        co_return settled;
    }

  private:
    bool has_part(bool in_redis) const {
        const auto& parts = reserved_.reservation.parts;
        return std::any_of(parts.begin(), parts.end(),
                           [&](const auto& part) { return part.in_redis == in_redis; });
    }

    Task<Settled> settle_redis(const store::Costs& costs) {
        const store::Settlement settlement{reserved_.reservation, reserved_.nonce, costs,
                                           remembered_for_};
        auto settled = co_await store::settle_in_redis(*limiter_.redis(), settlement, x_.config(),
                                                       x_.client->sleeper().wakeup());
        // Redis may have given units back even if no answer came.
        for (const store::Reservation::Part& part : reserved_.reservation.parts) {
            for (const auto& item : part.items) limiter_.note_freed(item.identifier);
        }
        if (!settled) co_return Settled{State::no_redis};
        co_return Settled{State::settled, std::move(settled->costs), settled->is_first};
    }

    // Each policy once, as it has spent the cost once, however many identifiers it counts it under.
    void count(const store::Costs& costs) const {
        const auto& lists = x_.config().limit_lists;
        std::vector<std::string_view> counted;
        for (const store::Reservation::Part& part : reserved_.reservation.parts) {
            for (const store::Reservation::Item& item : part.items) {
                if (std::find(counted.begin(), counted.end(), item.policy) != counted.end())
                    continue;
                counted.push_back(item.policy);
                const auto list = std::find_if(lists.begin(), lists.end(), [&](const auto& one) {
                    return one.policy->name == item.policy;
                });
                if (list == lists.end() || list->policy->is_candidate()) continue;
                const auto& slots = x_.generation->slots;
                const auto position = static_cast<std::size_t>(list - lists.begin());
                const std::size_t slot = slots.decision(position, 0);
                const store::Reservation::Cost& cost = reserved_.reservation.costs[item.cost];
                face_.worker.engine.count_cost(slot, costs[item.cost], cost.units);
                // No call names a model.
                if (!cost.in_money) continue;
                face_.worker.engine.count_money(slot, slots.model(usage::PriceList::kNoRow),
                                                costs[item.cost]);
            }
        }
    }

    Task<Settled> settle_here(const store::Costs& costs) {
        using Claim = store::SettledIds::Claim;
        store::SettledIds& ids = face_.reservations.settled;
        const auto now = std::chrono::steady_clock::now();
        const Claim claim = ids.claim(reserved_.nonce, costs, now, now + remembered_for_);
        if (claim.state == Claim::State::full) co_return Settled{State::full};
        if (claim.state == Claim::State::settling) co_return Settled{State::settling};
        if (claim.state == Claim::State::settled) co_return Settled{State::settled, claim.costs};
        if (!co_await correct_here(costs)) {
            // The next settlement may count some of the units a second time, but misses none.
            ids.forget(reserved_.nonce);
            co_return Settled{State::uncounted};
        }
        ids.settled(reserved_.nonce);
        co_return Settled{State::settled, costs, true};
    }

    // False: more was spent than reserved, and no store has counted it; then nothing was given
    // back either, as the next settlement does that.
    Task<bool> correct_here(const store::Costs& costs) {
        bool is_counted = true;
        for (const store::Reservation::Part& part : reserved_.reservation.parts) {
            if (!part.in_redis) is_counted = co_await take_more(part, costs) && is_counted;
        }
        if (!is_counted) co_return false;
        for (const store::Reservation::Part& part : reserved_.reservation.parts) {
            if (!part.in_redis) give_back(part, costs);
        }
        co_return true;
    }

    void give_back(const store::Reservation::Part& part, const store::Costs& costs) const {
        const store::Reservation& reservation = reserved_.reservation;
        const store::ReservedItems less =
            store::items_to_give_back(reservation, part, costs, x_.config());
        if (less.items.empty()) return;
        limiter_.give_back_in_process({less.items, 0, {}, reservation.moment}, less.receipt);
    }

    // Counts what was spent, also above the quota: in Redis, if Redis is back.
    Task<bool> take_more(const store::Reservation::Part& part, const store::Costs& costs) {
        const store::ReservedItems counted =
            store::items_to_take(reserved_.reservation, part, costs, x_.config());
        if (counted.items.empty()) co_return true;
        store::LimitDecision more;
        more.items = counted.items;
        more.moment = reserved_.reservation.moment;
        more.is_alone = true;
        Wakeup& wakeup = x_.client->sleeper().wakeup();
        limiter_.decide(more, wakeup);
        while (more.result == store::LimitDecision::Result::pending) co_await wakeup.wait();
        co_return more.result != store::LimitDecision::Result::unavailable;
    }

    const CheckFace& face_;
    proxy::Exchange& x_;
    store::Limiter& limiter_;
    const SealedReservation& reserved_;
    milliseconds remembered_for_;
};

// Settles with `costs` what has not expired for `left`.
Task<Settled> settle_reservation(const CheckFace& face, proxy::Exchange& exchange,
                                 const SealedReservation& reserved, const store::Costs& costs,
                                 milliseconds left) {
    Settling settling(face, exchange, reserved, left);
    co_return co_await settling.run(costs);
}

// The true costs of what was reserved, or a sentence about what is wrong with the call.
Result<store::Costs, std::string> true_costs(const SettleCall& call,
                                             const store::Reservation& reserved) {
    const auto wrong = [](std::string sentence) -> Result<store::Costs, std::string> {
        return {boost::system::in_place_error, std::move(sentence)};
    };
    const std::string count = std::to_string(reserved.costs.size());
    if (call.is_list && call.costs.size() != reserved.costs.size()) {
        return wrong("costs: the reservation has " + count +
                     (reserved.costs.size() == 1 ? " cost" : " costs") +
                     ": write one number for each, in the order of its items");
    }
    if (!call.is_list && !reserved.has_one_cost) {
        return wrong("cost: the reservation has " + count +
                     " costs: write `costs`, a list of the true ones in the order of its items");
    }
    store::Costs costs;
    for (std::size_t i = 0; i < reserved.costs.size(); ++i) {
        const bool in_money = reserved.costs[i].in_money;
        const auto units = units_of(call.costs[call.is_list ? i : 0], in_money);
        if (!units) {
            return wrong((call.is_list ? "costs[" + std::to_string(i) + "]: " : "cost: ") +
                         cost_rule(in_money));
        }
        costs.push_back(*units);
    }
    return {boost::system::in_place_value, std::move(costs)};
}

// `7`, or `[7,0.5]`.
std::string shown_costs(const store::Costs& costs, const store::Reservation& reserved,
                        bool is_list) {
    std::string text;
    for (std::size_t i = 0; i < (is_list ? costs.size() : 1); ++i) {
        if (i > 0) text += ',';
        append_cost(costs[i], reserved.costs[i].in_money, text);
    }
    return is_list ? "[" + text + "]" : text;
}

using ask::Fault;
using proxy::Exchange;
using proxy::FaultAnswer;

constexpr std::string_view kJsonType = "application/json";

enum class CheckPath : std::uint8_t { check, reserve, settle, other };

CheckPath path_of(std::string_view path) {
    if (path == "/v1/check") return CheckPath::check;
    if (path == "/v1/reserve") return CheckPath::reserve;
    return path == "/v1/settle" ? CheckPath::settle : CheckPath::other;
}

// One call on its way: its request and its answer.
class CheckServing {
  public:
    CheckServing(const CheckFace& face, Exchange& exchange) : face_(face), x_(exchange) {}

    Task<> run() {
        if (const Fault fault = fault_of_peer(); fault != Fault::none) {
            x_.decision.refuse(fault);
            co_return;
        }
        const CheckPath path = path_of(x_.facts.head.path);
        if (path == CheckPath::other) {
            co_return refuse(404, "There is POST /v1/check, /v1/reserve and /v1/settle.");
        }
        if (x_.facts.head.method != "POST") {
            refuse(405, "Write POST.");
            answer_->more_fields = "Allow: POST\r\n";
            co_return;
        }
        const std::size_t most = path == CheckPath::settle ? kSettleBytesMax : kCheckBytesMax;
        const Fault fault = co_await proxy::read_body(x_, most, &body_);
        if (fault != Fault::none) {
            x_.decision.refuse(fault);
        } else if (path == CheckPath::settle) {
            co_await settle();
        } else {
            co_await ask(path == CheckPath::reserve);
        }
    }

    // Set if the call was answered by this; else the fault of the decision is the answer.
    std::optional<FaultAnswer>& answer() { return answer_; }

  private:
    Fault fault_of_peer() const {
        const http::Fields& fields = x_.facts.head.fields;
        if (!face_.listen.admits(x_.facts.peer.address)) return Fault::peer_not_admitted;
        if (!face_.listen.token.empty()) {
            return http::bears_token(fields, face_.listen.token) ? Fault::none : Fault::bad_token;
        }
        // Without a token, a page in a browser of this machine must not ask.
        const bool is_page = std::any_of(fields.begin(), fields.end(), [](const http::Field& one) {
            return http::equal_ignoring_case(one.name, "origin");
        });
        return is_page ? Fault::peer_not_admitted : Fault::none;
    }

    void refuse(int status, std::string_view detail, Fault fault = Fault::bad_call) {
        answer_.emplace();
        answer_->is_to_head = x_.facts.head.method == "HEAD";
        answer_->status = status;
        answer_->body = problem_text(status, detail, x_.facts.request_id);
        x_.decision.charge.items.clear();  // not charged
        x_.decision.refuse(fault);
    }

    void answer_with(int status, std::string body) {
        answer_.emplace();
        answer_->status = status;
        answer_->content_type = kJsonType;
        answer_->body = std::move(body);
        if (x_.decision.fault == Fault::limited &&
            x_.config().response.limit_fields.has(http::LimitFields::retry_after)) {
            answer_->retry_after = ask::retry_after_seconds(x_.decision.charge);
        }
        constexpr int kUnavailable = 503;
        if (status == kUnavailable) answer_->retry_after = 1;
    }

    ask::Question question(const ask::Facts& facts, ask::Decision& decision) const {
        ask::Question made = proxy::question_of(x_);
        return {made.rules, facts, decision, made.wakeup, made.has_left, made.client};
    }

    ask::Engine& engine() const { return face_.worker.engine; }

    // Charges the store for the listed items. False: the caller awaits engine().finish_charge().
    bool charge(const ask::Question& question) {
        return question.decision.charge.items.empty() || engine().charge(question);
    }

    // Counts a decision that is not the exchange's own, which proxy::finish() records.
    void note_activity(const ask::Decision& decision) const {
        const auto now = std::chrono::steady_clock::now();
        if (face_.worker.recording != nullptr) {
            proxy::add_to_recording(face_.worker.recording, {decision, x_.facts.began_at}, now);
        }
        telemetry::Activity::Names* const names = face_.worker.activity.names();
        if (names == nullptr) return;
        proxy::note_activity(*names, *x_.generation, decision, x_.facts.request_id, now);
    }

    // Lists the charges of the item, which is a request. A sentence names its fault.
    Task<std::string> list_request_item(const CheckItem& item, CheckQuestion& asked,
                                        ask::Decision& decision) {
        make_request_question(item, x_.config(), asked, decision);
        if (!decision.goes_on()) co_return std::string();
        ask::Question to_engine = question(asked.facts, decision);
        to_engine.only_lists = true;
        if (!engine().begin(to_engine)) co_await engine().finish(to_engine);
        if (!decision.goes_on()) co_return std::string();
        co_return finish_request_item(item, decision);
    }

    Task<> ask(bool reserves) {
        const auto call = read_check_call(body_, reserves);
        if (!call) co_return refuse(400, call.error());
        if (call->form == CheckCall::Form::each) {
            co_await ask_each(*call);
        } else {
            co_await ask_together(*call, reserves);
        }
    }

    // Each item by itself: the answer names the refused ones, and the others go on.
    Task<> ask_each(const CheckCall& call) {
        constexpr std::size_t kMore = 32;  // bytes by which an answer is longer than the first
        std::string text = R"({"each":)";
        CheckQuestion asked;
        ask::Decision decision;
        char before = '[';
        for (const CheckItem& item : call.items) {
            asked.reset();
            decision.reset();
            std::string fault;
            if (item.policy.empty()) {
                fault = co_await list_request_item(item, asked, decision);
            } else {
                fault = list_policy_item(item, x_.config(), asked, decision);
            }
            text += before;
            before = ',';
            if (!fault.empty()) {
                append_each_fault(fault, text);
                continue;
            }
            if (decision.goes_on()) {
                const ask::Question to_store = question(asked.facts, decision);
                if (!charge(to_store)) co_await engine().finish_charge(to_store);
                note_activity(decision);
            }
            append_each_answer(*x_.generation, decision, text);
            // Once: the others are about as long as the first.
            if (&item == &call.items.front())
                text.reserve((text.size() + kMore) * call.items.size());
        }
        text += "]}\n";
        answer_with(200, std::move(text));
    }

    // All or nothing, in one charge.
    Task<> ask_together(const CheckCall& call, bool reserves) {
        for (std::size_t i = 0; i < call.items.size(); ++i) {
            const CheckItem& item = call.items[i];
            const std::string place =
                call.form == CheckCall::Form::all ? "all[" + std::to_string(i) + "]: " : "";
            CheckQuestion& asked = *asked_.emplace_back(std::make_unique<CheckQuestion>());
            ask::Decision& listed = *listed_.emplace_back(std::make_unique<ask::Decision>());
            std::string fault;
            if (item.policy.empty()) {
                fault = co_await list_request_item(item, asked, listed);
            } else {
                fault = list_policy_item(item, x_.config(), asked, listed);
            }
            if (!fault.empty()) co_return refuse(400, place + fault);
            if (!listed.goes_on()) {
                x_.decision.charge.items.clear();
                x_.decision.refuse(listed.fault);
                co_return answer_with(status_of(listed), answer_text(listed));
            }
            const std::string why = add_to_charge(listed.charge, x_.decision.charge);
            if (!why.empty()) {
                co_return refuse(400, place + why);
            }
            if (reserves) add_costs(item, x_.config(), listed, reserved_);
            if (reserved_.costs.size() > kCostsMax) {
                co_return refuse(400, place + "one reservation has at most " +
                                          std::to_string(kCostsMax) +
                                          " costs: ask for the others by themselves");
            }
        }
        x_.decision.charge.is_alone = reserves;
        const ask::Question to_store = question(x_.facts, x_.decision);
        if (!charge(to_store)) co_await engine().finish_charge(to_store);
        const bool has_reserved = reserves && x_.decision.goes_on();
        answer_with(status_of(x_.decision),
                    answer_text(x_.decision, has_reserved ? reservation(call.ttl) : ""));
    }

    // With `more` members after those of the answer.
    std::string answer_text(const ask::Decision& decision, std::string_view more = {}) const {
        std::string text = "{";
        append_answer(*x_.generation, decision, text);
        text += more;
        text += "}\n";
        return text;
    }

    // The members that say how it is settled.
    std::string reservation(std::chrono::seconds ttl) {
        SealedReservation content;
        store::Reservation& reserved = content.reservation;
        if (!x_.decision.charge.items.empty()) {
            reserved = store::reservation_of(x_.decision.charge, std::move(reserved_.costs),
                                             reserved_.cost_of_item);
        } else {
            reserved.costs = std::move(reserved_.costs);
        }
        reserved.has_one_cost =
            !reserved_.has_several &&
            std::all_of(reserved.costs.begin(), reserved.costs.end(),
                        [&](const auto& one) { return one == reserved.costs.front(); });
        content.process = face_.reservations.process;
        content.expires = std::chrono::system_clock::now() + ttl;
        std::string text = R"(,"id":")" + face_.reservations.seal.seal(content) + R"(","expires":)";
        append_number(
            std::chrono::duration_cast<milliseconds>(content.expires.time_since_epoch()).count(),
            text);
        if (reserved.costs.size() == 1) return text;
        store::Costs costs;
        for (const auto& one : reserved.costs) costs.push_back(one.units);
        return text + R"(,"costs":)" + shown_costs(costs, reserved, true);
    }

    Task<> settle() {
        const auto call = read_settle_call(body_);
        if (!call) co_return refuse(400, call.error());
        const auto opened = face_.reservations.seal.open(call->id);
        if (!opened) co_return refuse(400, "id: no Tidegate with this `check.secret` gave it");
        const auto left = std::chrono::duration_cast<milliseconds>(
            opened->expires - std::chrono::system_clock::now());
        if (left.count() <= 0) {
            co_return refuse(410,
                             "The reservation has expired: unless a settle arrived before, what "
                             "was reserved stays taken.");
        }
        const auto costs = true_costs(*call, opened->reservation);
        if (!costs) co_return refuse(400, costs.error());
        const Settled settled = co_await settle_reservation(face_, x_, *opened, *costs, left);
        answer_settled(settled, *costs, opened->reservation, call->is_list);
    }

    void answer_settled(const Settled& settled, const store::Costs& costs,
                        const store::Reservation& reserved, bool is_list) {
        switch (settled.state) {
            case Settled::State::settled: {
                const auto& of = settled.costs;
                is_list = is_list || std::any_of(of.begin(), of.end(), [&](std::int64_t one) {
                              return one != of.front();
                          });
                const std::string shown = shown_costs(of, reserved, is_list);
                if (of == costs) {
                    return answer_with(200, R"({"settled":true,")" +
                                                std::string(is_list ? R"(costs":)" : R"(cost":)") +
                                                shown + "}\n");
                }
                refuse(409, "");
                answer_->body = settled_problem_text(shown, is_list, x_.facts.request_id);
                return;
            }
            case Settled::State::no_redis:
                return ask_again("Redis does not answer.");
            case Settled::State::uncounted:
                return ask_again("What was spent could not be counted.");
            case Settled::State::settling:
                return ask_again("Another call is settling the reservation.");
            case Settled::State::full:
                return ask_again("Too many reservations are being settled.");
            case Settled::State::elsewhere:
                return refuse(400, "id: another Tidegate gave it, which counts in its own memory");
            case Settled::State::in_redis:
                return refuse(400,
                              "id: it was counted in Redis, and this Tidegate counts in its own "
                              "memory");
        }
    }

    void ask_again(std::string_view why) {
        refuse(503, std::string(why) + " Send the same settle again: its cost is counted once.",
               Fault::store_unavailable);
        answer_->retry_after = 1;
    }

    const CheckFace& face_;
    Exchange& x_;
    std::string body_;
    std::optional<FaultAnswer> answer_;
    // The data that x_.decision points into, until it is recorded.
    std::vector<std::unique_ptr<CheckQuestion>> asked_;
    std::vector<std::unique_ptr<ask::Decision>> listed_;
    ReservedCosts reserved_;
};

}  // namespace

Task<> serve_check(void* self, client::Stream& client) {
    const CheckFace& face = *static_cast<CheckFace*>(self);
    std::unique_ptr<Exchange> exchange = face.worker.exchanges.take();
    Exchange& x = *exchange;
    x.client = &client;
    x.face = Face::check;
    proxy::begin(face.worker, x);
    CheckServing serving(face, x);
    if (x.decision.goes_on()) proxy::check_framing(x);
    if (x.decision.goes_on()) co_await serving.run();
    if (serving.answer()) {
        co_await proxy::send_answer(face.worker, x, std::move(*serving.answer()));
    } else if (ask::traits(x.decision.fault).status != 0) {
        co_await proxy::send_answer(face.worker, x, proxy::make_fault_answer(x));
    }
    proxy::finish(face.worker, std::move(exchange));
}

}  // namespace tidegate::faces
