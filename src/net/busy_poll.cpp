#include "net/busy_poll.hpp"

#include <thread>

#include "net/deadline.hpp"

namespace tidegate {

bool poll_for(asio::io_context& io, std::chrono::microseconds patience) {
    const SteadyTime end = steady_now() + patience;
    do {
        if (io.poll() > 0) return true;
        if (io.stopped()) return false;
        std::this_thread::yield();
    } while (steady_now() < end);
    return false;
}

}  // namespace tidegate
