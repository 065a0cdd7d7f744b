#include "identity/key_source.hpp"

namespace tidegate::identity {

void KeySource::put(std::shared_ptr<const JwkSet> keys) {
    const std::lock_guard lock(mutex_);
    if (keys_ && keys && *keys_ == *keys) return;
    keys_ = std::move(keys);
    version_.store(next_version(), std::memory_order_release);
}

void KeySource::adopt(const KeySource& other) {
    if (this == &other) return;
    const std::scoped_lock lock(mutex_, other.mutex_);
    keys_ = other.keys_;
    version_.store(other.version_.load(std::memory_order_acquire), std::memory_order_release);
}

std::uint64_t KeySource::next_version() {
    static std::atomic<std::uint64_t> latest{0};
    return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace tidegate::identity
