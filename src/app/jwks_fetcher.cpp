#include "app/jwks_fetcher.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/result.hpp"
#include "config/address.hpp"
#include "identity/jwk.hpp"
#include "identity/key_source.hpp"
#include "net/deadline.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

// `whole` less up to `part` of it.
SteadyTime::duration shortened(std::chrono::milliseconds whole, double part, double jitter) {
    return std::chrono::duration_cast<SteadyTime::duration>(whole * (1 - part * jitter));
}

}  // namespace

SteadyTime FetchSchedule::due(bool wanted) const {
    return wanted ? std::min(due_, wanted_from_) : due_;
}

void FetchSchedule::begin(SteadyTime now) {
    wanted_from_ = now + timing_.wanted_every;
}

void FetchSchedule::succeeded(SteadyTime now, double jitter) {
    retry_ = {};
    has_succeeded_ = true;
    due_ = now + shortened(timing_.every, 0.1, jitter);
}

void FetchSchedule::failed(SteadyTime now, double jitter) {
    retry_ = retry_.count() == 0 ? timing_.retry : std::min(retry_ * 2, timing_.retry_max);
    due_ = now + shortened(retry_, 0.5, jitter);
    if (has_succeeded_) due_ = std::max(due_, wanted_from_);
}

namespace {

using config::HttpsUrl;
using Fetched = Result<HttpsBody, std::string>;
using UrlOrFault = Result<HttpsUrl, std::string>;

// The types that requests for keys accept (RFC 7517 section 8.5); many servers know only the other.
constexpr const char* kAcceptKeys = "application/jwk-set+json, application/json";
constexpr const char* kAcceptMetadata = "application/json";

ErrorMessage of_metadata(const std::string& fault) {
    return ErrorMessage{"the metadata of the issuer: " + fault};
}

// The URL of the key set of an issuer.
Task<UrlOrFault> discover(Executor executor, const identity::KeyLocation& location,
                          const HttpsBounds& bounds) {
    const auto url =
        config::parse_key_url(identity::metadata_url(location.url), location.is_insecure);
    if (!url) co_return of_metadata(url.error());
    const auto answer = co_await https_get(executor, *url, bounds, kAcceptMetadata, location.ca);
    if (!answer) co_return of_metadata(answer.error());
    const auto named = identity::key_set_url(answer->text, location.url);
    if (!named) co_return of_metadata(named.error());
    auto keys = config::parse_key_url(*named, location.is_insecure);
    if (!keys) co_return of_metadata("its `jwks_uri`: " + keys.error());
    if (url->is_tls && !keys->is_tls) {
        co_return of_metadata("its `jwks_uri` is an http:// URL, and the issuer an https:// URL");
    }
    co_return std::move(*keys);
}

}  // namespace

Task<Fetched> fetch_key_set(Executor executor, identity::KeyLocation location, HttpsBounds bounds) {
    const SteadyTime begin = std::chrono::steady_clock::now();
    // Not one expression with `?`: GCC 12 destroys what a coroutine in it returns twice.
    UrlOrFault url = config::parse_key_url(location.url, location.is_insecure);
    if (location.is_issuer) url = co_await discover(executor, location, bounds);
    if (!url) co_return ErrorMessage{url.error()};
    const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin);
    bounds.patience = std::max(bounds.patience - taken, std::chrono::milliseconds{1});
    co_return co_await https_get(executor, *url, bounds, kAcceptKeys, location.ca);
}

std::string shown(const identity::KeyLocation& location) {
    if (location.is_issuer) return location.url;
    const auto url = config::parse_key_url(location.url, location.is_insecure);
    return url ? url->shown() : "(not an https URL)";
}

namespace {

using identity::JwkSet;
using identity::KeyLocation;
using identity::KeySource;
using telemetry::Level;
using telemetry::log;
using Keys = Result<std::shared_ptr<const JwkSet>, std::string>;

constexpr std::chrono::milliseconds kPoll{10};
// Odd keys of a set are logged up to this number; all of them could be a hundred lines.
constexpr std::size_t kWarningsMax = 5;

// A location, and what is known of it.
struct FetchedPlace {
    FetchedPlace(Executor executor, const KeyLocation& from, const FetchTiming& timing)
        : latest(from), shown(app::shown(from)), schedule(timing), pause(executor) {}

    KeySource latest;  // all others adopt from this one
    std::string shown;
    FetchSchedule schedule;
    identity::KeyFetches fetches;
    Timer pause;                                   // until the next fetch
    JwksFetcher::Sources sources;                  // in force
    std::vector<std::weak_ptr<KeySource>> former;  // of configurations before
    std::optional<SteadyTime> fetched_at;
    bool failing = false;
    FailureNotice notice;
    bool wanted = false;
    bool left = false;  // no source uses it any more
};

template <class Do>
void for_each_source(FetchedPlace& place, Do action) {
    for (const auto& source : place.sources) action(*source);
    std::erase_if(place.former, [&](const auto& weak) {
        const auto source = weak.lock();
        if (source) action(*source);
        return source == nullptr;
    });
}

std::string in_words(std::size_t keys) {
    return std::to_string(keys) + (keys == 1 ? " key" : " keys");
}

// Whether keys come over http:// from another machine.
bool is_in_the_clear(const KeyLocation& location) {
    const auto url = config::parse_key_url(location.url, true);
    return location.is_insecure && url && !url->is_tls &&
           !config::names_this_machine(url->address.host);
}

// `place` stays alive: its own coroutine waits for this.
Task<Keys> keys_of(Executor executor, const FetchedPlace& place, const HttpsBounds& bounds) {
    try {
        const auto answer = co_await fetch_key_set(executor, place.latest.location(), bounds);
        if (!answer) co_return ErrorMessage{answer.error()};
        Keys keys = JwkSet::parse(answer->text, JwkSet::Origin::fetched);
        if (keys && (*keys)->size() == 0)
            co_return ErrorMessage{"it has no key that Tidegate can use"};
        co_return keys;
    } catch (const std::exception& error) {
        co_return ErrorMessage{error.what()};
    }
}

// Gives sources the latest keys, then the notice that there may be some.
void tell_sources(FetchedPlace& place) {
    place.fetches.next = place.schedule.due(true);
    for_each_source(place, [&](KeySource& source) {
        source.adopt(place.latest);
        source.publish(place.fetches);
    });
}

void begin_fetch(FetchedPlace& place) {
    place.schedule.begin(steady_now());
    ++place.fetches.begun;
    for_each_source(place, [&](KeySource& source) { source.publish(place.fetches); });
}

// When to fetch next.
SteadyTime next_fetch(FetchedPlace& place) {
    for_each_source(
        place, [&](KeySource& source) { place.wanted = source.take_wanted() || place.wanted; });
    return place.schedule.due(place.wanted);
}

void log_success(const FetchedPlace& place, std::uint64_t version_before) {
    const JwkSet& keys = *place.latest.keys();
    if (version_before == place.latest.version()) {
        if (place.failing) log(Level::info, "jwks {}: fetching works again", place.shown);
        return;
    }
    log(Level::info, "jwks {}: {}{}", place.shown,
        version_before == 0 ? "" : "the keys have changed: ", in_words(keys.size()));
    const auto& warnings = keys.warnings();
    const std::size_t logged = std::min(warnings.size(), kWarningsMax);
    for (std::size_t i = 0; i < logged; ++i) {
        log(Level::warn, "jwks {}: {}", place.shown, warnings[i]);
    }
    if (logged < warnings.size()) {
        log(Level::warn, "jwks {}: and {} more warnings", place.shown, warnings.size() - logged);
    }
}

void log_failure(FetchedPlace& place, const std::string& reason) {
    const char* const still = place.failing ? "still " : "";
    if (!place.notice.is_due(reason, steady_now())) {
        log(Level::debug, "jwks {}: {}", place.shown, reason);
    } else if (place.fetched_at) {
        log(Level::warn, "jwks {}: {}cannot be fetched, so Tidegate keeps the keys it has: {}",
            place.shown, still, reason);
    } else {
        log(Level::warn, "jwks {}: {}cannot be fetched, so Tidegate cannot check its tokens: {}",
            place.shown, still, reason);
    }
}

}  // namespace

struct JwksFetcher::Impl : std::enable_shared_from_this<Impl> {
    Impl(Executor on, const Options& how)
        : executor(on), options(how), random(std::random_device{}()) {}

    // Begins to fetch from there if it is new.
    std::shared_ptr<FetchedPlace> place_of(const KeyLocation& location);
    void put_in_force(const std::shared_ptr<KeySource>& source);
    void forget_unused();
    void take(FetchedPlace& place, Keys keys);
    double jitter() { return std::uniform_real_distribution<>(0, 1)(random); }

    // Takes its owners by value: they live as long as it does.
    static Task<> keep_fresh(std::shared_ptr<Impl> self, std::shared_ptr<FetchedPlace> place);

    Executor executor;
    Options options;
    std::minstd_rand random;
    std::map<KeyLocation, std::shared_ptr<FetchedPlace>> places;
    std::uint64_t fetches_ok = 0;
    std::uint64_t fetches_failed = 0;
};

JwksFetcher::JwksFetcher(Executor executor, const Options& options)
    : impl_(std::make_shared<Impl>(executor, options)) {}

JwksFetcher::~JwksFetcher() {
    use({});
}

Task<> JwksFetcher::prepare(Sources sources) {
    std::vector<std::shared_ptr<FetchedPlace>> wanted;
    for (const auto& source : sources) {
        if (source->is_fetched()) wanted.push_back(impl_->place_of(source->location()));
    }
    Timer pause(impl_->executor);
    const auto settled = [](const auto& place) { return place->fetches.ended > 0 || place->left; };
    while (!std::all_of(wanted.begin(), wanted.end(), settled)) {
        pause.expires_after(kPoll);
        co_await pause.async_wait(as_values);
    }
}

void JwksFetcher::use(const Sources& sources) {
    for (const auto& [location, place] : impl_->places) {
        place->former.insert(place->former.end(), place->sources.begin(), place->sources.end());
        place->sources.clear();
    }
    for (const auto& source : sources) {
        if (source->is_fetched()) impl_->put_in_force(source);
    }
    impl_->forget_unused();
    for (const auto& [location, place] : impl_->places) {
        tell_sources(*place);
        place->pause.cancel();  // a source may want keys already
    }
}

void JwksFetcher::fill_in(Gauges& gauges) const {
    gauges.jwks_fetches_ok = impl_->fetches_ok;
    gauges.jwks_fetches_failed = impl_->fetches_failed;
    gauges.jwks.clear();
    std::map<std::string, int> seen;
    for (const auto& [location, place] : impl_->places) {
        // Two URLs that differ only in what is not shown must not share one name.
        const int number = ++seen[place->shown];
        Gauges::KeyPlace shown;
        shown.url = number == 1 ? place->shown : fmt::format("{}#{}", place->shown, number);
        if (const auto keys = place->latest.keys()) shown.keys = keys->size();
        if (place->fetched_at) {
            shown.age =
                std::chrono::duration_cast<std::chrono::seconds>(steady_now() - *place->fetched_at);
        }
        gauges.jwks.push_back(std::move(shown));
    }
}

std::shared_ptr<FetchedPlace> JwksFetcher::Impl::place_of(const KeyLocation& location) {
    std::shared_ptr<FetchedPlace>& place = places[location];
    if (!place) {
        place = std::make_shared<FetchedPlace>(executor, location, options.timing);
        if (is_in_the_clear(location)) {
            log(Level::warn,
                "jwks {}: fetched without TLS (`insecure: on`): anyone on the network path can "
                "replace the keys, and so become any user",
                place->shown);
        }
        spawn_vital(executor, keep_fresh(shared_from_this(), place));
    }
    return place;
}

// Requests of any thread call the hook, until it is taken away: the event loop is there until then.
void JwksFetcher::Impl::put_in_force(const std::shared_ptr<KeySource>& source) {
    const std::shared_ptr<FetchedPlace> place = place_of(source->location());
    std::erase_if(place->former, [&](const auto& weak) { return weak.lock() == source; });
    place->sources.push_back(source);
    source->on_wanted([on = executor, weak = std::weak_ptr(place)] {
        asio::post(on, [weak] {
            if (const auto wanted = weak.lock()) wanted->pause.cancel();
        });
    });
}

void JwksFetcher::Impl::forget_unused() {
    std::erase_if(places, [](const auto& entry) {
        FetchedPlace& place = *entry.second;
        if (!place.sources.empty()) return false;
        for_each_source(place, [](KeySource& source) { source.on_wanted({}); });
        place.left = true;
        place.pause.cancel();
        return true;
    });
}

Task<> JwksFetcher::Impl::keep_fresh(std::shared_ptr<Impl> self,
                                     std::shared_ptr<FetchedPlace> place) {
    while (!place->left) {
        begin_fetch(*place);
        Keys keys = co_await keys_of(self->executor, *place, self->options.bounds);
        if (place->left) co_return;
        self->take(*place, std::move(keys));
        for (SteadyTime next = next_fetch(*place); !place->left && steady_now() < next;
             next = next_fetch(*place)) {
            place->pause.expires_at(next);
            co_await place->pause.async_wait(as_values);
        }
    }
}

void JwksFetcher::Impl::take(FetchedPlace& place, Keys keys) {
    place.fetches.ended = place.fetches.begun;
    if (keys) {
        ++fetches_ok;
        place.fetches.succeeded = place.fetches.begun;
        const std::uint64_t version_before = place.latest.version();
        place.schedule.succeeded(steady_now(), jitter());
        place.latest.put(std::move(*keys));
        log_success(place, version_before);
        place.notice.recovered();
        place.fetched_at = steady_now();
    } else {
        ++fetches_failed;
        place.schedule.failed(steady_now(), jitter());
        log_failure(place, keys.error());
    }
    place.failing = !keys;
    // Requests that wanted keys during this fetch look now, and say so if they still miss one.
    for_each_source(place, [](KeySource& source) { source.take_wanted(); });
    place.wanted = false;
    tell_sources(place);
}

JwksFetcher::Sources key_sources(const config::Config& config) {
    JwksFetcher::Sources sources;
    for (const identity::UserMethod& method : config.user_methods) {
        if (const auto& keys = method.how->key_source()) sources.push_back(keys);
    }
    return sources;
}

}  // namespace tidegate::app
