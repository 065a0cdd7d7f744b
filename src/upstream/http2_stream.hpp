// One request to a server and its answer, in HTTP/2. Stream says what each function means.
//
// Shares a connection with other requests. What the server sends of a body is kept here until it is
// dropped, which is when the server gets room for more: at most a stream's window. One thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "h2/client.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "net/connection.hpp"
#include "net/task.hpp"
#include "net/transfer.hpp"
#include "net/wakeup.hpp"
#include "upstream/http1_stream.hpp"
#include "upstream/http2_connection.hpp"
#include "upstream/server.hpp"

namespace tidegate::upstream {

class Http2Stream : public Http2StreamHook {
  public:
    using Head = Http1Stream::Head;
    using Body = Http1Stream::Body;

    explicit Http2Stream(BufferPool& buffers) : arrived_(buffers), taken_(buffers) {}
    ~Http2Stream() { release(); }
    Http2Stream(const Http2Stream&) = delete;
    Http2Stream& operator=(const Http2Stream&) = delete;

    explicit operator bool() const { return connection_ != nullptr; }
    Server& server() const { return *server_; }
    bool is_reused() const { return is_reused_; }
    bool is_evicted() const { return is_evicted_; }

    std::string& begin_head(std::string_view method, std::string_view path, std::string_view query);
    void end_head(http::BodyKind body, std::optional<std::uint64_t> length);
    IoStatus send(const http::BodyBatch& batch, const http::Fields& trailers);
    Task<IoStatus> send_rest(Sleeper& sleeper, std::chrono::milliseconds patience);

    Head read_head(Wakeup& wakeup);
    const http::ResponseHead& head() const { return *stream_->next_head(); }
    const http::Framing& framing() const { return stream_->framing(); }
    void drop_interim() { stream_->drop_interim(); }
    http::BodyBatch take_body();
    http::Fields& trailers() { return stream_->trailers(); }
    void drop_body(const http::BodyBatch& batch);
    Body read_body(Wakeup& wakeup);

    bool has_answered() const { return stream_ != nullptr && stream_->has_answered(); }
    bool is_unprocessed() const {
        return is_unsent_ || (stream_ != nullptr && stream_->is_unprocessed());
    }
    bool is_refused() const { return stream_ != nullptr && stream_->is_refused(); }
    bool is_behind_others() const { return stream_ != nullptr && stream_->is_behind_others(); }
    bool is_too_large() const { return stream_ != nullptr && stream_->is_too_large(); }
    bool is_clean() const { return is_whole() && stream_->is_sent(); }
    // Whether nothing has come on its connection for long, since the request began: the connection
    // may be dead.
    bool is_forlorn(SteadyTime now) const;
    // The same once `batch`, which is all that is left, will have been dropped.
    bool is_clean_behind(const http::BodyBatch& batch) const {
        return stream_ != nullptr && stream_->has_ended() && stream_->is_sent() &&
               arrived_.empty() && taken_.size() == batch.consumed;
    }
    std::size_t room() const { return taken_.capacity(); }
    // Whether the server has no HTTP/2 to offer.
    bool is_foreign() const { return connection_->is_foreign(); }

    void cancel();
    void reset();

    // For the pool.

    void open(Server& server, Http2ConnectionPtr connection);
    const Http2ConnectionPtr& connection() const { return connection_; }
    // Cancels what is not whole. The request has its connection no more, nor trailers(); what a
    // batch looks at stays.
    void release();
    bool evict() { return !std::exchange(is_evicted_, true); }

    // For the connection.

    void add_bytes(std::string_view bytes);
    void on_input() {
        if (watcher_ != nullptr) watcher_->wake_later();
    }
    void on_drained() {
        if (sender_ != nullptr) sender_->wake_later();
    }
    void on_end() {
        on_input();
        on_drained();
    }

  private:
    bool is_lost() const;
    bool is_whole() const {
        return stream_ != nullptr && stream_->has_ended() && arrived_.empty() && taken_.empty();
    }
    IoStatus begin(bool has_body);
    IoStatus progress() const;

    ServerPtr server_;
    Http2ConnectionPtr connection_;
    h2::ClientStream* stream_ = nullptr;  // once the request has begun
    Wakeup* watcher_ = nullptr;           // that waits for the answer
    Wakeup* sender_ = nullptr;            // that waits for the server to take the request
    SteadyTime began_{};
    std::uint64_t reads_ = 0;  // of the connection, when the request began

    std::string method_;
    std::string target_;
    std::string out_head_;  // lines of fields
    std::array<std::string_view, http::BodyBatch::kPiecesMax> out_pieces_;
    http::BodyKind out_body_ = http::BodyKind::none;

    Buffer arrived_;
    Buffer taken_;  // what a batch of take_body() looks at
    bool is_reused_ = false;
    bool is_evicted_ = false;
    bool is_cancelled_ = false;
    bool is_unsent_ = false;  // the connection took no more requests
};

}  // namespace tidegate::upstream
