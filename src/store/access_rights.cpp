#include "store/access_rights.hpp"

namespace tidegate::store {

namespace {

// By who needs them; `tests/integration/redis_access_test.cpp` runs with these and no more.
constexpr std::string_view kCommands[] = {
    // to connect, and to see whether the server is well
    "+script|load +select +ping",
    // the scripts, and what they call
    "+evalsha +time +mget +set +setrange +pttl +pexpire",
    "+zadd +zcount +zrange +zrangebyscore +zrem +zremrangebyscore +zscore",
    // the heartbeat
    "+zcard +expire",
};

// Redis's patterns for keys have characters of their own.
std::string as_pattern(std::string_view key_prefix) {
    std::string pattern;
    for (const char c : key_prefix) {
        if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
        pattern += c;
    }
    return pattern + "*";
}

}  // namespace

std::string access_rights(std::string_view key_prefix) {
    std::string rights = "resetkeys ~" + as_pattern(key_prefix) + " resetchannels -@all";
    for (const std::string_view commands : kCommands) {
        rights += ' ';
        rights += commands;
    }
    return rights;
}

}  // namespace tidegate::store
