// The server's side of one HTTP/2 connection, without I/O: bytes in, events of streams out; answers
// in, bytes out. nghttp2 does the frames, HPACK and windows; the Server holds clients to the rules
// beside them: heads, bounds, the budget for abuse, drains.
//
// How a connection uses it. A turn is one read, receive(), all streams, gather(), one write:
//
//     read = connection.read_some(buffer)            // while nothing waits to be written
//     server.receive(read, now, events)              // bytes of bodies are views into `read`
//     for each event: copy its bytes, wake its stream's coroutine; for a request, begin one
//     (all coroutines run: send_head(), offer(), consume(), reset(), release())
//     do: bytes = server.gather(scratch, now, events)
//         write them; for each event (`drained`, `reset`): wake its coroutine
//     while (bytes > 0 and the connection is writable)
//     if (server.is_done()) close, lingering; if (server.is_idle()) server.drop_memory()
//     server.tick(now, events) at server.deadline()
//
// The answer's bytes stay the caller's until they are taken (`drained`), which is when the client's
// window and the connection have room for them: until then there is no use in reading more from the
// upstream. What a client sends stays within its windows: the caller keeps the bytes of a body, and
// calls consume() once they are gone, or later where the worker holds too much.
//
// One request's stream is in service until release(), also after a reset: a client that resets what
// it asks for is not served faster than one that waits.
//
// Owned by a connection. One thread. receive(), gather() and tick() add events; what a stream says
// of itself is how it is after the last of them. A stream that is released while events are looked
// at has no `owner` any more, and stays where it is until the next of these calls: its other events
// are passed over.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "h2/fields.hpp"
#include "h2/frames.hpp"
#include "h2/session.hpp"
#include "h2/settings.hpp"
#include "http/field.hpp"
#include "http/head.hpp"

struct nghttp2_session;

namespace tidegate::h2 {

class OutgoingFields;
class Callbacks;
class Server;
class StreamPool;

// One request and its answer on an HTTP/2 connection: what its client has sent of the head, and
// what waits to be sent to it. Lent by a Server from the request's event until release().
class Stream : public boost::intrusive::list_base_hook<> {
  public:
    std::uint32_t id() const { return id_; }

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
    // Whole once Event::Kind::end has come; views stay until release().
    http::Fields& trailers() { return trailers_; }

    // The client has sent all.
    bool has_ended() const { return has_ended_; }
    // Nothing that is sent reaches the client, and nothing more comes from it.
    bool is_closed() const { return is_closed_ || is_reset_; }
    // All that was offered has been taken.
    bool is_taking() const { return body_.is_taken(); }
    // Of what was offered, what has not been taken.
    std::size_t offered_bytes() const { return body_.bytes(); }
    // The trailers that were offered are in `kept` from now on.
    void move_trailers(const http::Fields& kept) { body_.move_trailers(kept); }
    // The last of the answer has been handed out.
    bool is_answered() const { return is_answered_; }

    // The caller's.
    void* owner = nullptr;

  private:
    friend Callbacks;
    friend Server;
    friend StreamPool;

    void forget();

    std::uint32_t id_ = 0;
    http::RequestHead head_;
    http::HeadFault head_fault_ = http::HeadFault::none;
    std::string_view protocol_;
    FieldBlock head_block_;
    FieldBlock trailer_block_;
    http::Fields trailers_;
    std::optional<std::uint64_t> announced_;  // Content-Length
    std::uint64_t body_bytes_ = 0;
    std::size_t unconsumed_ = 0;  // of the connection's window

    OutgoingBody body_;  // of the answer
    UpdateAllowance updates_;
    Time reset_due_ = Time::max();  // answered and released, but not ended

    bool is_in_trailers_ = false;
    bool has_body_ = false;
    bool has_ended_ = false;
    bool is_in_service_ = false;  // counts
    bool is_answered_ = false;
    bool is_reset_ = false;   // by one side or the other, and both know
    bool is_closed_ = false;  // for nghttp2
    bool is_released_ = false;
};

// What the connections of a worker share: streams that wait for the next request, so that a request
// allocates nothing that the one before it had room for, and idle connections hold none. Outlives
// them; one thread.
class StreamPool {
  public:
    StreamPool();
    ~StreamPool();

    std::unique_ptr<Stream> take();
    void give_back(std::unique_ptr<Stream> stream);
    OutgoingFields& outgoing_fields() { return *outgoing_fields_; }

  private:
    static constexpr std::size_t kKept = 256;

    std::vector<std::unique_ptr<Stream>> free_;
    std::unique_ptr<OutgoingFields> outgoing_fields_;
};

// What a Server has to tell of its streams, in the order in which it happened.
struct Event {
    enum class Kind : std::uint8_t {
        request,    // a head is complete, or its fault is known: a new stream
        body,       // `bytes` of content; consume() gives the client room for more
        end,        // the request is whole, with its trailers
        reset,      // nothing more comes or goes: the client has said so, or has to be told so
        drained,    // all that was offered has been taken
        malformed,  // a request that never became a stream: for the log, as a 400
        refused,    // one more than may be in service
    };

    Kind kind;
    Stream* stream = nullptr;               // null if malformed or refused
    std::string_view bytes = {};            // a view into what receive() was given
    std::uint32_t error = 0;                // of a reset: RFC 9113 section 7
    Malformed malformed = Malformed::none;  // of a reset for the client's fault, too
};

using EventList = std::vector<Event>;

// What the connection knows of where it came in.
struct Transport {
    bool is_https = false;
    bool any_scheme = false;  // the peer is a trusted proxy, which may speak for another scheme
};

class Server {
  public:
    // `settings` are copied: a connection keeps those that it has announced.
    Server(const Settings& settings, const Transport& transport, StreamPool& pool, Time now);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // What the client has sent, from its first byte on: the preface, too.
    void receive(std::string_view bytes, Time now, EventList& events);
    // Fills `into`, of at least 2 KiB, with what is to be sent. 0: there is nothing, or no window
    // is open for it.
    std::size_t gather(std::span<char> into, Time now, EventList& events);
    bool wants_write() const;

    // An answer. After a reset of the stream these do nothing.

    // A head of 1xx, as lines of `Name: value` and CR LF.
    void send_interim(Stream& stream, int status, std::string_view lines);
    // The head of the final answer. `has_body`: offer() follows, until the last.
    void send_head(Stream& stream, int status, std::string_view lines, bool has_body);
    // The next of the body. Pieces and trailers, and what they look at, stay until
    // stream.is_taking(). Requires that, and a head with a body. Trailers may come with the last.
    void offer(Stream& stream, std::span<const std::string_view> pieces, bool is_last,
               const http::Fields* trailers = nullptr);
    // The client has room for so many bytes of the body more, on its stream and its connection.
    void consume(Stream& stream, std::size_t bytes);
    // Whether the windows of stream and connection let the client send more of the body.
    bool may_send(const Stream& stream) const;
    // The answer cannot come to its end: the client must not take what it has for whole.
    void reset(Stream& stream, std::uint32_t error);
    // The request is served; the stream is the server's again. What is left of the answer is sent
    // if nothing of the caller's is needed for it, else the stream is reset.
    void release(Stream& stream);

    // The connection.

    // Takes no new streams, after a warning that leaves those under way time to arrive; ends when
    // the last stream has.
    void drain(Time now);
    // The same without the warning: the client has had nothing to do for long.
    void finish();
    bool is_draining() const { return is_draining_; }

    // What is due at deadline(), which may come to be earlier with each call.
    void tick(Time now, EventList& events);
    // Time::max(): none.
    Time deadline() const;

    // Neither side has anything to say any more: close.
    bool is_done() const;
    // Nothing more can be sent.
    bool has_failed() const { return has_failed_; }
    // The client's fault has ended the connection; its streams end, too. NO_ERROR: not so.
    std::uint32_t error() const { return error_; }
    bool is_abused() const;
    // A header block did not come to its end in time.
    bool is_head_late() const { return is_head_late_; }

    // Streams that are not released.
    std::size_t streams() const { return held_; }
    bool is_idle() const;
    // Gives back what an idle session can do without. Requires is_idle().
    void drop_memory();

  private:
    friend Callbacks;

    // server.cpp
    void announce();
    void submit_reset(Stream& stream, std::uint32_t error);
    void wait_for_end(Stream& stream);
    void reset_unended();
    void give_up(Stream& stream);
    void finish_release(Stream& stream);
    void recycle();
    void leave_service(Stream& stream);
    void end_with(std::uint32_t error);
    void fail() { has_failed_ = true; }
    void enter(Time now, EventList& events);

    // server_input.cpp
    void feed(std::string_view bytes);
    void judge(const FrameHead& head);
    std::uint32_t violation(const FrameHead& head);
    bool is_free(const FrameHead& head);
    bool is_free_update(const FrameHead& head);
    void charge();
    Stream* find(std::uint32_t id) const;
    bool begin_stream(std::uint32_t id);
    bool begin_trailers(Stream& stream, bool is_end);
    bool add_field(std::string_view name, std::string_view value);
    void end_head(bool is_end);
    void end_trailers();
    void add_body(std::uint32_t id, std::string_view bytes);
    void end_request(Stream& stream);
    void refuse_block(Malformed malformed);
    void reset_for(Stream& stream, Malformed malformed);
    void close(std::uint32_t id, std::uint32_t error);
    void tell(Event event);

    // server_output.cpp
    long take(Stream& stream, std::size_t max, std::uint32_t& flags);
    void write_data(Stream& stream, std::string_view frame_head, std::size_t bytes);
    void data_was_sent(Stream& stream, std::uint32_t bytes);
    void end_answer(Stream& stream);
    void reset_was_sent(std::uint32_t error);

    const Settings settings_;
    const RequestRules rules_;
    StreamPool& pool_;
    Output output_;
    Memory memory_;
    nghttp2_session* session_ = nullptr;
    FrameHeads heads_;
    AbuseBudget budget_;
    UpdateAllowance updates_;         // of the connection
    UpdateAllowance closed_updates_;  // of streams that are gone
    boost::intrusive::list<Stream> streams_;
    boost::intrusive::list<Stream> gone_;   // events may still name them
    std::unique_ptr<Stream> block_stream_;  // whose head is coming
    FieldBlock* block_ = nullptr;           // that is coming
    Stream* trailers_of_ = nullptr;
    EventList* events_ = nullptr;
    Time now_;
    Time settings_due_;
    Time block_due_ = Time::max();
    Time end_due_ = Time::max();  // of the earliest request that is answered but not ended
    Time drain_due_ = Time::max();
    Time close_due_ = Time::max();
    // The latest streams that the client has ended, as nghttp2 remembers none that is closed.
    std::array<std::uint32_t, 16> ended_ids_{};
    std::size_t next_ended_id_ = 0;
    std::uint32_t last_id_ = 0;
    std::size_t held_ = 0;
    std::uint32_t streams_begun_ = 0;
    std::uint32_t in_service_ = 0;
    std::uint32_t error_ = 0;
    bool has_reset_ = false;  // any stream
    bool has_pinged_ = false;
    bool may_ping_ = false;  // DATA was sent since the last PING
    bool is_draining_ = false;
    bool refuses_streams_ = false;  // the last GOAWAY is on its way
    bool is_ending_ = false;        // for the client's fault
    bool is_head_late_ = false;
    bool has_failed_ = false;
};

}  // namespace tidegate::h2
