// A connection in HTTP/2 that one request makes, and that others wait for: many requests at once
// must not make a connection each. One thread.
#pragma once

#include <cstddef>
#include <optional>

#include <boost/intrusive/list.hpp>
#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "net/wakeup.hpp"
#include "upstream/connect_fault.hpp"

namespace tidegate::upstream {

// In the list of its attempt while it waits.
struct Http2Waiter
    : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    explicit Http2Waiter(Wakeup& of_request) : wakeup(of_request) {}

    Wakeup& wakeup;
};

struct Http2Attempt : boost::intrusive_ref_counter<Http2Attempt, boost::thread_unsafe_counter> {
    // Wakes all that wait.
    void end(ConnectFault with) {
        outcome = with;
        for (Http2Waiter& waiter : waiters) waiter.wakeup.wake_later();
    }

    boost::intrusive::list<Http2Waiter, boost::intrusive::constant_time_size<false>> waiters;
    std::size_t requests = 1;             // that count on it, with the one that makes it
    std::optional<ConnectFault> outcome;  // client_left: another request has to try
};

using Http2AttemptPtr = boost::intrusive_ptr<Http2Attempt>;

}  // namespace tidegate::upstream
