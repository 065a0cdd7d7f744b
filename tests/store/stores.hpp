// The stores under test behind one interface, so that one suite runs over all of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "limit/charge.hpp"
#include "redis_server.hpp"
#include "store/inspector.hpp"
#include "store/memory_store.hpp"

namespace tidegate::test {

using limit::Micros;

// A moment like any other: November 2023, on no round second.
inline constexpr Micros kStart{1'700'000'123'456'789};

class Subject {
  public:
    virtual ~Subject() = default;
    virtual limit::Verdict charge(const limit::Charge& charge, Micros now) = 0;
    virtual void give_back(const limit::Refund& refund, Micros now) = 0;
    virtual void release(const limit::Charge& charge, Micros now) = 0;
};

// One that can keep slots after their requests have ended.
class KeepingSubject : public Subject {
  public:
    virtual void keep(const limit::Charge& charge, Micros time, Micros now) = 0;
    virtual store::Counts count(std::span<const limit::ChargeItem> items, Micros now) = 0;
    virtual std::vector<bool> forget(std::span<const limit::ChargeItem> items) = 0;
};

class MemorySubject : public KeepingSubject {
  public:
    limit::Verdict charge(const limit::Charge& charge, Micros now) override;
    void give_back(const limit::Refund& refund, Micros now) override;
    void release(const limit::Charge& charge, Micros now) override;

    void keep(const limit::Charge& charge, Micros time, Micros now) override;
    store::Counts count(std::span<const limit::ChargeItem> items, Micros now) override {
        return store_.count(items, now);
    }
    std::vector<bool> forget(std::span<const limit::ChargeItem> items) override {
        return store_.forget(items);
    }

  private:
    store::MemoryStore store_{store::MemoryStore::Options{}};
};

// The script in a real Redis, emptied first. Every RedisSubject talks to the same server.
class RedisSubject : public KeepingSubject {
  public:
    RedisSubject();
    limit::Verdict charge(const limit::Charge& charge, Micros now) override;
    void give_back(const limit::Refund& refund, Micros now) override;
    void release(const limit::Charge& charge, Micros now) override;

    void keep(const limit::Charge& charge, Micros time, Micros now) override;
    // Throws if the answer is none.
    store::Counts count(std::span<const limit::ChargeItem> items, Micros now) override;
    std::vector<bool> forget(std::span<const limit::ChargeItem> items) override;

    // At the server's own time.
    limit::Verdict charge_by_server_clock(const limit::Charge& charge);
    // The error that is answered instead of a verdict; "" if there is none.
    std::string error(const limit::Charge& charge, std::optional<Micros> now);
    // Charges all, then reads all answers: verdicts in order.
    struct Asked {
        limit::Charge charge;
        Micros now;
    };
    std::vector<limit::Verdict> pipeline(const std::vector<Asked>& asked);

    RedisConnection& connection() { return connection_; }
    std::string text(const std::vector<std::string>& words);

  private:
    Reply run(const limit::Charge& charge, std::optional<Micros> now);

    RedisConnection connection_;
};

RedisServer& shared_server();

// Runs `body(Subject&)` over every store.
template <class Body>
void over_every_store(Body body) {
    SUBCASE("in process") {
        MemorySubject subject;
        body(subject);
    }
    SUBCASE("in Redis") {
        RedisSubject subject;
        body(subject);
    }
}

struct WindowOptions {
    std::optional<Micros> precision{};
    bool strict = false;
};
limit::Limit sliding(std::int64_t quota, Micros duration, const WindowOptions& options = {});
limit::Limit fixed(std::int64_t quota, Micros duration,
                   limit::Anchor anchor = limit::Anchor::clock);
limit::LimitSpec spec_of(limit::Algorithm algorithm, std::int64_t quota, Micros duration);
// The limit of `spec`, which must be valid.
limit::Limit made(const limit::LimitSpec& spec);
limit::Policy policy(std::string name, std::vector<limit::Limit> limits);

// A charge of one or several identifiers under one policy, with storage for its items.
class Ask {
  public:
    Ask(const limit::Policy& policy, std::initializer_list<std::string_view> identifiers,
        std::int64_t cost = 1);
    Ask(std::vector<limit::ChargeItem> items, std::int64_t cost);
    operator limit::Charge() const { return {items_, cost_}; }  // NOLINT: reads as one

  private:
    std::vector<limit::ChargeItem> items_;
    std::int64_t cost_;
};

}  // namespace tidegate::test
