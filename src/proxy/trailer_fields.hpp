// Fields that decide what becomes of a request. The proxy reads them in the head only and strikes
// them out of trailers (RFC 9110 section 6.5.1): a server that takes trailers for fields would act
// upon what no limit has counted. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"

namespace tidegate::proxy {

class TrailerFields {
  public:
    explicit TrailerFields(const config::Config& config);

    // Whether a trailer of this name could pass for a field that directs how a request is handled,
    // chooses its route, its cost or its moment, overrides its method or target, or is counted by a
    // policy.
    bool are_refused_as(std::string_view name) const;

  private:
    std::vector<std::string> names_;
};

}  // namespace tidegate::proxy
