// Turns the requests of a RawClient from HTTP/1 into HTTP/2, and the answers back: so one test runs
// over both. Requests become streams as soon as their heads are complete; those that are sent
// without waiting run side by side, and the test gets their answers in order.
//
// Once the server has sent GOAWAY, and all requests are answered, the next request goes over a new
// connection.
//
// What HTTP/2 cannot express is left out: Connection and what goes with it, the coding of a body.
// A request that HTTP/2 cannot express throws std::logic_error: such a test is
// only_over_http1().
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "integration/h2_client.hpp"

namespace tidegate::test {

class H2Translator {
  public:
    H2Translator(std::uint16_t port, const std::string& from);

    // False when the server does not take it. What it does not take yet goes while the answer is
    // waited for.
    bool send(std::string_view bytes);
    // The next head of 1xx, or answer. Throws MalformedMessage when the stream ends without.
    Message response();
    // The rest of the answers to all requests, as text; without a request, once the connection has
    // ended, which throws if it does not.
    std::string rest();
    // What has come of the next answer, as text; empty at its end.
    std::string some();
    // A request that is not whole is reset.
    void finish_sending();
    void leave() { client().leave(); }
    // The connection, or the stream of the last answer.
    bool was_reset() const { return stream_was_reset_ || client().was_reset(); }
    bool was_truncated() const { return client().was_truncated(); }
    // The connection that is used now.
    H2Client& client() const;

  private:
    enum class Part { head, length, chunk_head, chunk, chunk_end, trailers };
    // An answer that the test has not read yet.
    struct Awaited {
        int stream;
        std::size_t interim = 0;  // heads of 1xx that the test has got
        bool head = false;        // read as text
    };

    bool take();
    void take_head(std::string_view head);
    bool take_body();
    bool take_chunk_head();
    bool take_trailers();
    std::optional<std::string> line();
    bool hand_over();
    void look_for_goaway();

    std::optional<Awaited> front() const;
    void update(const Awaited& awaited);
    void pop(const H2Answer& answer);

    const std::uint16_t port_;
    const std::string from_;
    // The sending side.
    std::string text_;  // that is not understood yet
    Part part_ = Part::head;
    int stream_ = 0;  // whose body comes
    std::size_t left_ = 0;
    FieldList trailers_;

    mutable std::mutex mutex_;  // of what follows: one thread may send while another receives
    // The last one is used; answers are read from the others no more.
    std::deque<std::unique_ptr<H2Client>> clients_;
    std::deque<Awaited> awaited_;
    bool stream_was_reset_ = false;
};

}  // namespace tidegate::test
