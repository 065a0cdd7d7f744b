// One command to Redis and what becomes of it, as the code that sends it sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/described_enum.hpp"

namespace tidegate::redis {

// A Lua script as Redis knows it.
struct Script {
    std::string_view name;  // for messages
    std::string_view sha1;  // forty hexadecimal digits, what EVALSHA takes
    std::string_view text;  // what SCRIPT LOAD takes
};

// A reply as plain values; the view lives through the call.
struct Reply {
    enum class Kind : std::uint8_t { string, integer, error, nil, array };
    Kind kind = Kind::nil;
    std::string_view text;  // of a string, a status or an error; of an array, its first element's
    std::int64_t integer = 0;
};

BOOST_DEFINE_FIXED_ENUM_CLASS(
    Failure, std::uint8_t,
    timeout,       // no reply within the deadline; the command may have been carried out
    disconnected,  // the connection was lost before the reply; likewise
    unavailable,   // not sent: Redis is down
    overloaded,    // not sent: too many commands in flight
    refused)       // Redis answered with an error; not carried out

// A command whose sender waits for the reply. The client calls exactly one of on_reply and
// on_failure, from the event loop or, if a flush() finds the connection lost, from that; neither
// must resume a coroutine (Wakeup::wake_later does that).
class Request {
  public:
    // Appends the whole command in RESP. Called when the command is about to be sent, at the end of
    // the turn of the loop or in a flush(); a second time when Redis did not know `script()`.
    virtual void append_command(std::string& out) = 0;
    // The script the command runs, or null.
    virtual const Script* script() const = 0;
    virtual void on_reply(const Reply& reply) = 0;
    virtual void on_failure(Failure failure) = 0;

  protected:
    ~Request() = default;
};

}  // namespace tidegate::redis
