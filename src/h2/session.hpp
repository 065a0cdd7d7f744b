// One HTTP/2 connection without I/O, in either role: bytes in, events of streams out; messages in,
// bytes out. nghttp2 does the frames, HPACK and windows. A session holds the other side to the
// rules beside them: heads, bounds, lengths, order. Session is what both roles do alike;
// ServerSession (h2/server.hpp) and ClientSession (h2/client.hpp) say what differs.
//
// How a connection uses one. A turn is one read, receive(), all streams, gather(), one write:
//
//     read = connection.read_some(buffer)     // of a client: while nothing waits to be written
//     session.receive(read, now, events)      // bytes of bodies are views into `read`
//     for each event: copy its bytes, wake its stream's coroutine; for a request, begin one
//     (all coroutines run: send or begin a head, offer(), consume(), reset, release())
//     do: bytes = session.gather(scratch, now, events)
//         write them; for each event (`drained`, `reset`): wake its coroutine
//     while (bytes > 0 and the connection is writable)
//     if (session.is_done()) close; if (session.is_idle()) session.drop_memory()
//     session.tick(now, events) at session.deadline()
//
// The bytes of a body that is sent stay the caller's until they are taken (`drained`), which is
// when the other side's window and the connection have room for them: until then there is no use in
// reading more of them from where they come. What the other side sends stays within its windows:
// the caller keeps the bytes of a body, and calls consume() once they are gone, or later where the
// worker holds too much.
//
// Owned by a connection. One thread. receive(), gather() and tick() add events; what a stream says
// of itself is how it is after the last of them. A stream that is released while events are looked
// at has no `owner` any more, and stays where it is until the next of these calls: its other events
// are passed over.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "h2/fields.hpp"
#include "h2/frames.hpp"
#include "h2/settings_and_abuse.hpp"
#include "http/field.hpp"

namespace tidegate::h2 {

// Where a session of nghttp2 has its memory. Of the 25 KiB that an idle session holds, 16 are the
// buffer of the frame that it sent last; that one gets pages of its own, which an idle session
// gives back to the system.
//
// One for each session, which it outlives. One thread.
class Memory {
  public:
    Memory() = default;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    // As malloc(), free() and realloc().
    void* allocate(std::size_t bytes);
    void release(void* block);
    void* resize(void* block, std::size_t bytes);

    // Gives the pages of the frame buffer back until the next frame is sent. Requires that the
    // session has no frame under way.
    void drop_frame_buffer();
    bool has_frame_buffer() const { return frame_buffer_ != nullptr; }

  private:
    void* frame_buffer_ = nullptr;
};

// A session reports changes of its streams as events, in the order in which they happened.
template <class Stream>
struct SessionEvent {
    enum class Kind : std::uint8_t {
        head,       // of a request, which is a new stream; or of an interim or the final answer
        body,       // `bytes` of content; consume() gives the other side room for more
        end,        // the message is whole, with its trailers
        reset,      // nothing more comes or goes: the other side has said so, or has to be told so
        drained,    // all that was offered has been taken
        malformed,  // a request that never became a stream: for the log, as a 400
        refused,    // a request beyond those that may be in service
    };

    Kind kind;
    Malformed malformed = Malformed::none;  // of a reset for the other side's fault, too
    std::uint32_t error = 0;                // of a reset: RFC 9113 section 7
    Stream* stream = nullptr;               // null if malformed or refused
    std::string_view bytes = {};            // a view into what receive() was given
};

template <class Role, class Stream>
class Session;
template <class Role>
struct SessionCallbacks;
class ServerSession;
class ClientSession;

// A SessionStream is one request and its answer on a connection; servers and clients derive their
// streams from it.
class SessionStream : public boost::intrusive::list_base_hook<> {
  public:
    // 0: nghttp2 had no number left.
    std::uint32_t id() const { return id_; }

    // The trailers of the other side's message are whole once it has ended. Views stay until
    // release().
    http::Fields& trailers() { return trailers_; }
    // The other side has sent all.
    bool has_ended() const { return has_ended_; }
    // Nothing that is sent reaches the other side, and nothing more comes from it.
    bool is_closed() const { return is_closed_ || is_reset_; }

    // All that was offered has been taken.
    bool is_taking() const { return body_.is_taken(); }
    // Returns how many of the bytes offered the session has not taken.
    std::size_t offered_bytes() const { return body_.bytes(); }
    // The trailers that were offered are in `kept` from now on.
    void move_trailers(const http::Fields& kept) { body_.move_trailers(kept); }
    // The last of this side's message has been handed out.
    bool is_sent() const { return is_sent_; }

    // The caller's.
    void* owner = nullptr;

  protected:
    void forget();

  private:
    template <class Role, class Stream>
    friend class Session;
    template <class Role>
    friend struct SessionCallbacks;
    friend ServerSession;
    friend ClientSession;

    std::uint32_t id_ = 0;
    OutgoingBody body_;
    FieldBlock head_block_;
    FieldBlock trailer_block_;
    http::Fields trailers_;
    std::uint64_t body_bytes_ = 0;
    std::size_t unconsumed_ = 0;  // of the connection's window

    bool is_in_trailers_ = false;
    bool has_ended_ = false;
    bool is_sent_ = false;
    bool is_reset_ = false;   // by this side, or for the other side's fault
    bool is_closed_ = false;  // for nghttp2
    bool is_released_ = false;
};

// Keeps streams for the next request, so that a request allocates nothing that the one before it
// had room for, and idle connections hold none. The connections of a worker share a pool; those to
// servers share one for each upstream. It outlives them; one thread.
template <class Stream>
class StreamPool {
  public:
    std::unique_ptr<Stream> take() {
        if (free_.empty()) return std::make_unique<Stream>();
        auto stream = std::move(free_.back());
        free_.pop_back();
        return stream;
    }
    void give_back(std::unique_ptr<Stream> stream) {
        stream->forget();
        if (free_.size() < kKept) free_.push_back(std::move(stream));
    }
    // Scratch room.
    OutgoingFields& outgoing_fields() { return outgoing_fields_; }

  private:
    static constexpr std::size_t kKept = 256;

    std::vector<std::unique_ptr<Stream>> free_;
    OutgoingFields outgoing_fields_;
};

// `Role` is the class that inherits this, and declares it a friend.
template <class Role, class Stream>
class Session {
  public:
    using Event = SessionEvent<Stream>;
    using EventList = std::vector<Event>;

    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // Fills `into`, of at least kGatherRoomMin, with what is to be sent. 0: there is nothing, or no
    // window is open for it.
    std::size_t gather(std::span<char> into, Time now, EventList& events);
    bool wants_write() const;

    // The other side has room for so many bytes of the body more, on its stream and its connection.
    void consume(Stream& stream, std::size_t bytes);
    // The caller needs the stream no more.
    void release(Stream& stream);

    // Does the work that is due at deadline(), which any call may make earlier.
    void tick(Time now, EventList& events);
    // Time::max(): none.
    Time deadline() const;

    // Neither side has anything to say any more: close.
    bool is_done() const;
    // Nothing more can be sent.
    bool has_failed() const { return has_failed_; }
    // The other side's fault has ended the connection; its streams end, too. NO_ERROR: not so.
    std::uint32_t error() const { return error_; }
    // A header block did not come to its end in time.
    bool is_head_late() const { return is_head_late_; }

    // Streams that are not released.
    std::size_t streams() const { return held_; }
    bool is_idle() const { return streams_.empty() && block_ == nullptr && !wants_write(); }
    // Gives back what an idle session can do without. Requires is_idle().
    void drop_memory();

  protected:
    // `preface`: bytes that the other side sends before its first frame.
    Session(StreamPool<Stream>& pool, const RequestRules& rules, std::uint32_t preface, Time now);
    ~Session();

    void enter(Time now, EventList& events);
    void recycle();
    // Gives nghttp2 what has come.
    void feed(std::string_view bytes);
    Stream* find(std::uint32_t id) const {
        if (id == 0) return nullptr;
        return static_cast<Stream*>(
            nghttp2_session_get_stream_user_data(session_, static_cast<std::int32_t>(id)));
    }
    void tell(const Event& event) {
        const bool is_released = event.stream != nullptr && event.stream->is_released_;
        if (!is_released) events_->push_back(event);
    }

    // The header block that is coming, of the stream block_of_.
    bool begin_trailers(Stream& stream, bool is_end);
    // False: the rest of the block is decoded, for what it does to HPACK's table, and dropped.
    bool add_field(std::string_view name, std::string_view value);
    void end_block(bool is_end);
    void add_body(std::uint32_t id, std::string_view bytes);
    void close(std::uint32_t id, std::uint32_t error);

    // For DATA frames, nghttp2 asks this provider for the body of `stream`.
    static nghttp2_data_provider body_of(Stream& stream);
    void offer_body(Stream& stream, std::span<const std::string_view> pieces, bool is_last,
                    const http::Fields* trailers);
    void submit_reset(Stream& stream, std::uint32_t error);
    void finish_release(Stream& stream);
    // Ends the connection for the other side's fault.
    void end_with(std::uint32_t error);
    void fail() { has_failed_ = true; }

    const RequestRules rules_;
    StreamPool<Stream>& pool_;
    Output output_;
    Memory memory_;
    nghttp2_session* session_ = nullptr;
    FrameHeads heads_;
    boost::intrusive::list<Stream> streams_;
    boost::intrusive::list<Stream> gone_;  // events may still name them
    FieldBlock* block_ = nullptr;          // that is coming; null: what comes of it is dropped
    Stream* block_of_ = nullptr;
    EventList* events_ = nullptr;
    Time now_;
    Time settings_due_;
    Time block_due_ = Time::max();
    Time close_due_ = Time::max();  // of a connection that has ended for the other side's fault
    std::size_t held_ = 0;
    std::uint32_t error_ = 0;
    bool is_ending_ = false;
    bool is_head_late_ = false;
    bool has_failed_ = false;

  private:
    template <class OfRole>
    friend struct SessionCallbacks;

    Role& role() { return static_cast<Role&>(*this); }
    const Role& role() const { return static_cast<const Role&>(*this); }
    std::ptrdiff_t take(Stream& stream, std::size_t max, std::uint32_t& flags);
    void write_data(Stream& stream, std::string_view frame_head, std::size_t bytes);
};

inline std::uint32_t id_of(const nghttp2_frame& frame) {
    return static_cast<std::uint32_t>(frame.hd.stream_id);
}
inline bool ends_stream(const nghttp2_frame& frame) {
    return (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
}

}  // namespace tidegate::h2
