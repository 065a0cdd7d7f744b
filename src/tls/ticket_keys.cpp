#include "tls/ticket_keys.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>

#include <openssl/crypto.h>
#include <openssl/rand.h>

namespace tidegate {

namespace {

bool fill_with_chance(TicketKey& key) {
    return RAND_bytes(key.name.data(), static_cast<int>(key.name.size())) == 1 &&
           RAND_priv_bytes(key.mac.data(), static_cast<int>(key.mac.size())) == 1 &&
           RAND_priv_bytes(key.cipher.data(), static_cast<int>(key.cipher.size())) == 1;
}

TicketKey made_by_chance() {
    TicketKey key;
    if (!fill_with_chance(key)) {
        throw std::runtime_error("the system gives no random bytes for the keys of TLS tickets");
    }
    return key;
}

TicketKey parsed(const std::string& text) {
    assert(text.size() == TicketKeys::kKeyBytes);
    TicketKey key;
    const char* from = text.data();
    std::memcpy(key.name.data(), from, key.name.size());
    from += key.name.size();
    std::memcpy(key.mac.data(), from, key.mac.size());
    from += key.mac.size();
    std::memcpy(key.cipher.data(), from, key.cipher.size());
    return key;
}

}  // namespace

TicketKey::~TicketKey() {
    OPENSSL_cleanse(mac.data(), mac.size());
    OPENSSL_cleanse(cipher.data(), cipher.size());
}

const TicketKey* TicketKeySet::find(const unsigned char* name) const {
    const auto found = std::find_if(keys.begin(), keys.end(), [name](const TicketKey& key) {
        return std::equal(key.name.begin(), key.name.end(), name);
    });
    return found == keys.end() ? nullptr : &*found;
}

TicketKeys::TicketKeys(const std::vector<std::string>& configured, Time now) {
    use(configured, now);
}

void TicketKeys::use(const std::vector<std::string>& configured, Time now) {
    const std::lock_guard lock(mutex_);
    std::vector<TicketKey> keys;
    keys.reserve(configured.size());
    for (const std::string& text : configured) keys.push_back(parsed(text));
    if (keys.empty()) {
        if (!made_.empty()) return;
        keys.push_back(made_by_chance());
        made_ = {now};
    } else {
        made_.clear();
        if (keys_ != nullptr && keys_->keys == keys) return;
    }
    publish(std::move(keys));
}

void TicketKeys::rotate(Time now) {
    const std::lock_guard lock(mutex_);
    if (made_.empty() || now - made_.front() < kNewEvery) return;
    TicketKey newest;
    // If the system gives no random bytes, the keys stay until the next call.
    if (!fill_with_chance(newest)) return;
    std::vector<TicketKey> keys{newest};
    std::vector<Time> made{now};
    for (std::size_t i = 0; i < made_.size(); ++i) {
        // Keys go by age: the process may have slept for long.
        if (now - made_[i] >= (1 + kOldPeriods) * kNewEvery) break;
        keys.push_back(keys_->keys[i]);
        made.push_back(made_[i]);
    }
    made_ = std::move(made);
    publish(std::move(keys));
}

std::vector<std::pair<TicketKey, TicketKeys::Time>> TicketKeys::made() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::pair<TicketKey, Time>> all;
    all.reserve(made_.size());
    for (std::size_t i = 0; i < made_.size(); ++i) all.emplace_back(keys_->keys[i], made_[i]);
    return all;
}

void TicketKeys::adopt(const std::vector<std::pair<TicketKey, Time>>& made) {
    const std::lock_guard lock(mutex_);
    if (made_.empty() || made.empty()) return;
    std::vector<TicketKey> keys;
    keys.reserve(made.size());
    made_.clear();
    for (const auto& [key, time] : made) {
        keys.push_back(key);
        made_.push_back(time);
    }
    publish(std::move(keys));
}

std::shared_ptr<const TicketKeySet> TicketKeys::keys() const {
    const std::lock_guard lock(mutex_);
    return keys_;
}

void TicketKeys::publish(std::vector<TicketKey> keys) {
    auto next = std::make_shared<TicketKeySet>();
    next->version = version_.load(std::memory_order_relaxed) + 1;
    next->keys = std::move(keys);
    keys_ = std::move(next);
    version_.store(keys_->version, std::memory_order_release);
}

}  // namespace tidegate
