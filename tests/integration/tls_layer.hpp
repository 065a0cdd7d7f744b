// A client's side of TLS between what a test sends and receives and the bytes on the wire, which
// its Socket carries. No I/O of its own.
//
// One thread may send while another receives: each call is safe, and begin_sending() keeps what
// goes out in the order in which it was made.
#pragma once

#include <mutex>
#include <string>
#include <string_view>

#include "integration/transport.hpp"

namespace tidegate::test {

class TlsLayer {
  public:
    enum class State : unsigned char {
        shaking,  // the handshake is not over
        open,     // it is
        ended,    // the peer has sent close_notify
        failed,   // see fault()
    };

    explicit TlsLayer(SslPtr tls);

    // Goes on with the handshake, if there is something to go on with.
    State shake();
    // The bytes came off the wire.
    void take(std::string_view wire);
    // All that can be read now.
    std::string read();
    State state() const;
    // What OpenSSL complained of: `tlsv13 alert certificate required`.
    std::string fault() const;

    // Reading has made something that is to be sent, such as an alert.
    bool has_to_send() const;
    // Lets one thread after the other take bytes and send them.
    std::unique_lock<std::mutex> begin_sending() { return std::unique_lock(sending_); }
    // `plain`, and what else is to be sent, as bytes for the wire. Under begin_sending().
    std::string sealed(std::string_view plain = {});
    // close_notify. The other direction stays.
    std::string ending();

    // While no other thread uses this.
    SSL* native() const { return tls_.get(); }

  private:
    std::string to_send();
    void note(int result);

    mutable std::mutex mutex_;  // of what follows
    std::mutex sending_;
    SslPtr tls_;
    State state_ = State::shaking;
    std::string fault_;
};

}  // namespace tidegate::test
