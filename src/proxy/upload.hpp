// A request on its way to the upstream: its head and what has come of its body in one write, the
// rest beside the answer, in a coroutine of its own. A body that is held goes with the head, whole.
//
// Part of a forwarding, which sees to it that nothing is running when it ends. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "proxy/exchange.hpp"
#include "proxy/worker_context.hpp"
#include "upstream/pool.hpp"

namespace tidegate::proxy {

// A stream that never has to wait lets others have their turn after so many portions.
inline constexpr unsigned kPortionsATurn = 16;
// The same in bytes, for portions of a pipe: each is what has just come.
inline constexpr std::size_t kBytesATurn = 1'048'576;

// Each thread holds bodies of so many bytes at a time. What is beyond is sent as it comes.
inline constexpr std::uint64_t kHeldBytesMax = std::uint64_t{128} * 1024 * 1024;

class Upload {
  public:
    // `rate` waits while the upstream waits for the client, which may have no room to send.
    Upload(WorkerContext& worker, Exchange& exchange, upstream::TransferRate& rate);

    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;
    ~Upload() { worker_.held_bytes -= held_bytes_; }

    // Whether hold() has to be called before a server is chosen. `may_repeat`: if all of it is
    // held, the request may have to be sent again.
    bool needs_hold(bool may_repeat) const {
        return client_.framing().body != http::BodyKind::none && has_to_hold(may_repeat);
    }
    // Reads the body into memory, up to the upstream's `request_buffer` or the route's `buffer`, so
    // that a client that is slow to send it keeps no connection to a server meanwhile. The rest of
    // a longer body is sent as it comes.
    Task<ask::Fault> hold();
    // All of the body is at hand: begin() can send it again.
    bool is_repeatable() const { return client_.is_body_done() && !has_passed_on_; }

    // Sends what there is to the exchange's upstream stream, which stays open until nothing is
    // running. Again, with another connection, only while is_repeatable(). If everything is sent
    // when it returns, the time for the head of the answer has begun.
    ask::Fault begin();

    // The client got the upstream's 100 Continue.
    void go_on();

    bool is_running() const { return state_ == State::running; }
    // It waits for the client, and notices by itself if the client leaves. While it is running and
    // does not, it waits for the upstream.
    bool is_reading() const { return is_reading_; }
    // True once after the coroutine has ended, which wakes the answer's sleeper: from now on the
    // head of the answer may take its time.
    bool take_end() { return std::exchange(has_ended_, false); }
    // Everything has been sent.
    bool is_complete() const { return state_ == State::idle && client_.is_body_done(); }
    // Why it ended early. With upstream_broken, an answer may be there all the same.
    ask::Fault fault() const { return fault_; }

    // From the whole request to the head of the answer: the route's, or less where a call of gRPC
    // has less time.
    std::chrono::milliseconds response_timeout() const { return response_timeout_; }
    // A call of gRPC has less time than the route gives.
    bool has_callers_deadline() const;

    // Throws what the coroutine has thrown, if it has.
    void rethrow() const;

    // The answer is there, or never will be, so the rest of the body is not needed. Closes the
    // connection; nothing is running when it returns.
    Task<> end();

  private:
    enum class State : std::uint8_t { idle, running, failed };

    bool has_to_hold(bool may_repeat) const;
    std::uint64_t hold_bytes_max() const;
    http::BodyBatch take_body(ask::Fault& fault);
    static Task<> run(Upload& self);
    Task<ask::Fault> send_body();
    Task<ask::Fault> splice_body();
    Task<IoStatus> send_rest();
    // Into `pipe` if there is one, else into the stream's buffer.
    Task<ask::Fault> more_of_body(Sleeper& sleeper, SplicePipe* pipe = nullptr);
    bool wait_for_room(Sleeper& sleeper);
    bool wait_for_client(Sleeper& sleeper);
    bool is_conversation() const;
    ask::Fault why_unsent();

    WorkerContext& worker_;
    Exchange& x_;
    client::Stream& client_;
    Sleeper& answer_sleeper_;  // of the coroutine that holds the body and waits for the answer
    const std::chrono::milliseconds response_timeout_;
    upstream::TransferRate& rate_;
    std::unique_ptr<http::BodyBatch> batch_;  // what begin() could not send whole
    State state_ = State::idle;
    ask::Fault fault_ = ask::Fault::none;
    bool is_held_ = false;          // the body, or its beginning: in the exchange
    std::uint64_t held_bytes_ = 0;  // that it may take
    bool cancelled_ = false;
    bool is_reading_ = false;
    bool has_ended_ = false;
    bool may_send_ = false;       // the client does not wait for 100 Continue
    bool has_passed_on_ = false;  // some of the body was sent that is not held
    std::exception_ptr failure_;
};

}  // namespace tidegate::proxy
