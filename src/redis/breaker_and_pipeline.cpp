#include "redis/breaker_and_pipeline.hpp"

#include <algorithm>
#include <utility>

namespace tidegate::redis {

namespace {

constexpr milliseconds kFirstPause{50};
// A server that ends a connection sooner has only accepted it.
constexpr milliseconds kShortLived{1'000};

}  // namespace

bool Breaker::on_connected(SteadyTime now) {
    on_answer();
    connected_at_ = now;
    was_answered_ = false;
    return std::exchange(state_, State::up) == State::down;
}

void Breaker::on_connection_lost() {
    if (state_ == State::up) state_ = State::connecting;
}

void Breaker::on_timeouts(int count) {
    unanswered_ += count;
    if (count != 0) options_.unanswered->fetch_add(count);
}

// At least one of its own: a breaker whose client has nothing to send stays as it is.
bool Breaker::must_open() const {
    return state_ != State::down && unanswered_ > 0 && unanswered_in_a_row() >= options_.failures;
}

// Twice the last, and of that a random half to whole: a hundred proxies do not come back at once.
milliseconds Breaker::pause_after_failure(std::minstd_rand& random) {
    last_pause_ = std::min(std::max(last_pause_ * 2, kFirstPause), options_.probe_every);
    std::uniform_int_distribution<milliseconds::rep> share(last_pause_.count() / 2,
                                                           last_pause_.count());
    return milliseconds{share(random)};
}

// A server that accepts every connection and closes it must not get attempts without a pause.
milliseconds Breaker::pause_after_loss(SteadyTime now, std::minstd_rand& random) {
    const bool was_short = now - connected_at_ < kShortLived;
    const bool was_cut = state_ != State::down;  // and not given up for its silence
    if (!was_short || (was_cut && was_answered_)) reset_pauses();
    if (!was_short || (was_cut && may_reconnect(now))) return milliseconds{0};
    return pause_after_failure(random);
}

// A healthy server whose connections an operator or a proxy cuts now and then is back at once.
bool Breaker::may_reconnect(SteadyTime now) {
    constexpr std::chrono::nanoseconds kShare =
        std::chrono::nanoseconds(std::chrono::seconds(1)) / kReconnects;
    // The moment before which kReconnects are spent moves on by a share of a second with each.
    const SteadyTime begun = std::max(reconnects_spent_until_, now - std::chrono::seconds(1));
    if (begun + kShare > now) return false;
    reconnects_spent_until_ = begun + kShare;
    return true;
}

void CommandQueue::push(const QueuedCommand& command) {
    if (commands_.empty() || command.deadline >= latest_) {
        latest_ = command.deadline;
    } else if (command.request != nullptr) {
        early_.push_back({command.deadline, next_ticket()});
        std::push_heap(early_.begin(), early_.end());
    }
    commands_.push_back(command);
}

QueuedCommand CommandQueue::pop() {
    const QueuedCommand first = commands_.front();
    commands_.pop_front();
    ++first_ticket_;
    if (commands_.empty()) early_.clear();
    return first;
}

std::deque<QueuedCommand> CommandQueue::take_all() {
    first_ticket_ += commands_.size();
    early_.clear();
    hurried_.clear();
    return std::exchange(commands_, {});
}

std::size_t CommandQueue::take_late(SteadyTime now, std::vector<Request*>& late) {
    std::size_t looked_at = 0;
    for (; !early_.empty() && early_.front().deadline <= now; ++looked_at) {
        const std::uint64_t ticket = early_.front().ticket;
        std::pop_heap(early_.begin(), early_.end());
        early_.pop_back();
        if (ticket >= first_ticket_) abandon(ticket, now, late);
    }
    // Behind one that is in time are only those, and such as are in the heap.
    searched_ = std::max(searched_, first_ticket_);
    for (; searched_ != next_ticket(); ++searched_) {
        ++looked_at;
        QueuedCommand& command = commands_[searched_ - first_ticket_];
        if (command.request != nullptr && command.deadline > now) break;
        abandon(searched_, now, late);
    }
    return looked_at;
}

void CommandQueue::abandon(std::uint64_t ticket, SteadyTime now, std::vector<Request*>& late) {
    QueuedCommand& command = commands_[ticket - first_ticket_];
    if (command.request == nullptr) return;
    late.push_back(std::exchange(command.request, nullptr));
    if (command.unanswered_at <= now) {
        ++unanswered_;
    } else {
        hurried_.push_back({command.unanswered_at, ticket});
    }
}

int CommandQueue::take_unanswered(SteadyTime now) {
    for (; !hurried_.empty() && hurried_.front().unanswered_at <= now; hurried_.pop_front()) {
        if (hurried_.front().ticket >= first_ticket_) ++unanswered_;
    }
    return std::exchange(unanswered_, 0);
}

std::optional<QueuedCommand> Pipeline::take_answered(std::uint64_t ticket) {
    if (sent_.empty() || ticket != sent_.first_ticket()) return std::nullopt;
    const QueuedCommand command = sent_.pop();
    if (command.request == nullptr) return std::nullopt;
    return command;
}

void Pipeline::begin_connection(const std::vector<const Script*>& scripts) {
    loads_.clear();
    for (const Script* script : scripts) loads_.emplace(script, Load{});
}

void Pipeline::note_error(std::uint64_t ticket, std::string_view error) {
    for (auto& [script, load] : loads_) {
        if (load.ticket == ticket) load.refused_with = error;
    }
}

std::string_view Pipeline::why_not_loaded(const Script& script) const {
    const auto load = loads_.find(&script);
    return load == loads_.end() ? std::string_view() : load->second.refused_with;
}

int Pipeline::take_late(SteadyTime now, std::vector<Request*>& late) {
    sent_.take_late(now, late);
    waiting_.take_late(now, late);
    const int unanswered = sent_.take_unanswered(now) + waiting_.take_unanswered(now);
    while (!waiting_.empty() && waiting_.front().request == nullptr) waiting_.pop();
    return unanswered;
}

}  // namespace tidegate::redis
