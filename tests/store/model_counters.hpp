// The counters of the model, one for each algorithm.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "store/model.hpp"

namespace tidegate::test {

// sliding_window, fixed_window, sliding_log: all that was taken and when.
class WindowCounter : public Counter {
  public:
    bool passes(const limit::Limit& limit, const Question& question) const override;
    std::int64_t retry(const limit::Limit& limit, const Question& question) const override;
    limit::LimitVerdict verdict_of(const limit::Limit& limit,
                                   const Question& question) const override;
    void take(const limit::Limit& limit, const Question& question) override;
    void give_back(const limit::Limit& limit, const Question& question, std::int64_t at) override;

  private:
    struct Taken {
        std::int64_t at;  // as the counter saw it; of first_request, when the window opened
        std::int64_t units;
    };
    std::int64_t units_at(const limit::Limit& limit, std::int64_t moment) const;
    std::int64_t time_of(const Question& question) const;

    std::vector<Taken> taken_;
    std::int64_t newest_ = 0;
};

// gcra and leaky_bucket: tat as a fraction, numerator over the quota it was counted with.
class BucketCounter : public Counter {
  public:
    bool passes(const limit::Limit& limit, const Question& question) const override;
    std::int64_t retry(const limit::Limit& limit, const Question& question) const override;
    limit::LimitVerdict verdict_of(const limit::Limit& limit,
                                   const Question& question) const override;
    void take(const limit::Limit& limit, const Question& question) override;
    void give_back(const limit::Limit& limit, const Question& question, std::int64_t at) override;
    std::int64_t wait(const limit::Limit& limit, const Question& question) const override;

  private:
    __extension__ using Wide = __int128;
    Wide tat_over(std::int64_t quota) const;
    Wide backlog(const limit::Limit& limit, std::int64_t now) const;
    bool admits(const limit::Limit& limit, std::int64_t now, std::int64_t cost) const;
    std::int64_t one_by_one(const limit::Limit& limit, std::int64_t now) const;

    Wide tat_ = 0;
    std::int64_t quota_ = 1;
    std::multiset<std::int64_t> line_;  // when all came
    std::int64_t last_ = 0;             // of leaky_bucket: the last in line, 0: unknown
};

class ScheduleCounter : public Counter {
  public:
    bool passes(const limit::Limit& limit, const Question& question) const override;
    std::int64_t retry(const limit::Limit& limit, const Question& question) const override;
    limit::LimitVerdict verdict_of(const limit::Limit& limit,
                                   const Question& question) const override;
    void take(const limit::Limit& limit, const Question& question) override;
    void give_back(const limit::Limit& limit, const Question& question, std::int64_t at) override;

    static bool concerned(const limit::Limit& limit, const limit::Charge& charge, std::int64_t now);
    std::int64_t moment_of(const Question& question) const;
    // The most that any window around `moment` holds.
    std::int64_t most_around(const limit::Limit& limit, std::int64_t moment) const;
    const std::vector<std::int64_t>& moments() const { return moments_; }

  private:
    std::vector<std::int64_t> moments_;
    std::int64_t newest_ = 0;
};

class SlotCounter : public Counter {
  public:
    bool passes(const limit::Limit& limit, const Question& question) const override;
    std::int64_t retry(const limit::Limit& limit, const Question& question) const override;
    limit::LimitVerdict verdict_of(const limit::Limit& limit,
                                   const Question& question) const override;
    void take(const limit::Limit& limit, const Question& question) override;
    void give_back(const limit::Limit& limit, const Question& question, std::int64_t at) override;
    void release(const limit::SlotHold& lease) override { held_.erase(lease); }

  private:
    // Slots that are held, but for this request's own, and whether it has one.
    std::pair<std::int64_t, bool> standing(const Question& question) const;

    std::map<limit::SlotHold, std::int64_t> held_;  // until when
};

std::unique_ptr<Counter> make_counter(limit::Algorithm algorithm);

}  // namespace tidegate::test
