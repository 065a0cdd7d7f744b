// What a server answers, made fit to be shown. Pure.
#pragma once

#include <string>
#include <string_view>

namespace tidegate::doctor {

// `text` with `***` for `secret`, wherever it occurs; nothing is hidden when that is empty.
std::string without_secret(std::string_view text, std::string_view secret);

// An error in quotes, without the password: old servers repeat the arguments of a command that they
// do not know, and others any words they like; one of AUTH's arguments is the password.
std::string shown_error(std::string_view error, std::string_view password);

}  // namespace tidegate::doctor
