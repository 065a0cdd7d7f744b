// A connection to one Redis or one sentinel, for what is asked now and then: one command at a time,
// each reply whole. Decisions use Client instead.
//
// Everything has a deadline, set by expect_within(): when it passes, the connection closes and what
// waits for it fails. Owned through a shared pointer because its timer outlives a close. One
// thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "net/asio.hpp"
#include "net/byte_stream.hpp"
#include "net/tls_fault.hpp"
#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::redis {

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
  public:
    // Why there is no connection or no reply; a clause about the server. `refused`: it was reached,
    // and another attempt will end the same way.
    using Fault = TlsFault;
    using Reply = Result<RespValue, Fault>;
    using Endpoint = StreamProtocol::endpoint;

    // `tls`: null, or how the connection to `host` is encrypted.
    ServerConnection(Executor executor, std::shared_ptr<const TlsClient> tls, std::string host);

    // Closes the connection when `time` from now has passed without this being called again.
    void expect_within(std::chrono::milliseconds time);
    void close();

    // Looks up the host, connects to the first of its addresses that accepts, encrypts. An empty
    // message: all went well. Likewise of the two steps that follow.
    Task<Fault> open(std::uint16_t port);
    Task<Fault> connect(const Endpoint& endpoint);
    Task<Fault> encrypt();

    // Sends one command, in RESP, and waits for its reply, perhaps an error.
    Task<Reply> ask(std::string command);
    // The next reply, whatever it is.
    Task<Reply> next();
    // Sends without waiting for a reply; not while something else is being sent.
    Task<error_code> send(std::string command);

    // Returns when the server's certificate is valid, if the connection is encrypted.
    std::optional<Validity> certificate_validity() const;

  private:
    // Why the connection has ended.
    Fault fault_of(const error_code& ec) const;

    std::shared_ptr<const TlsClient> tls_client_;
    const std::string host_;
    ByteStream stream_;
    Timer timer_;
    bool late_ = false;
    bool is_heard_ = false;  // the server has sent something
    RespReader reader_;
};

}  // namespace tidegate::redis
