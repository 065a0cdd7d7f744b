// One client connection: its requests, one after the other.
//
// Owned by its coroutine. One thread.
#pragma once

#include <memory>

#include <boost/intrusive/list.hpp>

#include "net/sleeper.hpp"
#include "proxy/exchange.hpp"
#include "proxy/http1_client.hpp"
#include "proxy/worker_context.hpp"

namespace tidegate::proxy {

class Session : public boost::intrusive::list_base_hook<
                    boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    Session(WorkerContext& worker, ConnectionPtr connection, identity::Peer peer,
            std::uint16_t local_port);
    ~Session();

    // Serves until the client or we have had enough.
    static Task<> run(std::unique_ptr<Session> self);

    // The worker is draining: an idle connection is closed, a busy one after its answer.
    void on_drain();
    // Time is up: the connection is cut.
    void abort();

    const identity::Peer& peer() const { return client_.peer(); }
    // No request is served here: the connection may be cut for the sake of another client's.
    bool may_make_room() const { return !is_serving_ && !aborted_; }

  private:
    enum class Next : std::uint8_t { request, close, cut };

    Task<> await_input();
    Task<Next> read_request();
    Task<> serve_request();
    Next what_follows() const;
    void check_framing();
    static bool has_left(void* self);
    Task<> reply();
    Task<bool> discard_body();
    Task<> linger();
    void begin_exchange();
    void end_exchange();

    WorkerContext& worker_;
    Http1Client client_;
    Sleeper sleeper_;
    std::unique_ptr<Exchange> exchange_;  // while there is a request
    bool idle_ = false;
    bool fresh_ = true;  // has not had its first request
    bool is_serving_ = false;
    bool aborted_ = false;
};

using SessionList = boost::intrusive::list<Session, boost::intrusive::constant_time_size<false>>;

}  // namespace tidegate::proxy
