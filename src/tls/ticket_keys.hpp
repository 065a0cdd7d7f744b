// The keys that session tickets are encrypted with (RFC 5077 section 4): of the process's own
// making, new every 8 hours, or those of the configuration, which replicas share.
//
// A process has one TicketKeys for each listener that speaks TLS, and keeps it over a reload, so
// that clients resume their sessions. Any thread; each reads through a TicketKeyReader of its own,
// so that no handshake waits for another thread's.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tidegate {

// Its destructor wipes the memory.
struct TicketKey {
    std::array<unsigned char, 16> name{};    // in the ticket, in the clear
    std::array<unsigned char, 32> mac{};     // of HMAC-SHA256
    std::array<unsigned char, 32> cipher{};  // of AES-256-CBC

    TicketKey() = default;
    TicketKey(const TicketKey&) = default;
    TicketKey& operator=(const TicketKey&) = default;
    ~TicketKey();
    bool operator==(const TicketKey&) const = default;
};

// Immutable.
struct TicketKeySet {
    // The key of the ticket that begins with `name`; null: it is not known, or no more.
    const TicketKey* find(const unsigned char* name) const;

    std::uint64_t version = 0;
    std::vector<TicketKey> keys;  // at least one; the first encrypts
};

class TicketKeys {
  public:
    using Time = std::chrono::steady_clock::time_point;

    // The name, the key of the MAC and that of the cipher: as nginx writes them, too.
    static constexpr std::size_t kKeyBytes = 80;
    static constexpr std::size_t kKeysMax = 4;
    static constexpr std::chrono::hours kNewEvery{8};
    // For so many periods, a key that no longer encrypts still decrypts.
    static constexpr int kOldPeriods = 2;

    // `configured` as use() takes it. Throws std::runtime_error when the system gives no random
    // bytes.
    TicketKeys(const std::vector<std::string>& configured, Time now);

    // Keys of kKeyBytes each, the first of which encrypts; none: the process makes its own, or
    // keeps those that it has made.
    void use(const std::vector<std::string>& configured, Time now);
    // Makes a new key when it is time, and forgets the oldest. A timer calls it: a key lives on
    // until then.
    void rotate(Time now);

    // The keys that the process has made, the newest first; none when they are configured. For the
    // process that takes this one's place, whose clock is the same.
    std::vector<std::pair<TicketKey, Time>> made() const;
    // Goes on with the keys of another process, as its made() gave them, in place of its own. Does
    // nothing where the keys are configured, or `made` is empty.
    void adopt(const std::vector<std::pair<TicketKey, Time>>& made);

    // Changes whenever keys() does.
    std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
    std::shared_ptr<const TicketKeySet> keys() const;

  private:
    void publish(std::vector<TicketKey> keys);  // under mutex_

    mutable std::mutex mutex_;  // of all below but the version
    std::shared_ptr<const TicketKeySet> keys_;
    std::vector<Time> made_;  // when each of keys_ was; empty: they are configured
    std::atomic<std::uint64_t> version_{0};
};

// Each thread has a reader, which looks at the keys again only if their version has changed.
class TicketKeyReader {
  public:
    explicit TicketKeyReader(std::shared_ptr<const TicketKeys> keys)
        : keys_(std::move(keys)), seen_(keys_->keys()) {}

    // The newest, until the next call.
    const TicketKeySet& read() {
        if (seen_->version != keys_->version()) seen_ = keys_->keys();
        return *seen_;
    }

  private:
    std::shared_ptr<const TicketKeys> keys_;
    std::shared_ptr<const TicketKeySet> seen_;
};

}  // namespace tidegate
