// One connection to a server in HTTP/2, which the requests of one worker share: reads frames, tells
// the streams, writes what they have to say, and closes. A step is one read, and the writes of what
// the streams have gathered.
//
// Owned by its coroutine, its server's list and its streams. The pool outlives it in use: it closes
// the connection, which then touches nothing of the pool any more. One thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "h2/client.hpp"
#include "net/connection.hpp"
#include "net/task.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"
#include "upstream/metrics.hpp"

namespace tidegate::upstream {

class Http2Connection;
class Http2Stream;
class Server;

using Http2ConnectionPtr = boost::intrusive_ptr<Http2Connection>;

// The connections of a pool share this context, which outlives their use.
struct Http2Context {
    Executor executor;
    DeadlineWheel& deadlines;
    BufferPool& buffers;
    Metrics& metrics;
    h2::ClientSettings settings{};
    h2::StreamPool<h2::ClientStream> streams{};
};

using Http2StreamHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

class Http2Connection
    : public boost::intrusive_ref_counter<Http2Connection, boost::thread_unsafe_counter> {
  public:
    // `connection` is connected, and its handshake is over. Until the server sends its SETTINGS,
    // those that it sent the last time hold.
    Http2Connection(Http2Context& context, Server& server, ConnectionPtr connection);
    ~Http2Connection();

    // Ends when the connection is closed.
    static Task<> run(Http2ConnectionPtr self);

    // Whether it may take one more request.
    bool has_room() const;
    // Whether the server has said that it takes no requests at all for now.
    bool takes_none() const { return !is_over_ && client_->streams_max() == 0; }
    // Lets it take no more requests, so that it closes with the last of its streams.
    bool is_leaving() const {
        return is_over_ || is_retired_ || client_->has_reset_many() || client_->is_leaving();
    }
    void retire() { is_retired_ = true; }
    // Whether nothing comes or goes any more.
    bool is_over() const { return is_over_; }
    // Whether the server sends no HTTP/2. Only known once the connection is over.
    bool is_foreign() const { return is_foreign_; }
    bool is_idle() const { return handles_ == 0; }
    // Whether the server has answered a request on it.
    bool has_answered() const { return has_answered_; }
    SteadyTime idle_since() const { return idle_since_; }
    TlsChannel* tls() const { return connection_->tls(); }
    // How many streams the server takes, if it has said so; else 0.
    std::uint32_t streams_said() const;
    // How large heads and trailers may be that it takes, if it has said so; else UINT32_MAX.
    std::uint32_t list_bytes_said() const;
    // Before a request takes it while it is idle: reads what the server has said meanwhile, which
    // may be that it is leaving. May close it.
    void catch_up();
    // To be called from time to time while it is idle.
    void rest(SteadyTime now);
    // Closes it at once, and wakes the streams, which have lost their server. The server's list
    // forgets the connection.
    void close();

    // For the streams.

    // A request has this connection from attach() to detach(). The result of attach(): the server
    // has answered on it before.
    bool attach(Http2Stream& stream);
    void detach(Http2Stream& stream);
    // Requires that it is not over.
    h2::ClientSession& client() { return *client_; }
    // Gathers what there is to send, as far as there is room for it, and has the connection write
    // it at the end of this turn. `bytes`: about how much that is.
    void gather(std::size_t bytes);
    // Has the connection write what there is at the end of this turn.
    void write_later() { sleeper_.wakeup().wake_later(); }
    // Changes whenever the server has sent something.
    std::uint64_t reads() const { return reads_; }

  private:
    enum class Next : std::uint8_t { sleep, step, close };

    void end();
    Task<> go_on();
    Next step();
    bool read();
    bool write();
    bool gather_into(std::span<char> room);
    // Tells the streams, and clears the list.
    void look_at(h2::ClientEventList& events);
    std::chrono::milliseconds time_left() const;

    Http2Context* context_;  // null once it is over
    Server* server_;
    ConnectionPtr connection_;
    std::optional<h2::ClientSession> client_;  // until it is over and no stream looks at it
    Buffer output_;                            // gathered and not written
    h2::ClientEventList input_;
    h2::ClientEventList told_;  // of the output
    Sleeper sleeper_;
    boost::intrusive::list<Http2Stream, boost::intrusive::base_hook<Http2StreamHook>,
                           boost::intrusive::constant_time_size<false>>
        streams_;
    SteadyTime idle_since_;
    std::size_t handles_ = 0;
    std::uint64_t reads_ = 0;
    bool has_answered_ = false;
    bool is_resting_ = false;
    bool is_retired_ = false;
    bool is_foreign_ = false;
    bool is_over_ = false;
};

}  // namespace tidegate::upstream
