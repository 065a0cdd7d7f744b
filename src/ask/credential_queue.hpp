// Requests of one worker that bring the same new credential at once stand in line: the first has it
// checked, the others find what became of it. So a client that opens fifty connections after a
// restart is no fifty guesses. One thread.
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

    // A request's place in the line of its credential. Ends when it goes; then the next is woken.
    class Place {
      public:
        // Both outlive it.
        Place(CredentialQueue& line, const Key& key, Wakeup& sleeper)
            : lines_(line.lines_), key_(key), sleeper_(sleeper) {
            lines_[key_].push_back(this);
        }
        ~Place() {
            const auto line = lines_.find(key_);
            auto& places = line->second;
            const bool was_first = places.front() == this;
            places.erase(std::find(places.begin(), places.end(), this));
            if (places.empty()) {
                lines_.erase(line);
            } else if (was_first) {
                places.front()->sleeper_.wake_later();
            }
        }
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;

        bool is_first() const { return lines_.at(key_).front() == this; }

      private:
        friend class CredentialQueue;
        std::unordered_map<Key, std::deque<Place*>, identity::KeyedDigestHash>& lines_;
        Key key_;
        Wakeup& sleeper_;
    };

  private:
    std::unordered_map<Key, std::deque<Place*>, identity::KeyedDigestHash> lines_;
};

}  // namespace tidegate::ask
