// A host as routes are found by it: without port and trailing dot, in lower case, an IPv6 address
// in its one spelling. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace tidegate::routing {

// Holds its own bytes, as names have at most 255 and none is allocated for.
class HostName {
  public:
    // `host` as sent, port and all. Empty when it is none.
    explicit HostName(std::string_view host);

    std::string_view view() const { return {bytes_.data(), size_}; }

    static std::string_view without_port(std::string_view host);

  private:
    std::array<char, 256> bytes_;
    std::size_t size_ = 0;
};

}  // namespace tidegate::routing
