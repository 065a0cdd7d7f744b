// The client's side of one HTTP/2 connection, without I/O: requests in, bytes out; bytes in, events
// of streams out. nghttp2 does the frames, HPACK and windows; the Client holds answers to the rules
// beside them: heads, bounds, lengths, order.
//
// A connection uses it as it uses a Server (h2/server.hpp), with begin() in place of the event of a
// request. The body of a request stays the caller's until it is taken (`drained`), which is when
// the server's window and the connection have room for it. What the server sends stays within the
// windows: the caller keeps the bytes of a body, and calls consume() once they are gone.
//
// The proxy trusts the servers of its upstreams with more than clients: no budget bounds how many
// frames they send. What they make the proxy keep is bounded.
//
// Owned by a connection. One thread. receive(), gather() and tick() add events; what a stream says
// of itself is how it is after the last of them. A stream that is released while events are looked
// at has no `owner` any more, and stays where it is until the next of these calls.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "h2/fields.hpp"
#include "h2/frames.hpp"
#include "h2/session.hpp"
#include "h2/settings.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"

struct nghttp2_session;

namespace tidegate::h2 {

class Client;
class ClientCallbacks;
class ClientStreamPool;

// One request and its answer on an HTTP/2 connection to a server: what waits to be sent, and what
// has come of the answer. Lent by a Client from begin() until release().
class ClientStream : public boost::intrusive::list_base_hook<> {
  public:
    // 0: nghttp2 had no number left.
    std::uint32_t id() const { return id_; }

    // The answer. Views stay until release(), those of an interim head until it is dropped.

    // The head of the first interim answer that was not dropped, or else of the final answer, whose
    // status is 200 or more; null: none has come yet.
    http::ResponseHead* next_head();
    // Requires that next_head() is an interim one.
    void drop_interim() { interim_.erase(interim_.begin()); }
    // Of the final answer. A body of unknown length passes for a chunked one.
    const http::Framing& framing() const { return framing_; }
    // Whole once the answer has ended.
    http::Fields& trailers() { return trailers_; }
    // The answer is whole.
    bool has_ended() const { return has_ended_; }
    // Any part of an answer has come.
    bool has_answered() const { return has_answered_; }

    // Nothing more comes or goes.
    bool is_closed() const { return is_closed_ || is_reset_; }
    // The server says that it has not looked at the request: GOAWAY with a lower number, or
    // REFUSED_STREAM (RFC 9113 section 8.7). Or the request was never sent.
    bool is_unprocessed() const { return is_unprocessed_; }
    // It says so by REFUSED_STREAM: the server is there, and has too much to do.
    bool is_refused() const { return is_refused_; }
    // It says so by a GOAWAY that names other requests of the connection, which it has taken.
    bool is_behind_others() const { return is_behind_others_; }
    // The head or the trailers of the request are larger than what the server has said it takes,
    // and were not sent.
    bool is_too_large() const { return is_too_large_; }
    // Why the proxy has reset the stream for the server's fault.
    Malformed malformed() const { return malformed_; }

    // All that was offered has been taken.
    bool is_taking() const { return body_.is_taken(); }
    // Of what was offered, what has not been taken.
    std::size_t offered_bytes() const { return body_.bytes(); }
    // The last of the request has been handed out.
    bool is_sent() const { return is_sent_; }

    // The caller's.
    void* owner = nullptr;

  private:
    friend Client;
    friend ClientCallbacks;
    friend ClientStreamPool;

    struct Interim {
        FieldBlock block;
        http::ResponseHead head;
    };

    void forget();

    std::uint32_t id_ = 0;
    OutgoingBody body_;
    FieldBlock head_block_;
    FieldBlock trailer_block_;
    http::ResponseHead head_;
    http::Framing framing_;
    http::Fields trailers_;
    std::vector<std::unique_ptr<Interim>> interim_;
    std::uint32_t interim_count_ = 0;
    std::uint64_t body_bytes_ = 0;
    std::size_t unconsumed_ = 0;  // of the connection's window
    Malformed malformed_ = Malformed::none;
    bool is_to_head_ = false;  // the request is a HEAD
    bool has_head_ = false;    // the final one
    bool has_answered_ = false;
    bool has_ended_ = false;
    bool is_in_trailers_ = false;
    bool is_sent_ = false;
    bool is_unprocessed_ = false;
    bool is_refused_ = false;
    bool is_behind_others_ = false;
    bool is_too_large_ = false;
    bool is_reset_ = false;   // by this side
    bool is_closed_ = false;  // for nghttp2
    bool is_released_ = false;
};

// What the connections of a worker to the servers of one upstream share: streams that wait for the
// next request, so that a request allocates nothing that the one before it had room for. Outlives
// them; one thread.
class ClientStreamPool {
  public:
    ClientStreamPool();
    ~ClientStreamPool();

    std::unique_ptr<ClientStream> take();
    void give_back(std::unique_ptr<ClientStream> stream);
    OutgoingFields& outgoing_fields() { return *outgoing_fields_; }

  private:
    static constexpr std::size_t kKept = 256;

    std::vector<std::unique_ptr<ClientStream>> free_;
    std::unique_ptr<OutgoingFields> outgoing_fields_;
};

struct ClientEvent {
    enum class Kind : std::uint8_t {
        head,     // of an interim answer or of the final one
        body,     // `bytes` of content; consume() gives the server room for more
        end,      // the answer is whole, with its trailers
        reset,    // nothing more comes or goes; the stream says why
        drained,  // all that was offered has been taken
    };

    Kind kind;
    ClientStream* stream;
    std::string_view bytes = {};  // a view into what receive() was given
};

using ClientEventList = std::vector<ClientEvent>;

class Client {
  public:
    Client(const ClientSettings& settings, ClientStreamPool& pool, Time now);
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    // What the server has sent.
    void receive(std::string_view bytes, Time now, ClientEventList& events);
    // Fills `into`, of at least 2 KiB, with what is to be sent. 0: there is nothing, or no window
    // is open for it.
    std::size_t gather(std::span<char> into, Time now, ClientEventList& events);
    bool wants_write() const;

    // Requests. After the end of a stream these do nothing.

    // Whether the server takes another request, as far as it has said, and there are resets left
    // for all.
    bool has_room() const;
    // How many requests there may be at a time: the server takes so many, and each of them may have
    // to be reset.
    std::uint32_t requests_max() const;
    // The server takes no new requests, or this side has ended the connection.
    bool is_leaving() const;
    // So many requests were reset that the server might take the connection for a hostile one if
    // there were more: it should get no new requests. Once true, it stays so.
    bool has_reset_many() const { return has_reset_many_; }
    // Begins a request. `lines` are `Name: value` and CR LF; Host becomes `:authority`.
    // `has_body`: offer() follows, until the last. A head that is larger than what the server has
    // said it takes (SETTINGS_MAX_HEADER_LIST_SIZE) is not sent: the stream is closed at once.
    // Until it has said so, what it said on an earlier connection holds.
    ClientStream& begin(const RequestLine& request, std::string_view lines, bool has_body);
    // The next of the body. Pieces and trailers, and what they look at, stay until
    // stream.is_taking(). Requires that, and a body. Trailers may come with the last. Those that
    // are larger than what the server has said it takes are not sent: the stream is reset.
    void offer(ClientStream& stream, std::span<const std::string_view> pieces, bool is_last,
               const http::Fields* trailers = nullptr);
    // The server has room for so many bytes of the answer's body more.
    void consume(ClientStream& stream, std::size_t bytes);
    // The caller does not want the answer any more.
    void cancel(ClientStream& stream);
    // The stream is the client's again. What is not whole is cancelled.
    void release(ClientStream& stream);

    // The connection.

    // Says that this side is done. Requires that there are no streams.
    void finish();
    // What is due at deadline().
    void tick(Time now, ClientEventList& events);
    // Time::max(): none.
    Time deadline() const { return std::min({settings_due_, block_due_, close_due_}); }
    // Neither side has anything to say any more: close.
    bool is_done() const;
    // Nothing more can be sent.
    bool has_failed() const { return has_failed_; }
    // What the server did wrong, as far as this ended the connection (RFC 9113 section 7).
    // NO_ERROR: nothing.
    std::uint32_t error() const { return error_; }
    // The server's SETTINGS have come: it does speak HTTP/2.
    bool has_settings() const { return has_settings_; }
    // How many streams the server takes at a time.
    std::uint32_t streams_max() const;
    // The largest head and the largest trailers that the server takes; UINT32_MAX: any.
    std::uint32_t list_bytes_max() const;

    // Streams that are not released.
    std::size_t streams() const { return held_; }
    bool is_idle() const { return streams_.empty() && !wants_write(); }
    // Gives back what an idle session can do without. Requires is_idle().
    void drop_memory();

  private:
    friend ClientCallbacks;

    // client.cpp
    void enter(Time now, ClientEventList& events);
    void recycle();
    bool fits(const OutgoingFields& fields) const;
    void submit_reset(ClientStream& stream, std::uint32_t error);
    void finish_release(ClientStream& stream);
    void end_with(std::uint32_t error);
    void note_error(std::uint32_t error);

    // client_input.cpp
    void follow_block(std::string_view bytes);
    ClientStream* find(std::uint32_t id);
    void tell(ClientEvent::Kind kind, ClientStream& stream, std::string_view bytes = {});
    void begin_block(std::uint32_t id, bool is_end);
    void add_field(std::string_view name, std::string_view value);
    void end_block(bool is_end);
    void end_interim(ClientStream& stream, bool is_end);
    void end_trailers(ClientStream& stream);
    void add_body(std::uint32_t id, std::string_view bytes);
    void end_answer(ClientStream& stream);
    void note_settings();
    void note_unsent(std::uint32_t id);
    void note_goaway(std::uint32_t last) { last_taken_ = std::min(last, last_taken_); }
    void note_unprocessed(ClientStream& stream) const;
    void reset_for(ClientStream& stream, Malformed malformed);
    void close(std::uint32_t id, std::uint32_t error);

    // client.cpp: what nghttp2 asks for
    std::ptrdiff_t take(ClientStream& stream, std::size_t max, std::uint32_t& flags);
    void write_data(ClientStream& stream, std::string_view frame_head, std::size_t bytes);

    const ClientSettings settings_;
    const RequestRules rules_;
    ClientStreamPool& pool_;
    Output output_;
    Memory memory_;
    nghttp2_session* session_ = nullptr;
    boost::intrusive::list<ClientStream> streams_;
    boost::intrusive::list<ClientStream> gone_;  // events may still name them
    ClientStream* block_of_ = nullptr;           // whose header block is coming
    FieldBlock* block_ = nullptr;
    ClientEventList* events_ = nullptr;
    Time now_;
    Time settings_due_;
    FrameHeads heads_{0};
    Time block_due_ = Time::max();
    Time close_due_ = Time::max();  // of a connection that has ended for what the server did
    AbuseBudget resets_{kClientResets};
    std::size_t held_ = 0;
    std::uint32_t open_ = 0;  // streams that the server counts
    std::uint32_t pushes_ = 0;
    std::uint32_t error_ = 0;
    std::uint32_t last_taken_ = UINT32_MAX;  // the last stream that a GOAWAY says was taken
    bool has_settings_ = false;
    bool is_ending_ = false;
    bool has_failed_ = false;
    bool has_reset_many_ = false;
};

}  // namespace tidegate::h2
