// A request's wait for keys of tokens that are being fetched. The fetcher runs on another thread;
// the wait ends on the request's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "identity/key_source.hpp"
#include "net/asio.hpp"
#include "net/wakeup.hpp"

namespace tidegate::ask {

// Belongs to a coroutine and to the thread of `executor`; must be destroyed before that event loop.
class KeyWait {
  public:
    // Wakes `wakeup` when a fetch of `source` has ended that had not ended in `seen`, at the latest
    // at `until`. `client` stands for the client, whose waits are counted. Both outlive this.
    KeyWait(Executor executor, Wakeup& wakeup, identity::KeySource& source,
            const identity::KeyFetches& seen, std::uint64_t client,
            std::chrono::steady_clock::time_point until);
    ~KeyWait();
    KeyWait(const KeyWait&) = delete;
    KeyWait& operator=(const KeyWait&) = delete;

    // Too many requests wait: this one does not.
    bool is_refused() const { return is_refused_; }
    // There is nothing to wait for any more.
    bool is_over() const;

  private:
    struct State;

    identity::KeySource& source_;
    Timer timer_;
    std::shared_ptr<State> state_;
    std::uint64_t number_ = 0;  // 0: the source does not wake this
    bool is_refused_ = false;
};

}  // namespace tidegate::ask
