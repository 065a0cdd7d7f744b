// The session of a server with a client: requests come, answers go (h2/session.hpp). Beside what
// all sessions do, it has the budget for abuse, and drains.
//
// One request's stream is in service until release(), also after a reset: a client that resets what
// it asks for is not served faster than one that waits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "h2/fields.hpp"
#include "h2/frames.hpp"
#include "h2/session.hpp"
#include "h2/settings_and_abuse.hpp"
#include "http/field.hpp"
#include "http/head.hpp"

namespace tidegate::h2 {

// A request of a client, and its answer. Lent by a session from the request's event until
// release().
class ServerStream : public SessionStream {
  public:
    // The caller may take it by a swap. Its views stay until release().
    http::RequestHead& head() { return head_; }
    // Not none: the request gets 400, 414 or 431, and nothing else is asked of it.
    http::HeadFault head_fault() const { return head_fault_; }
    // `:protocol` of RFC 8441, beside the method CONNECT; else empty.
    std::string_view protocol() const { return protocol_; }
    // Content-Length, where it is one that can be held to.
    std::optional<std::uint64_t> announced() const { return announced_; }
    // The stream went on behind the head.
    bool has_body() const { return has_body_; }

  private:
    friend ServerSession;
    friend StreamPool<ServerStream>;

    void forget();

    http::RequestHead head_;
    http::HeadFault head_fault_ = http::HeadFault::none;
    std::string_view protocol_;
    std::optional<std::uint64_t> announced_;
    UpdateAllowance updates_;
    Time reset_due_ = Time::max();  // answered and released, but not ended
    bool has_body_ = false;
    bool is_in_service_ = false;  // counts
};

using ServerEvent = SessionEvent<ServerStream>;
using ServerEventList = std::vector<ServerEvent>;

// Describes the listener and the peer of the connection.
struct Transport {
    bool is_https = false;
    bool any_scheme = false;  // the peer is a trusted proxy, which may speak for another scheme
};

class ServerSession : public Session<ServerSession, ServerStream> {
  public:
    using Stream = ServerStream;

    // `settings` are copied: a connection keeps those that it has announced.
    ServerSession(const ServerSettings& settings, const Transport& transport,
                  StreamPool<ServerStream>& pool, Time now);
    ~ServerSession();

    // Takes bytes that the client has sent, from its first byte on: the preface, too.
    void receive(std::string_view bytes, Time now, ServerEventList& events);

    // An answer. After a reset of the stream these do nothing.

    // A head of 1xx, as lines of `Name: value` and CR LF.
    void send_interim(ServerStream& stream, int status, std::string_view lines);
    // The head of the final answer. `has_body`: offer() follows, until the last.
    void send_head(ServerStream& stream, int status, std::string_view lines, bool has_body);
    // The next of the body. Pieces and trailers, and what they look at, stay until
    // stream.is_taking(). Requires that, and a head with a body. Trailers may come with the last.
    void offer(ServerStream& stream, std::span<const std::string_view> pieces, bool is_last,
               const http::Fields* trailers = nullptr) {
        if (!stream.is_closed()) offer_body(stream, pieces, is_last, trailers);
    }
    // The answer cannot come to its end: the client must not take what it has for whole.
    void reset(ServerStream& stream, std::uint32_t error) {
        if (!stream.is_closed()) submit_reset(stream, error);
    }
    // Whether the windows of stream and connection let the client send more of the body.
    bool may_send(const ServerStream& stream) const;
    // On release(), what is left of an answer is sent if nothing of the caller's is needed for it,
    // else the stream is reset.

    // The connection.

    // Takes no new streams, after a warning that leaves those under way time to arrive; ends when
    // the last stream has.
    void drain(Time now);
    // The same without the warning: the client has had nothing to do for long.
    void finish();
    bool is_draining() const { return is_draining_; }
    bool is_abused() const;

  private:
    friend Session<ServerSession, ServerStream>;
    friend SessionCallbacks<ServerSession>;

    static constexpr bool kIsServer = true;
    static void set_options(nghttp2_option& option);

    void announce();
    void wait_for_end(ServerStream& stream);
    void reset_unended();
    void leave_service(ServerStream& stream);

    // These check and handle what the client sends.
    void judge(const FrameHead& head);
    std::uint32_t violation(const FrameHead& head) const;
    bool is_free(const FrameHead& head);
    bool is_free_update(const FrameHead& head);
    void charge();
    void charge_padding(const nghttp2_frame& frame);
    bool begin_block(const nghttp2_frame& frame);
    bool begin_stream(std::uint32_t id);
    void refuse_block(Malformed malformed);
    void end_head(ServerStream& stream, bool is_end);
    void end_message(ServerStream& stream);
    void reset_for(ServerStream& stream, Malformed malformed);
    void note_received(const nghttp2_frame& frame);
    void note_refused();
    void note_closed(ServerStream& stream, std::uint32_t error);

    // These note what the client gets.
    void note_sent(const nghttp2_frame& frame);
    void note_unsent(ServerStream& stream, const nghttp2_frame& frame);
    void note_data(ServerStream& stream, std::size_t bytes);
    void note_answered(ServerStream& stream);
    void note_reset() { has_reset_ = true; }
    void end_released(ServerStream& stream);

    void look_at_times();
    Time next_due() const { return std::min(drain_due_, end_due_); }

    const ServerSettings settings_;
    AbuseBudget budget_;
    UpdateAllowance updates_;                     // of the connection
    UpdateAllowance closed_updates_;              // of streams that are gone
    std::unique_ptr<ServerStream> block_stream_;  // whose head is coming
    Time end_due_ = Time::max();  // of the earliest request that is answered but not ended
    Time drain_due_ = Time::max();
    // The latest streams that the client has ended, as nghttp2 remembers none that is closed.
    std::array<std::uint32_t, 16> ended_ids_{};
    std::size_t next_ended_id_ = 0;
    std::uint32_t last_id_ = 0;
    std::uint32_t streams_begun_ = 0;
    std::uint32_t in_service_ = 0;
    bool has_reset_ = false;  // any stream
    bool has_pinged_ = false;
    bool may_ping_ = false;  // DATA was sent since the last PING
    bool is_draining_ = false;
    bool refuses_streams_ = false;  // the last GOAWAY is on its way
};

}  // namespace tidegate::h2
