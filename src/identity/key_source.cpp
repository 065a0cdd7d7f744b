#include "identity/key_source.hpp"

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/utf8.hpp"

namespace tidegate::identity {

void KeySource::put(std::shared_ptr<const JwkSet> keys) {
    const std::lock_guard lock(mutex_);
    if (keys_ && keys && *keys_ == *keys) return;
    keys_ = std::move(keys);
    version_.store(next_version(), std::memory_order_release);
}

void KeySource::adopt(const KeySource& other) {
    if (this == &other) return;
    const std::scoped_lock lock(mutex_, other.mutex_);
    keys_ = other.keys_;
    version_.store(other.version_.load(std::memory_order_acquire), std::memory_order_release);
}

void KeySource::want() {
    const std::lock_guard lock(mutex_);
    if (wanted_ || !is_fetched()) return;
    wanted_ = true;
    if (hook_) hook_();
}

KeySource::Waiting KeySource::wait(const KeyFetches& seen, std::uint64_t client,
                                   std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    if (fetches_.ended != seen.ended) return {0, WaitRefusal::fetch_has_ended};
    std::size_t& of_client = by_client_[client];
    if (waiters_.size() >= kWaitersMax || of_client >= kWaitersPerClientMax) {
        if (of_client == 0) by_client_.erase(client);
        return {0, WaitRefusal::too_many_waiters};
    }
    ++of_client;
    waiters_.emplace(++last_waiter_, Waiter{client, std::move(wake)});
    return {last_waiter_};
}

void KeySource::leave(std::uint64_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = waiters_.find(number);
    if (found == waiters_.end()) return;  // woken
    const auto share = by_client_.find(found->second.client);
    if (--share->second == 0) by_client_.erase(share);
    waiters_.erase(found);
}

std::size_t KeySource::waiters() const {
    const std::lock_guard lock(mutex_);
    return waiters_.size();
}

void KeySource::on_wanted(std::function<void()> hook) {
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
}

bool KeySource::take_wanted() {
    const std::lock_guard lock(mutex_);
    return std::exchange(wanted_, false);
}

void KeySource::publish(const KeyFetches& fetches) {
    const std::lock_guard lock(mutex_);
    const bool has_ended = fetches.ended != fetches_.ended;
    fetches_ = fetches;
    if (!has_ended) return;
    for (const auto& [number, waiter] : waiters_) waiter.wake();
    waiters_.clear();
    by_client_.clear();
}

std::uint64_t KeySource::next_version() {
    static std::atomic<std::uint64_t> latest{0};
    return latest.fetch_add(1, std::memory_order_relaxed) + 1;
}

MissingKey::Step MissingKey::next(const KeyFetches& fetches, Time now) const {
    if (fetches.succeeded >= proof_) return Step::refuse;
    if (fetches.ended >= proof_ || now >= until_) return Step::unavailable;
    // One that is under way may bring the key, too.
    return fetches.is_under_way() || fetches.next < until_ ? Step::wait : Step::unavailable;
}

std::chrono::seconds retry_after(const KeyFetches& fetches, MissingKey::Time now) {
    constexpr std::chrono::seconds kLeast{1};
    // The first fetch may begin at the beginning of time: that is no difference to compute.
    if (fetches.is_under_way() || fetches.next <= now) return kLeast;
    return std::chrono::ceil<std::chrono::seconds>(fetches.next - now);
}

namespace {

// A Result of two strings does not know which one it is given.
Result<std::string, std::string> fault(std::string why) {
    return {boost::system::in_place_error, std::move(why)};
}

std::string_view without_slash(std::string_view url) {
    if (url.ends_with('/')) url.remove_suffix(1);
    return url;
}

}  // namespace

std::string metadata_url(std::string_view issuer) {
    return std::string(without_slash(issuer)) + "/.well-known/openid-configuration";
}

Result<std::string, std::string> key_set_url(std::string_view json, std::string_view issuer) {
    const auto document = parse_json_object(json);
    if (!document) return fault(document.error());
    const auto named = string_member(*document, "issuer");
    if (!named) return fault("it has no `issuer`");
    if (*named != issuer) {
        const bool is_slash = without_slash(*named) == without_slash(issuer);
        return fault("its `issuer` is " + quote(*named) +
                     (is_slash ? ": write `discovery` exactly so, with the same end"
                               : ", and `discovery` names another one"));
    }
    const auto url = string_member(*document, "jwks_uri");
    if (!url || url->empty()) return fault("it has no `jwks_uri`");
    return {boost::system::in_place_value, *url};
}

}  // namespace tidegate::identity
