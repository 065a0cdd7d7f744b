// What Tidegate's user must be allowed in Redis.
#pragma once

#include <string>
#include <string_view>

namespace tidegate::store {

// The rights as ACL SETUSER takes them, without a name and a password: every command that is sent
// or called by a script, on keys with this prefix, and nothing else.
std::string access_rights(std::string_view key_prefix);

}  // namespace tidegate::store
