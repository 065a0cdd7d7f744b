// One request and its answer on an HTTP/2 connection to a server: what waits to be sent, and what
// has come of the answer. Lent by a Client from begin() until release().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "h2/fields.hpp"
#include "h2/output.hpp"
#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"

namespace tidegate::h2 {

class Client;
class ClientCallbacks;
class ClientStreamPool;

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

}  // namespace tidegate::h2
