// A connection whose PROXY header is still on its way. Nothing of the client is read before it.
//
// The wait peeks, and takes only the header off the socket: the bytes behind it stay for the
// handshake or the request. Holds no buffer. Owned by its coroutine, one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <boost/intrusive/list.hpp>

#include "client/arrival.hpp"
#include "net/connection.hpp"
#include "net/task.hpp"
#include "net/wakeup.hpp"

namespace tidegate::client {

class ProxyHeaderWait : public boost::intrusive::list_base_hook<
                            boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
  public:
    // `arrival` is what is known without the header.
    ProxyHeaderWait(Executor executor, DeadlineWheel& deadlines, ConnectionPtr connection,
                    const Arrival& arrival);

    enum class End : std::uint8_t {
        complete,   // arrival() is what the header says
        malformed,  // fault() says how
        timeout,
        left,  // the peer closed before it sent anything, or the proxy is stopping
    };
    Task<End> run(std::chrono::milliseconds patience);

    const Arrival& arrival() const { return arrival_; }
    // Ends a sentence about the header: `is missing`.
    std::string_view fault() const { return fault_; }
    ConnectionPtr take_connection() { return std::move(connection_); }

    // The worker drains: what is on its way may still come, for a moment.
    void on_drain();
    // Resets the connection.
    void cut_off();

  private:
    // What has arrived says how the wait ends; nothing: not yet.
    std::optional<End> look();

    Sleeper sleeper_;
    ConnectionPtr connection_;
    Arrival arrival_;
    std::string_view fault_;
    bool is_stopping_ = false;
};

using ProxyHeaderWaitList =
    boost::intrusive::list<ProxyHeaderWait, boost::intrusive::constant_time_size<false>>;

}  // namespace tidegate::client
