#include "redis/error_reply.hpp"

namespace tidegate::redis {

namespace {

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

}  // namespace

bool wants_password(std::string_view error) {
    return error.starts_with("NOAUTH") || contains(error, "unauthenticated");
}

bool has_no_password(std::string_view error) {
    return contains(error, "without any password") || contains(error, "no password is set");
}

bool is_temporary(std::string_view error) {
    return error.starts_with("LOADING") || error.starts_with("BUSY") ||
           error.starts_with("MASTERDOWN") || error.starts_with("OOM") ||
           error.starts_with("ERR max number of clients");
}

// Redis 7.0 words it otherwise where a script called the command.
bool is_denied(std::string_view error) {
    return error.starts_with("NOPERM") || contains(error, "executing the script can't") ||
           contains(error, "ACL failure in script");
}

bool is_access_error(std::string_view error) {
    return error.starts_with("NOAUTH") || error.starts_with("WRONGPASS") ||
           error.starts_with("NOPERM") || error.starts_with("ERR AUTH") ||
           error.starts_with("ERR invalid password") || contains(error, "without any password");
}

// Before Redis 7 the error of a script is wrapped in the place where it happened.
bool is_replica_error(std::string_view error) {
    return error.starts_with("READONLY") || error.starts_with("MASTERDOWN") ||
           contains(error, "-READONLY ") || contains(error, "-MASTERDOWN ");
}

std::string_view without_arguments(std::string_view error) {
    return error.substr(0, error.find(", with args"));
}

std::string_view shown_error(std::string_view error) {
    constexpr std::size_t kShownMax = 200;
    return without_arguments(error).substr(0, kShownMax);
}

}  // namespace tidegate::redis
