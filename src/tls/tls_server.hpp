// What a listener's TLS connections are made with: its certificates by name, its versions, its
// tickets, and the authorities of clients.
//
// OpenSSL locks what threads share, so each worker makes a TlsServer of its own for each listener
// that speaks TLS, from certificates that are parsed once. One thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "tls/server_settings.hpp"
#include "tls/tls_ptr.hpp"

namespace tidegate {

class TicketKeys;         // shared by all threads and kept over a reload (tls/ticket_keys.hpp)
class ServerCredentials;  // certificates, keys and authorities, parsed; immutable, any thread

// Or what is wrong with `settings`, as a sentence that names the file.
Result<std::shared_ptr<const ServerCredentials>, std::string> parse_credentials(
    const TlsServerSettings& settings);

class TlsServer {
  public:
    // Throws std::bad_alloc when OpenSSL has no memory.
    TlsServer(std::shared_ptr<const ServerCredentials> credentials,
              std::shared_ptr<TicketKeys> tickets);
    ~TlsServer();
    TlsServer(const TlsServer&) = delete;
    TlsServer& operator=(const TlsServer&) = delete;

    // The server's side of a connection, for Connection::begin_tls(). It keeps what it needs of
    // this server, which may go before it. Null when OpenSSL has no memory.
    TlsPtr connection() const;

  private:
    struct Context;
    std::unique_ptr<Context> context_;
};

}  // namespace tidegate
