// Fetches the keys that tokens are checked with from their URLs, again and again, while requests
// run, and at once when a request misses a key. Whatever goes wrong, keys that were fetched once
// stay.
//
// The main thread's; threads that check tokens see its work through their KeySource alone.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/http_client.hpp"
#include "app/metrics.hpp"
#include "base/result.hpp"
#include "config/config.hpp"
#include "identity/key_source.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"

namespace tidegate::app {

// Which failures of something that Tidegate tries again and again become a warning: the first one,
// each one whose reason differs from that of the last warning, and one an hour while it goes on.
//
// Not thread-safe. Time is an argument.
class FailureNotice {
  public:
    static constexpr std::chrono::hours kEvery{1};

    // Notes a failure. Returns whether it becomes a warning.
    bool is_due(const std::string& reason, SteadyTime now) {
        if (warned_ == reason && now < due_) return false;
        warned_ = reason;
        due_ = now + kEvery;
        return true;
    }

    // It went well: the next failure is a first one.
    void recovered() { warned_.reset(); }

  private:
    std::optional<std::string> warned_;  // the reason of the last warning, since it went well
    SteadyTime due_{};                   // of the next one with that reason
};

// When something that is kept fresh is fetched: every so often, sooner after a failure, at once
// when it is wanted, but not too often. Pure: the caller supplies the time.
struct FetchTiming {
    // From one success to the next fetch; up to a tenth of it less, so that proxies which started
    // together do not go on asking together.
    std::chrono::milliseconds every{300'000};
    // After a failure, then twice as long after each further one; at random from half of it on.
    // Once a fetch has succeeded, also not before `wanted_every`.
    std::chrono::milliseconds retry{1'000};
    std::chrono::milliseconds retry_max{60'000};
    // From the beginning of a fetch to that of one on demand.
    std::chrono::milliseconds wanted_every{5'000};
};

class FetchSchedule {
  public:
    // The first fetch is due at once.
    explicit FetchSchedule(const FetchTiming& timing) : timing_(timing) {}

    // When the next fetch begins, if it is `wanted` or if not. Meant between fetches.
    SteadyTime due(bool wanted) const;

    // A fetch begins, and then ends in one of two ways. `jitter` is a random number from 0 to 1.
    void begin(SteadyTime now);
    void succeeded(SteadyTime now, double jitter);
    void failed(SteadyTime now, double jitter);

  private:
    FetchTiming timing_;
    SteadyTime due_ = SteadyTime::min();
    SteadyTime wanted_from_ = SteadyTime::min();
    std::chrono::milliseconds retry_{0};  // 0: the last one did not fail
    bool has_succeeded_ = false;
};

// Fetches a key set from where tokens have their keys: from its URL, or from the URL that the
// metadata of an issuer name.

// The text of the key set, as it came, and the certificate of the server that sent it. Or why there
// is none: a clause for an operator. The metadata of an issuer are fetched anew each time, within
// the same time. Those of an https:// issuer must name an https:// URL. Throws as https_get() does.
Task<Result<HttpsBody, std::string>> fetch_key_set(Executor executor,
                                                   identity::KeyLocation location,
                                                   HttpsBounds bounds);

// The location for logs and metrics: without the query, which may hold a secret.
std::string shown(const identity::KeyLocation& location);

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
