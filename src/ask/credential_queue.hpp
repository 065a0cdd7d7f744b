// Requests of one worker with the same new credential wait for each other: the first one has the
// credential checked, the others use the result. So a client that opens fifty connections after a
// restart does not make fifty guesses. One thread.
#pragma once

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "identity/credential_cache.hpp"
#include "net/wakeup.hpp"

namespace tidegate::ask {

class CredentialQueue {
  public:
    using Key = identity::CredentialCache::Key;

    // A request's place in the queue of its credential. Its end wakes the next one.
    class Place {
      public:
        // `queue` and `sleeper` outlive it.
        Place(CredentialQueue& queue, const Key& key, Wakeup& sleeper)
            : queues_(queue.queues_), key_(key), sleeper_(sleeper) {
            queues_[key_].push_back(this);
        }
        ~Place() {
            const auto queue = queues_.find(key_);
            auto& places = queue->second;
            const bool was_first = places.front() == this;
            places.erase(std::find(places.begin(), places.end(), this));
            if (places.empty()) {
                queues_.erase(queue);
            } else if (was_first) {
                places.front()->sleeper_.wake_later();
            }
        }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

        bool is_first() const { return queues_.at(key_).front() == this; }

      private:
        std::unordered_map<Key, std::deque<Place*>, identity::KeyedDigestHash>& queues_;
        Key key_;
        Wakeup& sleeper_;
    };

  private:
    std::unordered_map<Key, std::deque<Place*>, identity::KeyedDigestHash> queues_;
};

}  // namespace tidegate::ask
