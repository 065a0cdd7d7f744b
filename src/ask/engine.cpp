#include "ask/engine.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "ask/charge_list.hpp"
#include "ask/identify.hpp"
#include "ask/request_checks.hpp"
#include "ask/verdict.hpp"
#include "identity/basic.hpp"
#include "identity/credentials.hpp"
#include "identity/key_source.hpp"
#include "net/asio.hpp"
#include "net/wakeup.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::ask {

void Decision::reset() {
    // A request with identifiers of unusual size does not keep its memory for ever.
    constexpr std::size_t kCapacityKept = 65'536;
    fault = Fault::none;
    fault_detail = {};
    fault_part = nullptr;
    route_index = telemetry::kNoRoute;
    route = nullptr;
    awaits_body = false;
    model.clear();
    price_row.reset();
    is_preflight = false;
    client.reset();
    chain_fault = identity::ChainFault::none;
    authentication->reset();
    user.reset();
    tier = {};
    identifiers.clear();
    if (identifiers.capacity() > kCapacityKept) identifiers.shrink_to_fit();
    spans.clear();
    charge.items.clear();
    charge.result = store::LimitDecision::Result::pending;
    charge.store_failed = charge.remembered = charge.is_partial = false;
    charge.needs_settling = charge.is_alone = false;
    charge.moment = {};
    cost_ignored.reset();
    charged_at = {};
    charge_time = {};
    ratelimit.clear();
}

bool Engine::begin(const Question& question) {
    const Ruleset& rules = question.rules;
    Decision& decision = question.decision;
    if (ignores_forwarding(question.facts)) {
        metrics_.forwarding_ignored.add();
        log_ignored_forwarding(question.facts);
    }
    match_route(*rules.config, question.facts, decision);
    if (decision.goes_on()) identify(rules, question.facts, decision);
    if (decision.chain_fault != identity::ChainFault::none) report_chain_fault(question);
    if (!decision.goes_on()) return true;
    return !needs_proof(decision) && list_and_charge(question);
}

// Not a coroutine: most requests wait for the store alone, which takes one.
Task<> Engine::finish(const Question& question) {
    return needs_proof(question.decision) ? prove_and_charge(question) : await_charge(question);
}

Task<> Engine::prove_and_charge(const Question& question) {
    co_await check_credential(question);
    if (question.decision.goes_on() && !list_and_charge(question)) co_await await_charge(question);
}

bool Engine::go_on(const Question& question) {
    question.decision.awaits_body = false;
    return list_and_charge(question);
}

bool Engine::list_and_charge(const Question& question) {
    Decision& decision = question.decision;
    if (decision.route->reads_body && question.can_read_body && question.facts.body == nullptr &&
        !decision.is_preflight) {
        decision.awaits_body = true;
        return true;
    }
    list_charges(*question.rules.config, question.facts, decision);
    if (decision.cost_ignored) metrics_.cost_ignored[*decision.cost_ignored].add();
    if (!decision.goes_on() || decision.charge.items.empty() || question.only_lists) return true;
    return begin_charge(question);
}

bool Engine::begin_charge(const Question& question) {
    Decision& decision = question.decision;
    decision.charged_at = std::chrono::steady_clock::now();
    decision.charge.owner = &question.rules.config;
    decision.charge.needed_by = question.needed_by;
    limiter_.decide(decision.charge, question.wakeup, decision.charged_at);
    return decision.charge.result != store::LimitDecision::Result::pending &&
           conclude_charge(question);
}

bool Engine::conclude_charge(const Question& question) {
    Decision& decision = question.decision;
    decision.charge_time = std::chrono::steady_clock::now() - decision.charged_at;
    apply_verdict(question.rules, metrics_, decision);
    return !decision.goes_on() || decision.charge.verdict.wait <= limit::Micros{0};
}

Task<> Engine::await_charge(const Question& question) {
    store::LimitDecision& charge = question.decision.charge;
    if (charge.result == store::LimitDecision::Result::pending) {
        while (limiter_.is_pending(charge)) co_await question.wakeup.wait();
        if (conclude_charge(question)) co_return;
    }
    co_await await_turn(question);
}

// leaky_bucket has the request wait in line, by a timer of its own: the deadline wheel is too
// coarse.
Task<> Engine::await_turn(const Question& question) {
    struct Turn {
        explicit Turn(const Executor& executor) : timer(executor) {}
        Timer timer;
        bool has_come = false;
        bool is_over = false;
    };
    // Shared: the timer may have fired already when the client leaves, and its handler runs later.
    const auto turn = std::make_shared<Turn>(executor_);
    turn->timer.expires_after(question.decision.charge.verdict.wait);
    turn->timer.async_wait([turn, &wakeup = question.wakeup](const error_code& ec) {
        if (ec || turn->is_over) return;
        turn->has_come = true;
        wakeup.wake_later();
    });
    while (!turn->has_come && !question.has_left(question.client)) {
        co_await question.wakeup.wait();
    }
    if (turn->has_come) co_return;
    turn->is_over = true;
    turn->timer.cancel();
    limiter_.leave_line(question.decision.charge);
    question.decision.refuse(Fault::client_left);
}

void Engine::settle(Decision& decision, limit::AnswerStatus status,
                    std::chrono::milliseconds hold) {
    if (decision.charge.needs_settling) limiter_.settle(decision.charge, status, hold);
}

// Counts that a trusted proxy's field did not name the client, and logs it once an hour.
void Engine::report_chain_fault(const Question& question) {
    static telemetry::LogInterval said{std::chrono::hours{1}};
    metrics_.forwarding_invalid.add();
    if (question.facts.peer.is_gateway) return;  // the face reports it
    if (!said.is_due(std::chrono::steady_clock::now())) return;
    const auto text = [](const std::optional<IpAddress>& address, const char* otherwise) {
        return address ? address->to_string() : std::string(otherwise);
    };
    telemetry::log(telemetry::Level::warn,
                   "the field {} from {} {}: Tidegate counts all such requests as the client {}. "
                   "Correct the proxy that writes the field, or identity.client_ip.header. Counted "
                   "in tidegate_forwarding_invalid_total; logged once an hour",
                   identity::field_of(question.rules.config->client_ip),
                   text(question.facts.peer.address, "a Unix socket"),
                   identity::describe(question.decision.chain_fault),
                   text(question.decision.client, "one without an address"));
}

// How the engine checks a credential that it has not seen before: each is a guess until it is
// proved, and an address has an allowance of guesses (`identity.failed_credentials`).
namespace {

using identity::Authentication;
using std::chrono::system_clock;

// The status that a wrong guess counts with, and one that gives the guess back.
constexpr int kUnauthorized = 401;
constexpr int kRight = 200;

// Clients share the password threads and the waits for keys by network, as the holder of a network
// has all its addresses; a client without an address has a share of its own.
std::uint64_t share_of(const std::optional<IpAddress>& address, const void* client) {
    constexpr int kOneNetwork = 48;
    if (!address) return reinterpret_cast<std::uintptr_t>(client);
    const IpAddress network = masked(*address, kOneNetwork);
    const auto* const bytes = reinterpret_cast<const char*>(network.bytes.data());
    return std::hash<std::string_view>{}({bytes, network.bytes.size()});
}

// A request's wait for keys of tokens that are being fetched. The fetcher runs on another thread;
// the wait ends on the request's own.
//
// Belongs to a coroutine and to the thread of `executor`; must be destroyed before that event loop.
class KeyWait {
  public:
    // Wakes `wakeup` when a fetch of `source` has ended that had not ended in `seen`, at the latest
    // at `until`. `client` stands for the client, whose waits are counted. Both outlive this.
    KeyWait(Executor executor, Wakeup& wakeup, identity::KeySource& source,
            const identity::KeyFetches& seen, std::uint64_t client,
            std::chrono::steady_clock::time_point until);
    ~KeyWait();
    KeyWait(const KeyWait&) = delete;
    KeyWait& operator=(const KeyWait&) = delete;

    // Too many requests wait: this one does not.
    bool is_refused() const { return is_refused_; }
    // There is nothing to wait for any more.
    bool is_over() const;

  private:
    struct State;

    identity::KeySource& source_;
    Timer timer_;
    std::shared_ptr<State> state_;
    std::uint64_t number_ = 0;  // 0: the source does not wake this
    bool is_refused_ = false;
};

// Only the executor's thread touches the members; any thread may drop the last reference.
struct KeyWait::State {
    Wakeup* wakeup;  // null: its KeyWait is gone
    bool is_over = false;

    void end() {
        is_over = true;
        if (wakeup != nullptr) wakeup->wake_later();
    }
};

KeyWait::KeyWait(Executor executor, Wakeup& wakeup, identity::KeySource& source,
                 const identity::KeyFetches& seen, std::uint64_t client,
                 std::chrono::steady_clock::time_point until)
    : source_(source), timer_(executor), state_(std::make_shared<State>(State{&wakeup})) {
    using Refusal = identity::KeySource::WaitRefusal;
    const auto waiting = source_.wait(seen, client, [executor, state = state_] {
        asio::post(executor, [state] { state->end(); });
    });
    number_ = waiting.number;
    if (number_ == 0) {
        state_->is_over = true;
        is_refused_ = waiting.refusal == Refusal::too_many_waiters;
        return;
    }
    timer_.expires_at(until);
    timer_.async_wait([state = state_](const error_code& ec) {
        if (!ec) state->end();
    });
}

KeyWait::~KeyWait() {
    state_->wakeup = nullptr;
    // Also when this was woken: the thread that posted may still hold the lock, and the event loop
    // it posted to must not end before it lets go.
    if (number_ != 0) source_.leave(number_);
}

bool KeyWait::is_over() const {
    return state_->is_over;
}

bool has_left(const Question& question) {
    if (!question.has_left(question.client)) return false;
    question.decision.refuse(Fault::client_left);
    return true;
}

}  // namespace

Task<> Engine::check_credential(const Question& question) {
    Decision& decision = question.decision;
    refuse_denied_client(decision);
    if (decision.goes_on()) co_await look_at_address(question);
    if (!decision.goes_on()) co_return;
    if (decision.authentication->result == Authentication::Result::refused) {
        if (is_guess(decision.authentication->fault)) co_await check_guess(question);
    } else {
        co_await check_in_turn(question);
        if (decision.authentication->result == Authentication::Result::key_missing) {
            co_await wait_for_key(question);
        }
    }
    if (decision.goes_on()) conclude_identity(*question.rules.config, decision);
}

// Where several requests have the same credential, one of them has it checked.
Task<> Engine::check_in_turn(const Question& question) {
    Decision& decision = question.decision;
    const CredentialQueue::Place place(checks_, decision.authentication->key, question.wakeup);
    while (!place.is_first() && !has_left(question)) co_await question.wakeup.wait();
    if (!decision.goes_on()) co_return;
    identity::Authenticator& authenticator = *question.rules.authenticator;
    if (authenticator.recall(*decision.authentication, system_clock::now())) co_return;
    if (authenticator.lacks_key(*decision.authentication)) {
        co_await look_at_guesses(question);
    } else {
        co_await check_guess(question);
    }
}

// The request waits without its place in the queue, so that others with the same token wait at the
// same time.
Task<> Engine::wait_for_key(const Question& question) {
    using identity::MissingKey;
    using std::chrono::steady_clock;
    Decision& decision = question.decision;
    Authentication& authentication = *decision.authentication;
    identity::KeySource& source = *question.rules.authenticator->key_source(authentication);
    const MissingKey missing(authentication.fetches, steady_clock::now());
    while (decision.goes_on() && authentication.result == Authentication::Result::key_missing) {
        const auto now = steady_clock::now();
        const MissingKey::Step step = missing.next(authentication.fetches, now);
        if (step == MissingKey::Step::refuse) {
            identity::Authenticator::refuse_missing_key(authentication);
            co_return;
        }
        authentication.retry_after = identity::retry_after(authentication.fetches, now);
        if (step == MissingKey::Step::unavailable) co_return;
        // Only a request that waits wants a fetch. One for a request that was answered 503 would
        // begin just before its client comes again, prove nothing, and use up the turn.
        if (!authentication.fetches.is_under_way()) source.want();
        {
            const KeyWait wait(executor_, question.wakeup, source, authentication.fetches,
                               share_of(decision.client, question.client), missing.until());
            if (wait.is_refused()) co_return;
            while (!wait.is_over() && !has_left(question)) co_await question.wakeup.wait();
        }
        if (!decision.goes_on()) co_return;
        authentication.result = Authentication::Result::unchecked;
        co_await check_in_turn(question);
    }
}

// An address that is over its own limits gets that answer before its credential is checked: a 401
// takes nothing from a limit, so the address could have credentials checked without end.
Task<> Engine::look_at_address(const Question& question) {
    Decision& decision = question.decision;
    if (!list_address_limits(*question.rules.config, question.facts, decision)) co_return;
    co_await look_at_listed(question);
}

// A token whose key is missing is no guess, but an address without guesses left gets no more help.
Task<> Engine::look_at_guesses(const Question& question) {
    if (!list_failed_credentials(*question.rules.config, question.facts, question.decision)) {
        co_return;
    }
    co_await look_at_listed(question);
}

// Whether a limit that is listed would deny the request. Takes nothing.
Task<> Engine::look_at_listed(const Question& question) {
    Decision& decision = question.decision;
    const auto asked = std::chrono::steady_clock::now();
    decision.charge.needed_by = question.needed_by;
    limiter_.look(decision.charge, question.wakeup, asked);
    while (decision.charge.result == store::LimitDecision::Result::pending) {
        co_await question.wakeup.wait();
    }
    if (decision.charge.result == store::LimitDecision::Result::limited) {
        decision.charged_at = asked;
        decision.charge_time = std::chrono::steady_clock::now() - asked;
        apply_verdict(question.rules, metrics_, decision);
    } else {
        clear_charge(decision);
    }
}

// Takes the guess before the check and gives it back if the credential is right: so neither many
// guesses at once nor hanging up is a way around the allowance.
Task<> Engine::check_guess(const Question& question) {
    Decision& decision = question.decision;
    Authentication& authentication = *decision.authentication;
    const bool is_counted =
        list_failed_credentials(*question.rules.config, question.facts, decision);
    if (is_counted && !begin_charge(question)) co_await await_charge(question);
    if (!decision.goes_on()) co_return;
    identity::Authenticator& authenticator = *question.rules.authenticator;
    if (authentication.result == Authentication::Result::unchecked) {
        if (authenticator.passwords(authentication) == nullptr) {
            authenticator.check(authentication, system_clock::now());
        } else {
            co_await check_password(question);
        }
    }
    if (!is_counted) co_return;
    const bool was_guess =
        !decision.goes_on() || (authentication.result == Authentication::Result::refused &&
                                is_guess(authentication.fault));
    settle(decision, was_guess ? kUnauthorized : kRight);
    clear_charge(decision);
}

Task<> Engine::check_password(const Question& question) {
    using Check = PasswordPool::Check;
    Decision& decision = question.decision;
    Authentication& authentication = *decision.authentication;
    identity::BasicLogin login;
    authentication.fault = login.read(authentication.credential);
    if (authentication.fault != identity::CredentialFault::none) {
        authentication.result = Authentication::Result::refused;
        co_return;
    }
    identity::Authenticator& authenticator = *question.rules.authenticator;
    Check check(executor_, question.wakeup);
    const auto submitted =
        passwords_.submit(check, authenticator.passwords(authentication), login.user(),
                          login.password(), share_of(decision.client, question.client));
    if (submitted == PasswordPool::Submitted::yes) {
        while (check.state() == Check::State::waiting && !has_left(question)) {
            co_await question.wakeup.wait();
        }
        if (!decision.goes_on()) co_return;
    }
    if (check.state() == Check::State::right || check.state() == Check::State::wrong) {
        authenticator.conclude_password(authentication, login.user(),
                                        check.state() == Check::State::right, system_clock::now());
    } else {
        authentication.result = Authentication::Result::unavailable;
    }
}

}  // namespace tidegate::ask
