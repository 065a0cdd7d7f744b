// What limits.md says, as plainly as it can be written: lists of all that was admitted, and sums
// over them. Slow, and it shares no code with the limiters that it judges.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "limit/charge.hpp"

namespace tidegate::test {

// A request, and its time.
struct Question {
    const limit::Charge& charge;
    std::int64_t now;
    bool slots_expire = false;
};

// One limit counting one identifier. One kind for each algorithm.
class Counter {
  public:
    virtual ~Counter() = default;
    virtual bool passes(const limit::Limit& limit, const Question& question) const = 0;
    // For a question that does not pass: microseconds until it does, or kNever's count.
    virtual std::int64_t retry(const limit::Limit& limit, const Question& question) const = 0;
    virtual limit::LimitVerdict verdict_of(const limit::Limit& limit,
                                           const Question& question) const = 0;
    virtual void take(const limit::Limit& limit, const Question& question) = 0;
    virtual void give_back(const limit::Limit& limit, const Question& question,
                           std::int64_t at) = 0;

    // How long an admission is held; of leaky_bucket, before it takes.
    virtual std::int64_t wait(const limit::Limit&, const Question&) const { return 0; }
    virtual void release(const limit::SlotHold&) {}
};

class Model {
  public:
    // A store that outlives those who hold slots in it gives them up when nobody renews them.
    explicit Model(bool slots_expire = false) : slots_expire_(slots_expire) {}

    limit::Verdict charge(const limit::Charge& charge, limit::Micros now);
    void give_back(const limit::Refund& refund, limit::Micros now);
    void release(const limit::Charge& charge);

  private:
    struct Part {
        const limit::Limit* limit;
        Counter* counter;
        std::size_t item;
        const limit::Policy* policy;
        limit::Charge charge;  // at the cost of the item
        bool shadow;           // and no candidate
        bool enforced;
        bool passes;
        bool takes;
    };
    std::vector<Part> parts_of(const limit::Charge& charge);
    static bool is_admitted_by_candidate(const std::vector<Part>& parts,
                                         const limit::Policy& candidate);
    bool slots_expire_;
    static limit::Micros earliest(const std::vector<Part>& parts, std::int64_t now);

    std::map<std::tuple<std::string, std::string, std::uint32_t>, std::unique_ptr<Counter>>
        counters_;
};

}  // namespace tidegate::test
