// How the engine checks a credential that it has not seen before: each is a guess until it is
// proved, and an address has an allowance of guesses (`identity.failed_credentials`).
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "ask/charge_list.hpp"
#include "ask/engine.hpp"
#include "ask/identify.hpp"
#include "ask/verdict.hpp"
#include "identity/basic.hpp"
#include "identity/credentials.hpp"
#include "identity/key_source.hpp"
#include "net/asio.hpp"
#include "net/wakeup.hpp"

namespace tidegate::ask {

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
