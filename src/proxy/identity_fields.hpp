// Header fields that say who is asking: those that trusted peers may set, and those in which the
// upstream is told. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace tidegate::proxy {

class IdentityFields {
  public:
    explicit IdentityFields(const config::Config& config);

    // Whether a field of this name, ignoring case and with `_` and `-` alike, could pass for one of
    // them.
    bool include(std::string_view name) const;
    // Whether it is one that a trusted peer is believed in, in its very spelling but for case.
    bool are_believed_as(std::string_view name) const;
    // Whether it could pass for one that holds a credential: in trailers, where nobody looks at
    // it, it goes no further (RFC 9110 section 6.5.1).
    bool hold_credentials_in(std::string_view name) const;

  private:
    std::vector<std::string> believed_;  // of trusted peers; the proxy passes them on
    std::vector<std::string> ours_;      // nobody's but ours
    std::vector<std::string> credentials_{"authorization", "proxy-authorization", "cookie"};
};

}  // namespace tidegate::proxy
