// One client connection in HTTP/2: reads frames, lends a stream to the callback that serves
// requests for each that comes, writes what the streams have to say, and closes. Knows nothing of
// what a request is for.
//
// A step is one read, all streams that it began, and the writes of what they have gathered. Nothing
// more is read while the client does not take what waits for it.
//
// Owned by its coroutine, which ends after those of its streams. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "client/connection.hpp"
#include "client/http2_stream.hpp"
#include "client/stream.hpp"
#include "net/task.hpp"

namespace tidegate::client {

class Http2Connection final : public ServedConnection {
  public:
    // `begun`: what was read of the connection already.
    Http2Connection(ConnectionContext& context, ConnectionPtr connection, const Arrival& arrival,
                    std::string_view begun = {});
    ~Http2Connection() override;

    // Ends when the connection is closed.
    static Task<> run(std::unique_ptr<Http2Connection> self);

    void on_drain() override;
    void cut_off() override;
    const identity::Peer& peer() const override { return link_.arrival.peer; }
    bool cut_requests() override;
    bool cut_tunnels() override;
    bool is_evictable() const override;

  private:
    enum class Next : std::uint8_t {
        sleep,
        step,   // there is more to do
        close,  // in order
        reset,
    };

    bool cut(bool tunnels);
    Task<Next> go_on();
    Next step();
    bool is_over() const;
    bool read();
    void receive(std::string_view bytes);
    void look_at(const h2::ServerEvent& event);
    void begin_requests();
    Task<> serve(std::unique_ptr<Http2Stream> stream);
    bool write();
    void note_blocked(bool is_blocked);
    // Returns how many of the bytes written the client's system has acknowledged.
    std::int64_t taken() const;
    void look_at_times();
    bool is_left_open() const;
    std::chrono::milliseconds time_left() const;
    void count_end();
    Task<> end_streams();

    ConnectionContext& context_;
    Http2Link link_;
    h2::ServerEventList input_;
    std::vector<std::unique_ptr<Http2Stream>> begun_;  // of the input, to be served
    Http2StreamList streams_;                          // whose coroutines have not ended
    SteadyTime now_;
    SteadyTime idle_since_;
    WritePace pace_;         // of the output, while is_blocked_
    SteadyTime pace_due_{};  // when to look at it
    std::uint64_t written_ = 0;
    SteadyTime drained_at_ = SteadyTime::max();  // for its age
    bool is_blocked_ = false;                    // the output waits for the client
    bool is_resting_ = false;  // idle, without what an idle session can do without
};

}  // namespace tidegate::client
