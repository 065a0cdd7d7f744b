// Fetches the keys that tokens are checked with from their URLs, again and again, while requests
// run, and at once when a request misses a key. Whatever goes wrong, keys that were fetched once
// stay.
//
// The main thread's; threads that check tokens see its work through their KeySource alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "app/fetch_schedule.hpp"
#include "app/https_get.hpp"
#include "app/metrics.hpp"
#include "config/config.hpp"
#include "identity/key_source.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

class JwksFetcher {
  public:
    using Sources = std::vector<std::shared_ptr<identity::KeySource>>;

    struct Options {
        FetchTiming timing{};
        HttpsBounds bounds{};
    };

    explicit JwksFetcher(Executor executor) : JwksFetcher(executor, Options{}) {}
    JwksFetcher(Executor executor, const Options& options);
    // A fetch under way ends by itself without effect, or with the event loop.
    ~JwksFetcher();
    JwksFetcher(const JwksFetcher&) = delete;
    JwksFetcher& operator=(const JwksFetcher&) = delete;

    // Begins to fetch from URLs of `sources` that are new, and returns when all have been tried
    // once: at the latest when a transfer's time is over. The sources themselves are given nothing
    // before use(); places that use() does not name then are forgotten. Fixed sources have none.
    Task<> prepare(Sources sources);

    // `sources` are those in force from now on, and all that are. Each has at once what is known of
    // its place, and from then on what is fetched; more than one may have the same place. Sources
    // of before, which requests may still use, go on as well while their place does.
    void use(const Sources& sources);

    // For /metrics.
    void fill_in(Gauges& gauges) const;

  private:
    struct Impl;

    std::shared_ptr<Impl> impl_;
};

// Where the `jwt` methods of a configuration have their keys from.
JwksFetcher::Sources key_sources(const config::Config& config);

}  // namespace tidegate::app
