// How a client follows the master: at the address that the sentinels name, and only while the
// server itself says that it is a master. Without sentinels the configured address leads to it: a
// name, or an address that moves.
#include <utility>

#include "base/quote.hpp"
#include "redis/client.hpp"

namespace tidegate::redis {

namespace {

// The client notices a master that became a replica within this time, also when no sentinel
// announces one.
constexpr milliseconds kRoleEvery{1'000};
// An attempt, or a pause before one, ends when the sentinels name another master.
constexpr milliseconds kAskEvery{500};
// Clients that waited for a master connect within this time of its news, not all at once.
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
Client::Connected Client::find_master() {
    if (!options_.master_watch) co_return std::nullopt;
    MasterWatch& watch = *options_.master_watch;
    if (follower_ == 0) {
        follower_ =
            watch.follow(executor_, [weak = weak_from_this()](const MasterWatch::News& news) {
                if (const auto self = weak.lock()) self->on_news(news);
            });
        check_master_later();
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

// News of the master end the pause.
Task<> Client::pause_after_failure() {
    co_await pause(breaker_.pause_after_failure(random_));
    if (!moved_to_ || stopped_) co_return;
    breaker_.reset_pauses();
    std::uniform_int_distribution<milliseconds::rep> spread(0, kSpread.count());
    co_await pause(milliseconds{spread(random_)});
}

void Client::check_master_later() {
    master_timer_.expires_after(breaker_.is_up() ? kRoleEvery : kAskEvery);
    master_timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
        const auto self = weak.lock();
        if (!self || ec || self->follower_ == 0) return;
        if (self->breaker_.is_up()) {
            if (!self->role_check_) self->role_check_ = std::make_shared<RoleCheck>(*self);
            self->role_check_->begin();
        } else {
            self->options_.master_watch->ask(self->follower_);
        }
        self->check_master_later();
    });
}

void Client::on_news(const MasterWatch::News& news) {
    if (stopped_) return;
    const bool is_elsewhere = news.master && *news.master != master_;
    // Not every sentinel knows of a switch at once: the client leaves a server that says that it is
    // the master only after a switch.
    if (!is_elsewhere || (!news.is_switch && is_master_)) {
        // A switch is announced at any time, and may be older than the reason for which the client
        // asks.
        if (!news.is_switch) news_ = news;
        // Perhaps it was not the master yet when the client was last there.
        if (news.is_switch && !connection_) pause_timer_.cancel();
        wakeup_.wake_later();
        return;
    }
    moved_to_ = news.master;
    if (connection_) {
        leave_connection("the sentinels report the master at " + news.master->to_string());
    } else {
        pause_timer_.cancel();
        wakeup_.wake_later();
    }
}

// Nodes of a cluster are not left: the list of the nodes says which one serves a slot.
void Client::on_replica_error(std::string_view error) {
    if (options_.in_cluster) return;
    was_replica_ = !options_.master_watch;
    leave_replica(error);
}

// Called from inside hiredis: the loop leaves the connection. Until then nothing more is sent.
void Client::leave_replica(std::string_view reason) {
    if (!breaker_.is_up()) return;
    breaker_.on_connection_lost();
    asio::post(executor_,
               [weak = weak_from_this(), connection = connection_, text = quote(reason)] {
                   const auto self = weak.lock();
                   if (self && self->connection_ == connection) self->leave_connection(text);
               });
}

void Client::leave_watch() {
    master_timer_.cancel();
    if (follower_ != 0) options_.master_watch->leave(std::exchange(follower_, 0));
}

}  // namespace tidegate::redis
