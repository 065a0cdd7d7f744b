// Servers behind the proxy that do what a test wants, right or wrong.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "integration/message.hpp"
#include "integration/socket.hpp"

namespace tidegate::test {

class Upstream;

// One connection from the proxy, in a thread of its own.
class Conversation {
  public:
    // Counts from 1.
    int number() const { return number_; }
    // Reads a whole request and records it; false when the proxy closed.
    bool read(Message& request);
    // Reads and records the head only; the body is read with some().
    bool read_head(Message& request);
    std::string some() { return reader_.some(); }
    // Does nothing until `may_go`, however long that takes, or until the upstream ends.
    void hold_until(const std::function<bool()>& may_go);
    bool send(std::string_view bytes) { return socket_.send(bytes); }
    // Until the proxy closes; further bytes of the proxy are thrown away.
    void wait_for_end() { reader_.rest(); }
    void close() const { socket_.shutdown(); }
    // Ends with a reset.
    void reset();

  private:
    friend class Upstream;
    Conversation(Upstream& owner, Socket socket, int number)
        : owner_(owner), socket_(std::move(socket)), reader_(socket_), number_(number) {}

    Upstream& owner_;
    Socket socket_;
    MessageReader reader_;
    int number_;
};

// Listens from construction to destruction. The handler owns a connection until it returns;
// exceptions end the connection (a proxy that vanishes in mid-request is not the server's fault).
class Upstream {
  public:
    using Handler = std::function<void(Conversation&)>;
    using Answer = std::function<std::string(const Message& request)>;

    // On the loopback address `on`. Port 0 lets the kernel choose.
    explicit Upstream(Handler handler, std::uint16_t port = 0, const std::string& on = "127.0.0.1");
    // Answers every request alike; keeps connections.
    explicit Upstream(std::string response, std::uint16_t port = 0);
    ~Upstream();
    Upstream(const Upstream&) = delete;
    Upstream& operator=(const Upstream&) = delete;

    // Answers each request with the bytes that `answer` makes.
    static Handler answering(Answer answer);

    std::uint16_t port() const { return listener_.port(); }
    // `http://127.0.0.1:port`
    std::string url() const;
    int connections() const { return connections_; }
    int requests() const;
    // All requests read so far, in the order they were read.
    std::vector<Message> seen() const;
    Message last() const;

  private:
    friend class Conversation;
    struct Live {
        std::unique_ptr<Conversation> conversation;
        std::thread thread;
    };

    void accept_all();
    void record(const Message& request);

    Handler handler_;
    Socket listener_;
    std::atomic<bool> stopping_{false};
    std::atomic<int> connections_{0};
    mutable std::mutex mutex_;
    std::list<Live> live_;       // touched by the accepting thread, and after it has ended
    std::vector<Message> seen_;  // guarded by mutex_
    std::thread acceptor_;
};

// A 200 with `body` and its length.
std::string ok(std::string_view body = "ok", const std::string& more_fields = "");

}  // namespace tidegate::test
