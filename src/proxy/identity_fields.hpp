// Header fields that name a request's client or user: those that trusted peers may set, and those
// that the proxy sets for the upstream. Immutable; any thread.
#pragma once

#include <cstdint>
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
    // Whether the proxy believes it of a trusted peer: the same name, but for case.
    bool are_believed_as(std::string_view name) const;
    // Whether it could pass for one that holds a credential. The proxy checks none in trailers, so
    // such a trailer goes no further (RFC 9110 section 6.5.1).
    bool hold_credentials_in(std::string_view name) const;

  private:
    std::vector<std::string> believed_;  // of trusted peers; the proxy passes them on
    std::vector<std::string> ours_;      // only the proxy sets them
    std::uint64_t lengths_ = 0;  // a bit for each length of theirs: most fields have another
    std::vector<std::string> credentials_;
};

}  // namespace tidegate::proxy
