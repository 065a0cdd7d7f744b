// A connection that blocks, with a deadline for each step: what is asked now and then by somebody
// who waits for it needs no event loop. One thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ssl/stream.hpp>

#include "base/result.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

using Endpoints = std::vector<StreamProtocol::endpoint>;

// Where `address` is: of a name all its addresses, in the system's order. Or why that is not known.
Result<Endpoints, std::string> find_endpoints(const config::Address& address, SteadyTime until);

// `10.0.0.1:6379`, `[::1]:6379`; of a Unix socket its path.
std::string endpoint_text(const StreamProtocol::endpoint& endpoint);

// Errors are clauses about the other side; empty: none. After one the wire is of no use.
class Wire {
  public:
    Wire();
    ~Wire();
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    std::string connect(const StreamProtocol::endpoint& endpoint, SteadyTime until);
    // Shakes hands; `tls` is not null.
    std::string encrypt(TlsPtr tls, SteadyTime until);
    // Whether the connection ended because the server wants a client certificate and there is none.
    bool wants_certificate() const { return wants_certificate_; }
    // Once encrypted: until when the server's own certificate is valid.
    std::optional<std::chrono::system_clock::time_point> certificate_until() const;

    std::string write(std::string_view bytes, SteadyTime until);
    // Appends what comes next, at least a byte.
    std::string read(std::string& to, SteadyTime until);

  private:
    using TlsStream = asio::ssl::stream<StreamSocket&>;

    std::string words_for_end(const error_code& ec);
    template <class Begin>
    error_code await(Begin begin, SteadyTime until);

    asio::io_context io_{1};
    StreamSocket socket_;
    std::optional<TlsStream> tls_;
    bool is_heard_ = false;  // the server has said something
    bool wants_certificate_ = false;
};

}  // namespace tidegate::doctor
