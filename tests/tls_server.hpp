// A TLS server of a test's own, on a free loopback port.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <openssl/ssl.h>

#include "certificates.hpp"

namespace tidegate::test {

// Listens on 127.0.0.1 from construction to destruction; serves one connection after the other,
// each as the handler likes, in a thread of its own.
class TlsServer {
  public:
    class Conversation {
      public:
        // The head of a request with its empty line, which is recorded; what there was, if the
        // client left before.
        std::string read_head();
        // What has come, at most `size` bytes; 0 when the client has left.
        std::size_t read(char* bytes, std::size_t size);
        // False when the client does not take it any more.
        bool send(std::string_view bytes);
        void wait_for_end();
        // Sends close_notify; without it a stream ends as if it had been cut.
        void finish() { SSL_shutdown(tls_); }

      private:
        friend class TlsServer;
        Conversation(TlsServer& owner, SSL* tls) : owner_(owner), tls_(tls) {}

        TlsServer& owner_;
        SSL* tls_;
    };
    using Handler = std::function<void(Conversation&)>;

    // Whether clients that are asked for a certificate may have none.
    enum class Clients { must_have_one, may_have_none };

    // `newest`: the highest version of TLS it speaks; 0: any. `clients`: the authority of clients,
    // which the server then asks for a certificate. `protocol`: what it chooses where clients offer
    // it by ALPN; empty: it does not know ALPN.
    TlsServer(Certificate certificate, Handler handler, int newest = 0,
              const Authority* clients = nullptr, Clients rule = Clients::must_have_one,
              std::string protocol = {});
    // Answers every request with these bytes and closes.
    TlsServer(Certificate certificate, const std::string& answer);
    ~TlsServer();
    TlsServer(const TlsServer&) = delete;
    TlsServer& operator=(const TlsServer&) = delete;

    std::uint16_t port() const { return port_; }
    // `https://host:port/path`
    std::string url(const std::string& path = "/keys", const std::string& host = "localhost") const;
    int connections() const { return connections_; }
    // Those of them that resumed a session.
    int resumptions() const { return resumptions_; }
    // Heads of all requests so far.
    std::vector<std::string> seen() const;
    // The name each client asked for in its handshake (SNI); empty where none.
    std::vector<std::string> names_asked_for() const;

  private:
    void accept_all();
    void serve(int descriptor);
    bool shake_hands(SSL* tls);

    Certificate certificate_;
    Handler handler_;
    std::string protocol_;
    std::unique_ptr<SSL_CTX, ReleaseOpenSsl> context_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::atomic<bool> stopping_{false};
    std::atomic<int> connections_{0};
    std::atomic<int> resumptions_{0};
    mutable std::mutex mutex_;
    mutable std::condition_variable handshake_over_;
    bool is_shaking_hands_ = false;   // guarded by mutex_
    int client_ = -1;                 // guarded by mutex_
    std::vector<std::string> seen_;   // guarded by mutex_
    std::vector<std::string> names_;  // guarded by mutex_
    std::thread thread_;
};

// A whole answer, and the end of the connection.
std::string tls_answer(std::string_view body, const std::string& status = "200 OK",
                       const std::string& more_fields = "");

}  // namespace tidegate::test
