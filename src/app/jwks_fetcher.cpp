#include "app/jwks_fetcher.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "config/address.hpp"
#include "config/error_message.hpp"
#include "identity/jwk_set.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

using identity::JwkSet;
using identity::KeySource;
using telemetry::Level;
using telemetry::log;
using Keys = Result<std::shared_ptr<const JwkSet>, std::string>;

constexpr std::chrono::milliseconds kPoll{10};
// Of what is odd in a set; all of it could be a hundred lines.
constexpr std::size_t kWarningsMax = 5;

SteadyTime now() {
    return std::chrono::steady_clock::now();
}

// A URL, and what is known of it.
struct Place {
    Place(const std::string& from, const FetchTiming& timing)
        : latest(from),
          url(config::parse_https_url(from)),
          shown(url ? url->shown() : "(not an https URL)"),
          schedule(timing) {}

    KeySource latest;  // all others adopt from this one
    Result<config::HttpsUrl, std::string> url;
    std::string shown;
    FetchSchedule schedule;
    JwksFetcher::Sources sources;  // in force
    std::optional<SteadyTime> fetched_at;
    bool tried = false;
    bool failing = false;
    bool wanted = false;
    bool left = false;  // no source uses it any more
};

std::string in_words(std::size_t keys) {
    return std::to_string(keys) + (keys == 1 ? " key" : " keys");
}

// `place` stays alive: its own coroutine waits for this.
Task<Keys> keys_of(Executor executor, const Place& place, const HttpsBounds& bounds) {
    try {
        if (!place.url) co_return config::ErrorMessage{place.url.error()};
        const auto answer = co_await https_get(executor, *place.url, bounds, kAcceptKeys);
        if (!answer) co_return config::ErrorMessage{answer.error()};
        Keys keys = JwkSet::parse(answer->text, JwkSet::Origin::fetched);
        if (keys && (*keys)->size() == 0)
            co_return config::ErrorMessage{"it has no key that Tidegate can use"};
        co_return keys;
    } catch (const std::exception& error) {
        co_return config::ErrorMessage{error.what()};
    }
}

// Gives sources the latest keys, and whether a later fetch may bring more.
void tell_sources(Place& place) {
    const bool may_be_wanted = place.schedule.may_be_wanted(now());
    for (const auto& source : place.sources) {
        source->adopt(place.latest);
        source->allow_wanting(may_be_wanted);
    }
}

// Looks whether it is time to fetch.
bool is_due(Place& place) {
    const SteadyTime time = now();
    for (const auto& source : place.sources) {
        if (source->take_wanted()) place.wanted = true;
        source->allow_wanting(place.schedule.may_be_wanted(time));
    }
    return place.schedule.is_due(time, place.wanted);
}

void log_success(const Place& place, std::uint64_t version_before) {
    const JwkSet& keys = *place.latest.keys();
    if (version_before == place.latest.version()) {
        if (place.failing) log(Level::info, "jwks {}: fetching works again", place.shown);
        return;
    }
    log(Level::info, "jwks {}: {}{}", place.shown,
        version_before == 0 ? "" : "the keys have changed: ", in_words(keys.size()));
    const auto& warnings = keys.warnings();
    const std::size_t told = std::min(warnings.size(), kWarningsMax);
    for (std::size_t i = 0; i < told; ++i) {
        log(Level::warn, "jwks {}: {}", place.shown, warnings[i]);
    }
    if (told < warnings.size()) {
        log(Level::warn, "jwks {}: and {} more warnings", place.shown, warnings.size() - told);
    }
}

void log_failure(const Place& place, const std::string& reason) {
    if (place.failing) {
        log(Level::debug, "jwks {}: {}", place.shown, reason);
    } else if (place.fetched_at) {
        log(Level::warn, "jwks {}: cannot be fetched, so Tidegate keeps the keys it has: {}",
            place.shown, reason);
    } else {
        log(Level::warn, "jwks {}: cannot be fetched, so Tidegate cannot check its tokens: {}",
            place.shown, reason);
    }
}

}  // namespace

struct JwksFetcher::Impl : std::enable_shared_from_this<Impl> {
    Impl(Executor on, const Options& how)
        : executor(on), options(how), random(std::random_device{}()) {}

    // Begins to fetch from there if it is new.
    Place& place_of(const std::string& url);
    void forget_unused();
    void take(Place& place, Keys keys);
    double luck() { return std::uniform_real_distribution<>(0, 1)(random); }

    // Takes its owners by value: they live as long as it does.
    static Task<> keep_fresh(std::shared_ptr<Impl> self, std::shared_ptr<Place> place);

    Executor executor;
    Options options;
    std::minstd_rand random;
    std::map<std::string, std::shared_ptr<Place>> places;  // by URL
    std::uint64_t fetches_ok = 0;
    std::uint64_t fetches_failed = 0;
};

JwksFetcher::JwksFetcher(Executor executor, const Options& options)
    : impl_(std::make_shared<Impl>(executor, options)) {}

JwksFetcher::~JwksFetcher() {
    use({});
}

Task<> JwksFetcher::prepare(Sources sources) {
    std::vector<std::shared_ptr<Place>> wanted;
    for (const auto& source : sources) {
        if (source->url().empty()) continue;
        impl_->place_of(source->url());
        wanted.push_back(impl_->places.at(source->url()));
    }
    Timer pause(impl_->executor);
    const auto settled = [](const auto& place) { return place->tried || place->left; };
    while (!std::all_of(wanted.begin(), wanted.end(), settled)) {
        pause.expires_after(kPoll);
        co_await pause.async_wait(as_values);
    }
}

void JwksFetcher::use(const Sources& sources) {
    for (const auto& [url, place] : impl_->places) place->sources.clear();
    for (const auto& source : sources) {
        if (!source->url().empty()) impl_->place_of(source->url()).sources.push_back(source);
    }
    impl_->forget_unused();
    for (const auto& [url, place] : impl_->places) tell_sources(*place);
}

void JwksFetcher::fill_in(telemetry::Metrics::Gauges& gauges) const {
    gauges.jwks_fetches_ok = impl_->fetches_ok;
    gauges.jwks_fetches_failed = impl_->fetches_failed;
    gauges.jwks.clear();
    std::map<std::string, int> seen;
    for (const auto& [url, place] : impl_->places) {
        // Two that differ only in what is not shown must not share one name.
        const int number = ++seen[place->shown];
        telemetry::Metrics::Gauges::KeyPlace told;
        told.url = number == 1 ? place->shown : fmt::format("{}#{}", place->shown, number);
        if (const auto keys = place->latest.keys()) told.keys = keys->size();
        if (place->fetched_at) {
            told.age = std::chrono::duration_cast<std::chrono::seconds>(now() - *place->fetched_at);
        }
        gauges.jwks.push_back(std::move(told));
    }
}

Place& JwksFetcher::Impl::place_of(const std::string& url) {
    std::shared_ptr<Place>& place = places[url];
    if (!place) {
        place = std::make_shared<Place>(url, options.timing);
        spawn_vital(executor, keep_fresh(shared_from_this(), place));
    }
    return *place;
}

void JwksFetcher::Impl::forget_unused() {
    std::erase_if(places, [](const auto& entry) {
        Place& place = *entry.second;
        place.left = place.sources.empty();
        return place.left;
    });
}

Task<> JwksFetcher::Impl::keep_fresh(std::shared_ptr<Impl> self, std::shared_ptr<Place> place) {
    Timer pause(self->executor);
    while (!place->left) {
        place->schedule.begin(now());
        Keys keys = co_await keys_of(self->executor, *place, self->options.bounds);
        if (place->left) co_return;
        self->take(*place, std::move(keys));
        while (!place->left && !is_due(*place)) {
            pause.expires_after(self->options.look_every);
            co_await pause.async_wait(as_values);
        }
    }
}

void JwksFetcher::Impl::take(Place& place, Keys keys) {
    place.tried = true;
    if (keys) {
        ++fetches_ok;
        const std::uint64_t version_before = place.latest.version();
        place.schedule.succeeded(now(), luck());
        place.latest.put(std::move(*keys));
        log_success(place, version_before);
        place.fetched_at = now();
        // Requests that wanted keys during this fetch have them now.
        for (const auto& source : place.sources) source->take_wanted();
        place.wanted = false;
    } else {
        ++fetches_failed;
        place.schedule.failed(now(), luck());
        log_failure(place, keys.error());
    }
    place.failing = !keys;
    tell_sources(place);
}

JwksFetcher::Sources key_sources(const config::Config& config) {
    JwksFetcher::Sources sources;
    for (const identity::UserMethod& method : config.user_methods) {
        if (const auto* jwt = std::get_if<identity::JwtMethod>(&method.how)) {
            sources.push_back(jwt->keys);
        }
    }
    return sources;
}

}  // namespace tidegate::app
