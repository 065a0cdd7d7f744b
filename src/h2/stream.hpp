// One request and its answer on an HTTP/2 connection: what its client has sent of the head, and
// what waits to be sent to it. Lent by a Server from the request's event until release().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "h2/budget.hpp"
#include "h2/fields.hpp"
#include "h2/output.hpp"
#include "http/field.hpp"
#include "http/head.hpp"

namespace tidegate::h2 {

class OutgoingFields;
class Callbacks;
class Server;
class StreamPool;

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

}  // namespace tidegate::h2
