// Closing a client's connection without destroying what it was sent last. One thread.
#pragma once

#include "net/buffer.hpp"
#include "net/connection.hpp"
#include "net/task.hpp"
#include "net/wakeup.hpp"

namespace tidegate::client {

// RFC 9112 section 9.6: a close with bytes unread resets the connection and may destroy the last
// answer. So the connection sends its end, within `patience` where there is no room for it, then
// reads over what still comes, for a while. The caller closes it afterwards. Ends soon once
// `is_cut_off`, of which `sleeper` has to be woken.
Task<> linger(Connection& connection, Sleeper& sleeper, BufferPool& buffers,
              std::chrono::milliseconds patience, const bool& is_cut_off);

}  // namespace tidegate::client
