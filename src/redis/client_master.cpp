// How a client follows a master: where the sentinels say it is, and only while it says so itself.
// Without sentinels its address says it: a name, or an address that moves.
#include <utility>

#include "base/quote.hpp"
#include "redis/client.hpp"

namespace tidegate::redis {

namespace {

// Replicas that were masters are noticed within this time, also without a word from anybody.
constexpr milliseconds kRoleEvery{1'000};
// An attempt, or a pause before one, goes on only while the sentinels do not know better.
constexpr milliseconds kAskEvery{500};
// Those who have waited for a master come back within this time of its news, not all at once.
constexpr milliseconds kSpread{100};

}  // namespace

// One ROLE while connected.
class Client::RoleCheck final : public Request {
  public:
    explicit RoleCheck(Client& client) : client_(client) {}

    void append_command(std::string& out) override { append_resp({"ROLE"}, out); }
    const Script* script() const override { return nullptr; }
    void on_reply(const Reply& reply) override {
        is_under_way_ = false;
        if (reply.kind == Reply::Kind::array && reply.text != kMasterRole) {
            client_.leave_replica("its role is " + quote(reply.text) + " now");
        }
    }
    void on_failure(Failure) override { is_under_way_ = false; }

    void begin() { is_under_way_ = is_under_way_ || !client_.send(*this); }

  private:
    Client& client_;
    bool is_under_way_ = false;
};

std::string Client::place() const {
    if (!options_.master_watch || master_.host.empty()) return options_.address();
    return master_.to_string() + " (" + options_.address() + ")";
}

// Nothing when `master_` is where to go, or there are no sentinels.
Task<std::optional<ConnectFault>> Client::find_master() {
    if (!options_.master_watch) co_return std::nullopt;
    MasterWatch& watch = *options_.master_watch;
    if (follower_ == 0) {
        follower_ =
            watch.follow(executor_, [weak = weak_from_this()](const MasterWatch::News& news) {
                if (const auto self = weak.lock()) self->on_news(news);
            });
        look_again_later();
    }
    news_.reset();
    is_master_ = false;
    if (!moved_to_) watch.ask(follower_);
    while (!news_ && !moved_to_ && !stopped_) co_await wakeup_.wait();
    if (moved_to_) {
        master_ = *std::exchange(moved_to_, std::nullopt);
    } else if (stopped_) {
        co_return ConnectFault{false, "stopped"};
    } else if (news_->master) {
        master_ = *news_->master;
    } else {
        co_return ConnectFault{news_->denied, news_->fault};
    }
    co_return std::nullopt;
}

// The pause after a failed attempt; news end it.
Task<> Client::pause_until_moved() {
    co_await pause(next_pause());
    if (!moved_to_ || stopped_) co_return;
    last_pause_ = milliseconds{0};
    std::uniform_int_distribution<milliseconds::rep> spread(0, kSpread.count());
    co_await pause(milliseconds{spread(random_)});
}

void Client::look_again_later() {
    master_timer_.expires_after(state_ == State::ready ? kRoleEvery : kAskEvery);
    master_timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
        const auto self = weak.lock();
        if (!self || ec || self->follower_ == 0) return;
        if (self->state_ == State::ready) {
            if (!self->role_check_) self->role_check_ = std::make_shared<RoleCheck>(*self);
            self->role_check_->begin();
        } else {
            self->options_.master_watch->ask(self->follower_);
        }
        self->look_again_later();
    });
}

void Client::on_news(const MasterWatch::News& news) {
    if (stopped_) return;
    const bool is_elsewhere = news.master && *news.master != master_;
    // Not every sentinel hears of a switch at once: a server that says that it is the master is
    // left only when there was one.
    if (!is_elsewhere || (!news.is_switch && is_master_)) {
        // A switch is told unasked, and may be older than the reason for which we ask.
        if (!news.is_switch) news_ = news;
        // Perhaps it was not the master yet when we were last there.
        if (news.is_switch && !link_) pause_timer_.cancel();
        wakeup_.wake_later();
        return;
    }
    moved_to_ = news.master;
    if (link_) {
        leave_link("the sentinels say that the master is at " + news.master->to_string());
    } else {
        pause_timer_.cancel();
        wakeup_.wake_later();
    }
}

// Nodes of a cluster stay where they are: who serves a slot is said by others.
void Client::on_replica_error(std::string_view error) {
    if (options_.in_cluster) return;
    was_replica_ = !options_.master_watch;
    leave_replica(error);
}

// After a server that took no writes. Nothing comes of PEXPIRE where nothing is, but a replica
// refuses it like any other write.
Task<std::optional<ConnectFault>> Client::probe_writes() {
    bool answered = false;
    std::string command_text;
    append_resp({"PEXPIRE", options_.absent_key, "1"}, command_text);
    const std::string error = co_await command(std::move(command_text), options_.timeout, answered);
    if (!answered || is_replica_error(error)) co_return ConnectFault{false, error};
    was_replica_ = false;
    co_return std::nullopt;
}

// Called from inside hiredis: the link is left from the loop. Until then nothing more is sent.
void Client::leave_replica(std::string_view reason) {
    if (state_ != State::ready) return;
    enter(State::connecting, reason);
    asio::post(executor_, [weak = weak_from_this(), link = link_, text = quote(reason)] {
        const auto self = weak.lock();
        if (self && self->link_ == link) self->leave_link(text);
    });
}

// What is under way may have been carried out; what waits goes on waiting.
void Client::leave_link(std::string_view reason) {
    if (state_ == State::ready) enter(State::connecting, reason);
    drop_link(Failure::disconnected);
    link_reason_ = reason;
    wakeup_.wake_later();
}

void Client::leave_watch() {
    master_timer_.cancel();
    if (follower_ != 0) options_.master_watch->leave(std::exchange(follower_, 0));
}

}  // namespace tidegate::redis
