// Posts batches of spans to a collector, over one connection that is kept. One event loop.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "config/socket_address.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "net/timed_socket.hpp"
#include "tls/tls_settings.hpp"

namespace tidegate::app {

class CollectorClient {
  public:
    struct Answer {
        int status = 0;        // 0: there was none
        std::string fault{};   // why there was none: a clause for an operator
        bool is_late = false;  // the collector had the request, or may have had it
        std::optional<std::chrono::seconds> retry_after{};
        std::string body{};

        // The collector took what it was sent.
        bool is_success() const { return status >= 200 && status <= 299; }
    };

    // `header_lines` are whole lines. `tls` is for a URL with https: the collector must prove that
    // it is `tls.server_name`, or the URL's host if that is empty.
    CollectorClient(Executor executor, config::HttpsUrl url, TlsSettings tls,
                    const std::string& header_lines);

    // Ends by `until`. The caller keeps `json` as it is meanwhile.
    Task<Answer> post(const std::string& json, SteadyTime until);
    void close();

  private:
    Task<std::string> open(SteadyTime until);
    Task<Answer> exchange(const std::string& json);

    Executor executor_;
    config::HttpsUrl url_;
    TlsSettings tls_;
    std::string head_;                     // up to the number of Content-Length
    std::shared_ptr<TimedSocket> socket_;  // null, or closed: the next batch opens one
};

}  // namespace tidegate::app
