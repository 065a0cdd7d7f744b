// A conversation with one sentinel.
//
// Everything has a deadline, set by whoever uses it: when it passes, the connection closes and what
// waits for it ends. Owned through a shared pointer because its timer outlives a close. One thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ssl/stream.hpp>

#include "base/result.hpp"
#include "net/asio.hpp"
#include "redis/sentinel.hpp"

namespace tidegate::redis {

class SentinelConnection : public std::enable_shared_from_this<SentinelConnection> {
  public:
    // Why there is no answer.
    struct Fault {
        bool denied = false;  // the sentinel was reached and does not want us
        std::string message;
    };
    using Answer = Result<SentinelReply, Fault>;

    // `options` has to live as long.
    SentinelConnection(Executor executor, const SentinelOptions& options, const SentinelNode& node);

    // Closes the connection when `time` from now has passed without this being called again.
    void expect_within(std::chrono::milliseconds time);
    void close();

    // Looks the name up, connects, shakes hands, says the password. The answer is that of the last
    // step.
    static Task<Answer> open(std::shared_ptr<SentinelConnection> self);
    // One question, in RESP, and the next reply. An error is a fault.
    Task<Answer> ask(std::string command);
    // The next reply, whatever it is.
    Task<Answer> next();
    // Sends without waiting for a reply; not while something else is being sent.
    Task<error_code> send(std::string command);

  private:
    using Socket = asio::basic_stream_socket<asio::ip::tcp, Executor>;
    using TlsStream = asio::ssl::stream<Socket&>;

    // Each returns what was wrong, or nothing.
    Task<std::string> connect();
    Task<Fault> shake_hands();
    // Why the connection has ended.
    Fault fault_of(error_code ec);
    std::string reason(error_code ec) const;

    const SentinelOptions& options_;
    const SentinelNode& node_;
    Socket socket_;
    std::optional<TlsStream> tls_;
    Timer timer_;
    bool late_ = false;
    bool is_heard_ = false;  // the sentinel has said something
    SentinelReader reader_;
};

}  // namespace tidegate::redis
