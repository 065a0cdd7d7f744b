// What the errors mean that Redis and its sentinels answer with. Pure.
#pragma once

#include <string_view>

namespace tidegate::redis {

// The server has a password, and it was not given. To a long command before AUTH the server does
// not say NOAUTH, but `Protocol error: unauthenticated ...`.
bool wants_password(std::string_view error);

// A password is configured, and the server has none.
bool has_no_password(std::string_view error);

// The server is there and not ready: it loads its data, runs a script, has too many clients, or its
// memory is full (Valkey may refuse SCRIPT LOAD then).
bool is_temporary(std::string_view error);

// The user lacks a right, for this command or for one that a script called.
bool is_denied(std::string_view error);

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
