// One command to Redis and what becomes of it, as the code that sends it sees them.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"

struct redisReader;

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
    unavailable,   // not sent: Redis is down; not carried out
    overloaded,    // not sent: too many commands in flight; not carried out
    not_ready,     // Redis answered with an error of is_not_ready(); not carried out
    refused)       // Redis answered with another error; a script may have done some of its work

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

// Writes RESP, the protocol of Redis, reads replies, and tells what Redis's errors mean. Pure;
// inline, because every decision writes a command.

// `$3\r\n` (a string of three bytes) or `*3\r\n` (an array of three).
inline void append_length(char type, std::size_t length, std::string& out) {
    char line[24];
    line[0] = type;
    char* const end = std::to_chars(line + 1, line + 21, length).ptr;
    end[0] = '\r';
    end[1] = '\n';
    out.append(line, end + 2);
}

inline void append_string(std::string_view text, std::string& out) {
    append_length('$', text.size(), out);
    out.append(text).append("\r\n");
}

inline void append_number(std::uint64_t number, std::string& out) {
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
    append_string({digits, end}, out);
}

// Appends one whole command.
inline void append_resp(std::initializer_list<std::string_view> words, std::string& out) {
    append_length('*', words.size(), out);
    for (const std::string_view word : words) append_string(word, out);
}

// Appends a command up to its keys; they and the arguments are to follow.
inline void append_evalsha(const Script& script, std::size_t keys, std::size_t arguments,
                           std::string& out) {
    append_length('*', 3 + keys + arguments, out);
    append_string("EVALSHA", out);
    append_string(script.sha1, out);
    append_number(keys, out);
}

inline std::string resp(std::initializer_list<std::string_view> words) {
    std::string text;
    append_resp(words, text);
    return text;
}

// The command that gives the password; without a username, that of the default user.
inline std::string auth_command(std::string_view username, std::string_view password) {
    return username.empty() ? resp({"AUTH", password}) : resp({"AUTH", username, password});
}

// Reads RESP, the protocol of Redis: replies as trees of values, from bytes as they arrive. Pure.
//
// For sentinels and the doctor. Decisions read their replies in HiredisConnection, which keeps no
// trees.
struct RespValue {
    enum class Kind : std::uint8_t { text, integer, error, nil, list };
    Kind kind = Kind::nil;
    std::string text{};  // of a text or an error; of an integer in decimal
    std::int64_t integer = 0;
    std::vector<RespValue> items{};  // of a list

    bool is_list() const { return kind == Kind::list; }
    bool is_error() const { return kind == Kind::error; }
    // Whether it is an error that begins with `code`.
    bool is_error(std::string_view code) const { return is_error() && text.starts_with(code); }
    // Returns the value of `name` in a flat list of names and values; empty if there is none.
    std::string_view value_of(std::string_view name) const;
};

class RespReader {
  public:
    RespReader();
    ~RespReader();
    RespReader(const RespReader&) = delete;
    RespReader& operator=(const RespReader&) = delete;

    // False, for good: the bytes are not RESP, or more than any reply needs.
    bool feed(std::string_view bytes);
    // The next whole reply, if it has arrived.
    std::optional<RespValue> next();
    bool is_broken() const { return broken_; }

  private:
    struct Hooks;  // hiredis's C callbacks
    struct Free {
        void operator()(redisReader* reader) const;
    };

    std::unique_ptr<redisReader, Free> reader_;
    std::size_t values_ = 0;  // in the reply that is being read
    bool broken_ = false;
};

// The server has a password, and it was not given. To a long command before AUTH the server does
// not say NOAUTH, but `Protocol error: unauthenticated ...`.
bool wants_password(std::string_view error);

// A password is configured, and the server has none.
bool has_no_password(std::string_view error);

// The server is there and not ready: it loads its data, runs a script, has too many clients, or its
// memory is full (Valkey may refuse SCRIPT LOAD then).
bool is_temporary(std::string_view error);

// The server has done nothing, and would have done the same command at another time, or another
// server would do it now: it is a replica, it loads its data, its memory is full, its cluster is
// down, the slot is elsewhere, and so on. Also from a script, which then has written nothing.
bool is_not_ready(std::string_view error);

// The user lacks a right, for this command or for one that a script called.
bool is_denied(std::string_view error);

// The server does not have the command, or one that a script called: `rename-command` took it away,
// or the server is not Redis.
bool lacks_command(std::string_view error);

// The script wrote after it had asked for the time, which Redis takes since 5.0.
bool is_too_old(std::string_view error);

// The password or the rights of the user are wrong: another attempt will end the same way.
bool is_access_error(std::string_view error);

// The server is no master, or no longer. Also from inside a script.
bool is_replica_error(std::string_view error);

// `error` without the arguments of a command that an old server does not know and repeats: one of
// AUTH's is the password.
std::string_view without_arguments(std::string_view error);

// As much of `error` as a log line may have of it.
std::string_view shown_error(std::string_view error);

}  // namespace tidegate::redis
