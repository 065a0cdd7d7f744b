// What each algorithm does with the same arrivals, as CSV: what scripts/plots draws.
//
// Every limit is ten in ten seconds, in a store of its own, and the times of requests are made up:
// so the output is the same each time and on every machine.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <queue>
#include <string_view>
#include <vector>

#include "limit/charge.hpp"
#include "store/memory_store.hpp"

namespace {

using namespace std::chrono_literals;
namespace limit = tidegate::limit;
using limit::Algorithm;
using limit::Micros;
using tidegate::store::MemoryStore;

constexpr std::int64_t kQuota = 10;
constexpr Micros kWindow = 10s;
// How long the answer to a request takes: so long it holds a slot of concurrency.
constexpr Micros kService = 6s;
// A border of the grid, so that windows begin at 0 s, 10 s, ... of the plot.
constexpr Micros kStart{1'700'000'000'000'000};

struct Arrival {
    Micros at;
    bool admitted = false;
    Micros forwarded{0};
};

void add_steadily(std::vector<Arrival>& arrivals, Micros from, Micros step, int count) {
    for (int i = 0; i < count; ++i) arrivals.push_back({from + i * step});
}

// A steady 0.7 a second, a pause, 25 at once around 20 s, a pause, and two a second until the end.
std::vector<Arrival> make_arrivals() {
    std::vector<Arrival> arrivals;
    add_steadily(arrivals, 300ms, 1'430ms, 9);
    add_steadily(arrivals, 19'450ms, 40ms, 25);
    add_steadily(arrivals, 34'800ms, 490ms, 50);
    return arrivals;
}

struct Plot {
    std::string_view name;
    limit::LimitSpec spec;
};

limit::LimitSpec ten(Algorithm algorithm) {
    limit::LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = kQuota;
    if (algorithm != Algorithm::concurrency) spec.duration = kWindow;
    return spec;
}

std::vector<Plot> make_plots() {
    limit::LimitSpec sliding = ten(Algorithm::sliding_window);
    sliding.precision = 1s;  // wider than the default, so that it can be seen
    limit::LimitSpec strict = sliding;
    strict.strict = true;
    limit::LimitSpec first_request = ten(Algorithm::fixed_window);
    first_request.anchor = limit::Anchor::first_request;
    limit::LimitSpec schedule = ten(Algorithm::schedule);
    schedule.horizon = 1min;
    return {{"sliding_window", sliding},
            {"sliding_window-strict", strict},
            {"fixed_window", ten(Algorithm::fixed_window)},
            {"fixed_window-first_request", first_request},
            {"sliding_log", ten(Algorithm::sliding_log)},
            {"gcra", ten(Algorithm::gcra)},
            {"leaky_bucket", ten(Algorithm::leaky_bucket)},
            {"schedule", schedule},
            {"concurrency", ten(Algorithm::concurrency)}};
}

// One limit, one client.
class Gate {
  public:
    explicit Gate(const limit::LimitSpec& spec) {
        policy_.name = "plot";
        policy_.key = {limit::single_key(limit::KeyPart::Kind::ip)};
        policy_.limits = {*limit::make_limit(spec)};
    }

    void ask(Arrival& arrival) {
        release_until(arrival.at);
        charge(arrival, arrival.at);
    }

    // Asks at 0 s for the moment of the arrival.
    void ask_ahead(Arrival& arrival) { charge(arrival, Micros{0}); }

  private:
    struct Held {
        Micros until;
        std::uint64_t request;
        bool operator>(const Held& other) const { return until > other.until; }
    };

    limit::Charge charge_of(std::uint64_t request, Micros moment) const {
        return {.items = {&item_, 1}, .cost = 1, .slot_hold = {1, request}, .moment = moment};
    }

    void charge(Arrival& arrival, Micros now) {
        ++requests_;
        store_.charge(charge_of(requests_, kStart + arrival.at), kStart + now, verdict_);
        arrival.admitted = verdict_.admitted;
        if (!verdict_.admitted) return;
        arrival.forwarded = arrival.at + verdict_.wait;
        held_.push({arrival.forwarded + kService, requests_});
    }

    void release_until(Micros now) {
        for (; !held_.empty() && held_.top().until <= now; held_.pop()) {
            store_.release(charge_of(held_.top().request, Micros{0}));
        }
    }

    limit::Policy policy_;
    limit::ChargeItem item_{&policy_, "ip:203.0.113.7"};
    MemoryStore store_{MemoryStore::Options{}};
    limit::Verdict verdict_;
    std::uint64_t requests_ = 0;
    std::priority_queue<Held, std::vector<Held>, std::greater<>> held_;
};

void run(const Plot& plot) {
    std::vector<Arrival> arrivals = make_arrivals();
    Gate gate(plot.spec);
    if (plot.spec.algorithm == Algorithm::schedule) {
        // In an order that is not that of the moments, each of them once.
        constexpr std::size_t kStep = 31;
        for (std::size_t i = 0; i < arrivals.size(); ++i) {
            gate.ask_ahead(arrivals[(i * kStep) % arrivals.size()]);
        }
    } else {
        for (Arrival& arrival : arrivals) gate.ask(arrival);
    }
    const Micros counts = plot.spec.algorithm == Algorithm::concurrency ? kService : kWindow;
    for (const Arrival& arrival : arrivals) {
        std::printf("%.*s,%lld,", static_cast<int>(plot.name.size()), plot.name.data(),
                    static_cast<long long>(arrival.at.count()));
        if (arrival.admitted) {
            std::printf("admitted,%lld,%lld\n", static_cast<long long>(arrival.forwarded.count()),
                        static_cast<long long>((arrival.forwarded + counts).count()));
        } else {
            std::printf("denied,,\n");
        }
    }
}

}  // namespace

int main() {
    std::puts("limit,arrived_us,outcome,forwarded_us,counts_until_us");
    for (const Plot& plot : make_plots()) run(plot);
}
