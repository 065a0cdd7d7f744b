// A client that speaks HTTP/2 as it should, on a real socket, in the clear or over TLS: requests on
// streams side by side, answers as messages. nghttp2's client session does frames, HPACK and
// windows, and judges what the server sends. H2Wire is for what breaks the rules.
//
// Every wait ends: TooLate when what is waited for does not come in time. What a server
// may do, such as a reset, is a value. Several threads may use one client.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "integration/h2_wire.hpp"
#include "integration/message.hpp"
#include "integration/socket.hpp"

struct nghttp2_session;

namespace tidegate::test {

struct H2Request {
    std::string method = "GET";
    std::string path = "/";
    std::string authority = "example.test";  // empty: none is sent
    std::string scheme{};                    // empty: the one of the transport
    std::string protocol{};                  // of an extended CONNECT (RFC 8441)
    FieldList fields{};                      // Content-Length is only sent if it is here
    std::string body{};
    FieldList trailers{};
    bool stays_open = false;  // the body goes on with send()
};

// What has come of an answer: its head is empty until there is one. start_line is `HTTP/2.0 200`;
// names are in lower case; `chunks` counts frames of DATA that hold something; `broken` says that
// the stream ended before the answer did.
struct H2Answer : Message {
    std::vector<Message> interim{};  // heads of 1xx
    bool is_whole = false;           // END_STREAM came
    std::optional<std::uint32_t> reset{};

    bool has_head() const { return !start_line.empty(); }
};

// How far an answer is.
struct H2Progress {
    std::size_t interim = 0;  // heads of 1xx
    bool has_head = false;
    std::size_t body = 0;
    bool is_whole = false;
    bool is_closed = false;  // the stream
};

struct H2Options {
    std::uint32_t stream_window = 65'535;
    std::uint32_t connection_window = 65'535;
    // Bodies are taken as they come. False: only consume() opens windows again.
    bool is_reading = true;
    H2Entries settings{};  // beside those of the windows, and no push
};

struct H2GoAway {
    std::int32_t last_stream = 0;
    std::uint32_t error = 0;
    std::string debug{};
};

// The awaited event did not come in time.
struct TooLate : std::runtime_error {
    TooLate() : std::runtime_error("nothing arrived in time") {}
};

class H2Client {
  public:
    // See connect_h2().
    explicit H2Client(std::uint16_t port, const H2Options& options = {},
                      const std::string& from = "127.0.0.1");
    explicit H2Client(Socket connected, const H2Options& options = {});
    // Leaves with a reset.
    ~H2Client();
    H2Client(const H2Client&) = delete;
    H2Client& operator=(const H2Client&) = delete;

    // Sends a request, and what of its body windows allow; the rest goes while something is waited
    // for. Returns its stream. Where the server takes no more streams, the request waits.
    int begin(const H2Request& request);
    // More of the body, waiting until all of it is sent. False when the stream is closed before.
    bool send(int stream, std::string_view bytes);
    // The same, without waiting.
    void queue(int stream, std::string_view bytes);
    // The end of the body.
    void finish(int stream, const FieldList& trailers = {});
    void reset(int stream, std::uint32_t error = NGHTTP2_CANCEL);
    // Bytes of the body that are not sent yet.
    std::size_t unsent(int stream) const;

    // Waits until the answer is whole, or the stream or connection has ended.
    H2Answer answer(int stream, milliseconds patience = kPatience);
    // begin() and answer().
    H2Answer ask(const H2Request& request);
    H2Answer get(const std::string& path = "/", const FieldList& fields = {});
    // Waits for the head of the final answer, or the end of the stream.
    H2Answer await_head(int stream, milliseconds patience = kPatience);
    // Waits for more of the body than has been returned before, and returns that; empty at its end.
    std::string some(int stream, milliseconds patience = kPatience);
    // What has come so far, without waiting.
    H2Answer so_far(int stream) const;
    H2Progress progress(int stream) const;

    // Opens the windows again for bytes of a body that came; only without `is_reading`.
    void consume(int stream, std::size_t bytes);
    // Reads and writes for so long, or until the connection ends.
    void run_for(milliseconds time);
    // Reads once; false when nothing comes in that time, or the connection has ended.
    bool run_once(milliseconds time);
    // Reads and writes until `holds`. False when the connection ends before.
    template <class Holds>
    bool run_until(Holds holds, milliseconds patience = kPatience) {
        const auto deadline = Clock::now() + patience;
        while (!holds()) {
            if (!turn(deadline)) return holds();
        }
        return true;
    }

    void ping();
    int pongs() const;
    void change_settings(const H2Entries& entries);
    // What the server has set; nghttp2's default until then.
    std::uint32_t server_setting(nghttp2_settings_id id) const;
    // Whether the server's SETTINGS have come.
    bool has_settings() const;
    // The last one that came.
    std::optional<H2GoAway> goaway() const;
    std::vector<H2GoAway> goaways() const;
    // Heads of all frames that came, without their payload.
    std::vector<H2Frame> frames() const;
    // How many of that kind.
    std::size_t count(std::uint8_t type) const;
    // What nghttp2 found wrong with what the server sent; empty: nothing.
    std::string fault() const;

    // Any bytes, between frames of the session.
    bool send_raw(std::string_view bytes);
    // Waits until the connection has ended; false when it stays.
    bool closed(milliseconds patience = kPatience);
    bool is_connected() const;
    bool was_reset() const { return socket_.was_reset(); }
    bool was_truncated() const { return socket_.was_truncated(); }
    // A reset of the connection, without GOAWAY.
    void leave();
    Socket& socket() { return socket_; }

  private:
    friend struct H2Callbacks;
    struct Stream {
        H2Answer answer;
        std::size_t unsent_size() const { return unsent.size() - sent; }

        std::string unsent;
        std::size_t sent = 0;      // of that
        bool is_finished = false;  // no more of the body comes
        bool is_closed = false;
        FieldList trailers;
        std::size_t told = 0;  // of the body, by some()
        Message head;          // that is coming
    };
    struct Release {
        void operator()(nghttp2_session* session) const;
    };
    using Lock = std::unique_lock<std::mutex>;

    void start(const H2Options& options);
    // Writes what there is to write, and reads once, unless another thread does; false at the end
    // of the connection. Throws when nothing comes before the deadline.
    bool turn(Clock::time_point deadline);
    void write(Lock& lock);
    void feed(std::string_view bytes);
    void end();
    Stream& stream(int id) { return streams_.at(id); }
    const Stream& stream(int id) const { return streams_.at(id); }
    void await(int id, Clock::time_point deadline, bool (*holds)(const Stream&));

    mutable std::mutex mutex_;  // of all that follows, but for what one thread reads
    std::condition_variable was_read_;
    Socket socket_;
    std::unique_ptr<nghttp2_session, Release> session_;
    std::map<int, Stream> streams_;
    std::vector<H2GoAway> goaways_;
    std::vector<H2Frame> frames_;
    std::string fault_;
    std::string gathered_;  // to be sent at once
    int pongs_ = 0;
    bool has_settings_ = false;
    bool is_being_read_ = false;  // by some thread
    bool has_ended_ = false;
    bool can_send_ = true;
};

}  // namespace tidegate::test
