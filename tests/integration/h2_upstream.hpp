// Servers behind the proxy that speak HTTP/2, and do what a test wants. nghttp2's server session
// does frames, HPACK and windows, and judges what the proxy sends.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "integration/h2_wire.hpp"
#include "integration/message.hpp"
#include "integration/socket.hpp"

struct nghttp2_session;

namespace tidegate::test {

// A request as the server has got it so far.
struct H2Call {
    int connection = 0;  // counts from 1
    int stream = 0;
    FieldList fields{};  // with pseudo-fields
    std::string body{};
    FieldList trailers{};
    bool is_whole = false;
    std::optional<std::uint32_t> reset{};

    // Empty when there is none.
    std::string field(std::string_view name) const;
    std::string path() const { return field(":path"); }
};

struct H2Reply {
    int status = 200;
    FieldList fields{};
    std::string body{};
    FieldList trailers{};
    std::vector<int> interim{};  // statuses of 1xx before it
    bool stays_open = false;     // the body does not end
};

// One connection's session; what carries its bytes is the caller's. Under the caller's mutex.
class H2ServerSession {
  public:
    // Called when a request is whole, or with `early` when its head is there.
    using Answer = std::function<std::optional<H2Reply>(const H2Call& call)>;

    H2ServerSession(int number, const H2Entries& settings, Answer answer, bool early = false);
    ~H2ServerSession();
    H2ServerSession(const H2ServerSession&) = delete;
    H2ServerSession& operator=(const H2ServerSession&) = delete;

    // False: the proxy broke the protocol, or the session is over.
    bool feed(std::string_view bytes);
    // What is to be sent.
    std::string output();

    void answer(int stream, const H2Reply& reply);
    // An interim answer, before answer().
    void interim(int stream, int status);
    // More of the body of an answer that stays open. `ends`: its last, with `trailers` behind it.
    void go_on(int stream, std::string_view bytes, bool ends = false,
               const FieldList& trailers = {});
    void reset(int stream, std::uint32_t error);
    // The proxy may repeat streams above `last`: the server did not process them.
    void goaway(int last, std::uint32_t error = NGHTTP2_NO_ERROR);
    const std::map<int, H2Call>& calls() const { return calls_; }
    int pings() const { return pings_; }

  private:
    struct Outgoing {
        H2Reply reply;
        std::size_t sent = 0;
    };
    struct Callbacks;

    void note_end(int stream);

    nghttp2_session* session_ = nullptr;
    Answer answer_;
    const bool early_;
    const int number_;
    std::map<int, H2Call> calls_;
    std::map<int, Outgoing> outgoing_;
    int pings_ = 0;
};

struct H2UpstreamOptions {
    H2Entries settings{};
    bool early = false;      // answers when the head of a request is there
    bool is_silent = false;  // accepts, reads, and never sends anything
    bool is_second = false;  // sends its SETTINGS when something has come, as if from far away
    std::uint16_t port = 0;  // 0: any
};

// Listens on 127.0.0.1, in the clear, from construction to destruction; each connection in a thread
// of its own. Where `answer` gives nothing, the test answers later.
class H2Upstream {
  public:
    explicit H2Upstream(H2ServerSession::Answer answer, const H2UpstreamOptions& options = {});
    ~H2Upstream();
    H2Upstream(const H2Upstream&) = delete;
    H2Upstream& operator=(const H2Upstream&) = delete;

    std::uint16_t port() const { return listener_.port(); }
    // `h2c://127.0.0.1:port`
    std::string url() const;
    int connections() const { return connections_; }
    // Those of them that are open.
    int open() const;
    // All so far, in the order of connections and streams.
    std::vector<H2Call> calls() const;
    std::size_t whole_calls() const;
    // The call for that path; throws where there is none.
    H2Call call(const std::string& path) const;
    int pings() const;

    // `connection` counts from 1.
    void answer(const H2Call& call, const H2Reply& reply);
    void interim(const H2Call& call, int status);
    void go_on(const H2Call& call, std::string_view bytes, bool ends = false,
               const FieldList& trailers = {});
    void reset(const H2Call& call, std::uint32_t error);
    void goaway(int connection, int last, std::uint32_t error = NGHTTP2_NO_ERROR);
    // Ends the connection without GOAWAY.
    void close(int connection);

  private:
    struct Live {
        Live(int number, Socket of, const H2UpstreamOptions& options,
             const H2ServerSession::Answer& answer)
            : socket(std::move(of)), session(number, options.settings, answer, options.early) {}

        Socket socket;
        H2ServerSession session;
        std::atomic<bool> is_open{true};
        std::thread thread;
    };

    void accept_all();
    void serve(Live& live);
    Live& live(int connection);

    const H2UpstreamOptions options_;
    const H2ServerSession::Answer answer_;
    Socket listener_;
    std::atomic<bool> stopping_{false};
    std::atomic<int> connections_{0};
    mutable std::mutex mutex_;  // of sessions, and of the list
    std::list<Live> live_;
    std::thread acceptor_;
};

// Answers each request alike.
H2ServerSession::Answer always(const H2Reply& reply);

}  // namespace tidegate::test
