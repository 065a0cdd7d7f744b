// The session of a client with a server of an upstream: requests go, answers come
// (h2/session.hpp), and begin() takes the place of the event of a request.
//
// The proxy trusts the servers of its upstreams with more than clients: no budget bounds how many
// frames they send. What they make the proxy keep is bounded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "h2/fields.hpp"
#include "h2/session.hpp"
#include "h2/settings_and_abuse.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"

namespace tidegate::h2 {

// A request to a server, and what has come of its answer. Lent by a session from begin() until
// release().
class ClientStream : public SessionStream {
  public:
    // The head of the first interim answer that was not dropped, or else of the final answer, whose
    // status is 200 or more; null: none has come yet. Its views stay until release(), those of an
    // interim head until it is dropped.
    http::ResponseHead* next_head();
    // Requires that next_head() is an interim one.
    void drop_interim() { interim_.erase(interim_.begin()); }
    // Returns the framing of the final answer. A body of unknown length passes for a chunked one.
    const http::Framing& framing() const { return framing_; }
    // The length that the final answer says its body has.
    std::optional<std::uint64_t> announced() const {
        if (framing_.body != http::BodyKind::length) return std::nullopt;
        return framing_.length;
    }
    // Any part of an answer has come.
    bool has_answered() const { return has_answered_; }

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

  private:
    friend ClientSession;
    friend StreamPool<ClientStream>;

    struct Interim {
        FieldBlock block;
        http::ResponseHead head;
    };

    void forget();

    http::ResponseHead head_;
    http::Framing framing_;
    std::vector<std::unique_ptr<Interim>> interim_;
    std::uint32_t interim_count_ = 0;
    Malformed malformed_ = Malformed::none;
    bool is_to_head_ = false;  // the request is a HEAD
    bool has_head_ = false;    // the final one
    bool has_answered_ = false;
    bool is_unprocessed_ = false;
    bool is_refused_ = false;
    bool is_behind_others_ = false;
    bool is_too_large_ = false;
};

using ClientEvent = SessionEvent<ClientStream>;
using ClientEventList = std::vector<ClientEvent>;

class ClientSession : public Session<ClientSession, ClientStream> {
  public:
    using Stream = ClientStream;

    ClientSession(const ClientSettings& settings, StreamPool<ClientStream>& pool, Time now);

    void receive(std::string_view bytes, Time now, ClientEventList& events);

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
    ClientStream& begin(const PseudoFields& request, std::string_view lines, bool has_body);
    // The next of the body. Pieces and trailers, and what they look at, stay until
    // stream.is_taking(). Requires that, and a body. Trailers may come with the last. Those that
    // are larger than what the server has said it takes are not sent: the stream is reset.
    void offer(ClientStream& stream, std::span<const std::string_view> pieces, bool is_last,
               const http::Fields* trailers = nullptr);
    // The caller does not want the answer any more. So does release() where the stream is not
    // whole.
    void cancel(ClientStream& stream) {
        if (!stream.is_closed()) submit_reset(stream, NGHTTP2_CANCEL);
    }

    // The connection.

    // Says that this side is done. Requires that there are no streams.
    void finish();
    // The server's SETTINGS have come: it does speak HTTP/2.
    bool has_settings() const { return has_settings_; }
    // How many streams the server takes at a time.
    std::uint32_t streams_max() const;
    // The largest head and the largest trailers that the server takes; UINT32_MAX: any.
    std::uint32_t list_bytes_max() const;

  private:
    friend Session<ClientSession, ClientStream>;
    friend SessionCallbacks<ClientSession>;

    static constexpr bool kIsServer = false;
    static void set_options(nghttp2_option& option);

    bool fits(const OutgoingFields& fields) const;
    void end_released(ClientStream& stream) { submit_reset(stream, NGHTTP2_CANCEL); }
    void note_sent(const nghttp2_frame& frame);
    void note_unsent(ClientStream& stream, const nghttp2_frame& frame) const;
    void note_reset();

    // These handle what the server sends.
    bool begin_block(const nghttp2_frame& frame);
    void refuse_block(Malformed malformed) { reset_for(*block_of_, malformed); }
    void end_head(ClientStream& stream, bool is_end);
    void end_interim(ClientStream& stream, bool is_end);
    bool takes_body(ClientStream& stream, std::string_view bytes);
    void end_message(ClientStream& stream);
    void reset_for(ClientStream& stream, Malformed malformed);
    bool may_push() { return ++pushes_ <= kPushesMax; }
    void note_received(const nghttp2_frame& frame);
    void note_unprocessed(ClientStream& stream) const;
    void note_closed(ClientStream& stream, std::uint32_t error);

    const ClientSettings settings_;
    AbuseBudget resets_{kClientResets};
    std::uint32_t open_ = 0;  // streams that the server counts
    std::uint32_t pushes_ = 0;
    std::uint32_t last_taken_ = UINT32_MAX;  // the last stream that a GOAWAY says was taken
    bool has_settings_ = false;
    bool has_reset_many_ = false;
};

}  // namespace tidegate::h2
