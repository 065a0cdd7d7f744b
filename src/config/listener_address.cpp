// `systemd:NAME` in `listen`.
#include <algorithm>
#include <cstddef>

#include "base/utf8.hpp"
#include "config/address.hpp"
#include "config/error_message.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kSocketNameBytesMax = 255;  // systemd.socket(5), FileDescriptorName=

}  // namespace

Result<Address, std::string> parse_listener(std::string_view text) {
    if (!text.starts_with(kInherited)) return parse_listen_address(text);
    const std::string_view name = text.substr(kInherited.size());
    if (name.empty()) {
        return ErrorMessage{
            "`systemd:` needs the name of a socket, `FileDescriptorName=` of its .socket unit: "
            "`systemd:web`"};
    }
    const bool is_name = name.size() <= kSocketNameBytesMax &&
                         std::all_of(name.begin(), name.end(),
                                     [](char c) { return c > ' ' && c != '\x7f' && c != ':'; });
    if (!is_name) {
        return ErrorMessage{quote(text) +
                            " is not the name of a socket: at most 255 bytes, without `:`, spaces "
                            "and control characters"};
    }
    Address address;
    address.inherited = name;
    return address;
}

}  // namespace tidegate::config
