// How many of the connections that a server lets in, and soon cuts, may be made again at once.
#pragma once

#include <algorithm>
#include <chrono>

#include "net/deadline.hpp"

namespace tidegate::redis {

// So many in a row, and so many a second: a healthy server whose connections an operator or a proxy
// cuts now and then is back at once, and a server that closes every connection is not hammered. One
// thread.
class Reconnects {
  public:
    static constexpr int kMax = 5;

    // Whether the next may be made now; it is counted.
    bool take(SteadyTime now) {
        // The moment before which kMax are spent moves on by a share of a second with each.
        const SteadyTime begun = std::max(spent_until_, now - std::chrono::seconds(1));
        if (begun + kShare > now) return false;
        spent_until_ = begun + kShare;
        return true;
    }

  private:
    static constexpr std::chrono::nanoseconds kShare =
        std::chrono::nanoseconds(std::chrono::seconds(1)) / kMax;

    SteadyTime spent_until_;
};

}  // namespace tidegate::redis
