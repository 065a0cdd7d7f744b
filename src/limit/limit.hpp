// A limit: so many units in such a time, counted in such a way. A policy: limits that share a key.
// Immutable once made; owned by the configuration.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/described_enum.hpp"
#include "base/result.hpp"
#include "limit/algorithm.hpp"

namespace tidegate::limit {

class TimeZone;

using Micros = std::chrono::microseconds;

// A moment by the two clocks that a process has. Durations follow the steady one. Days, weeks and
// months, and the moments of a schedule, follow the wall clock, which NTP, an administrator or a
// machine that wakes up sets forward and back.
struct Now {
    constexpr Now() = default;
    // The clocks agree: as in Redis, which has one.
    constexpr Now(Micros both) : steady(both), wall(both) {}
    constexpr Now(Micros of_steady, Micros of_wall) : steady(of_steady), wall(of_wall) {}

    // What the steady clock says at that moment of the wall clock, as the clocks differ now.
    constexpr Micros steady_at(Micros moment) const { return moment - wall + steady; }
    constexpr Micros wall_at(Micros moment) const { return moment - steady + wall; }

    Micros steady{0};  // since 1970, by the wall clock of then: see store::process_now()
    Micros wall{0};    // since 1970
};

// Where the windows of fixed_window begin; the configuration has the same words. Part of what is
// stored in Redis, as Algorithm is.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    Anchor, std::uint8_t,
    clock,          // on the grid of their duration
    first_request,  // with the first request
    // With the days, weeks (from Monday on) and months of UTC; the anchor says how long they are.
    utc_day, utc_week, utc_month,
    // The same of a time zone.
    day, week, month)

// Windows are days, weeks or months.
constexpr bool has_period(Anchor anchor) {
    return anchor >= Anchor::utc_day;
}

// Says whether the anchor needs the name of a time zone.
constexpr bool has_time_zone(Anchor anchor) {
    return anchor >= Anchor::day;
}

// Which requests take units. The fingerprint of a limit, which is stored in Redis, has the words.
BOOST_DEFINE_FIXED_ENUM_CLASS(
    Count, std::uint8_t, admitted,
    all,        // the denied ones too: hammering keeps out
    by_status)  // taken at admission, given back unless the answer has one of the statuses

// How a request was answered, for limits that count by status.
struct AnswerStatus {
    static constexpr int kNoGrpc = -1;       // of another protocol, and without a status of gRPC
    static constexpr int kGrpcUnknown = -2;  // of gRPC or its like, and ended without its status

    constexpr AnswerStatus(int of_http = 0, int of_grpc = kNoGrpc) : http(of_http), grpc(of_grpc) {}

    int http;  // 0: there was no answer
    int grpc;  // or one of the constants
};

// Among the statuses that a limit counts, those of gRPC: `grpc:16` is kGrpcStatuses + 16.
inline constexpr std::uint16_t kGrpcStatuses = 1'000;

// The algorithms that have a setting, in a sentence: `gcra` and `leaky_bucket`. `last` is the word
// before the last one.
std::string algorithms_with(Setting setting, std::string_view last, std::string_view quote = {});

// As the configuration writes one of them: `401`, `grpc:16`.
std::string status_text(std::uint16_t status);

inline constexpr std::int64_t kBlocksMax = 1'000;
inline constexpr std::int64_t kMomentsMax = 100'000;  // what a schedule may hold of an identifier
inline constexpr Micros kDurationMin{1'000};
inline constexpr Micros kDurationMax = std::chrono::hours{24 * 366 * 10};
inline constexpr Micros kSlotTime = std::chrono::seconds{10};
inline constexpr Micros kHorizon = std::chrono::hours{24 * 31};
inline constexpr Micros kDelayMax = std::chrono::minutes{5};  // a request held by leaky_bucket

// What the configuration says of a limit.
struct LimitSpec {
    std::string name{};  // empty: what the limit is, without its quota
    Algorithm algorithm = Algorithm::sliding_window;
    std::int64_t quota = 0;
    Micros duration{0};                 // concurrency has none, nor a window with a period
    std::optional<Micros> precision{};  // sliding_window only
    bool strict = false;                // sliding_window only
    Anchor anchor = Anchor::clock;      // fixed_window only
    std::string time_zone{};            // of an anchor that has one: its name, and what it says
    std::shared_ptr<const TimeZone> zone{};
    std::optional<std::int64_t> burst{};  // gcra and leaky_bucket; the quota when not given
    std::optional<Micros> max_delay{};    // leaky_bucket
    bool utc_day = false;                 // schedule: windows are days of UTC
    std::optional<Micros> horizon{};      // schedule
    bool forward_past = false;            // schedule: what is past is neither asked nor recorded
    Count count = Count::admitted;
    std::vector<std::uint16_t> statuses{};  // of count by_status: of HTTP, or see kGrpcStatuses
    // Quota and burst are in micro-dollars: of sliding_window and fixed_window up to kMoneyMax.
    bool in_money = false;
};

struct Limit {
    std::string name;
    Algorithm algorithm = Algorithm::sliding_window;
    Anchor anchor = Anchor::clock;
    bool strict = false;
    Count count = Count::admitted;
    // 0 .. kQuotaMax, of wide windows 0 .. kMoneyMax; at least 1 for gcra and leaky_bucket
    std::int64_t quota = 0;
    bool in_money = false;  // it counts micro-dollars
    // kDurationMin .. kDurationMax; of the hold of a slot for concurrency; of a period the longest,
    // for time zones that change their offset by an hour
    Micros duration{0};
    // Windows and sliding_log.
    Micros precision{0};      // width of a sub-bucket; the duration itself for fixed_window
    std::int64_t blocks = 0;  // sub-buckets that count: 1 .. kBlocksMax (one more when strict)
    // Set if the anchor has one. The rules of the zone may change with a reload, and are no part of
    // id.
    std::string time_zone{};
    std::shared_ptr<const TimeZone> zone{};
    // gcra and leaky_bucket.
    std::int64_t burst = 0;
    Micros max_delay{0};
    // schedule.
    bool utc_day = false;
    bool forward_past = false;
    Micros horizon{0};

    std::vector<std::uint16_t> statuses{};  // in order; of count by_status
    std::uint32_t id = 0;  // names the record in the state; a hash of all but the quota

    const AlgorithmTraits& traits() const { return traits_of(algorithm); }
    StateKind state() const {
        if (follows_calendar()) return StateKind::period;
        return is_wide() ? StateKind::wide_windows : traits().state;
    }
    // Windows that count in wider numbers than others.
    bool is_wide() const { return in_money && traits().state == StateKind::windows; }
    // What is counted never exceeds it.
    std::int64_t most_counted() const { return is_wide() ? kMoneyCountedMax : kQuotaMax; }
    bool has_set() const { return traits().has_set; }
    bool opens_itself() const { return anchor == Anchor::first_request; }
    // Windows are the periods of window.hpp.
    bool follows_calendar() const { return has_period(anchor); }
    // Windows begin at multiples of their duration since 1970: so does a day of UTC.
    bool is_on_grid() const { return anchor == Anchor::clock || anchor == Anchor::utc_day; }
    // The window begins and ends when the clock says, also while nothing is taken.
    bool follows_clock() const { return traits().has(kAnchor) && anchor == Anchor::clock; }
    // All of its units stop counting at one moment.
    bool frees_all_at_once() const { return traits().has(kAnchor); }
    // The fast path of the scripts decides it.
    bool has_fast_path() const {
        return traits().has_fast_path && count == Count::admitted && is_on_grid() && !in_money;
    }
    // How the scripts count it: the letter that they get, and of a mark in Redis the bytes.
    char letter() const { return is_wide() ? 'm' : utc_day ? 'd' : traits().letter; }
    std::uint8_t mark_bytes() const { return is_wide() ? std::uint8_t{10} : traits().mark_bytes; }
    // In upper case where denied requests count, too.
    char script_letter() const {
        const char letter = this->letter();
        return count == Count::all ? static_cast<char>(letter - 'a' + 'A') : letter;
    }
    // The most units that ever pass at once.
    std::int64_t most_at_once() const { return burst > 0 ? burst : quota; }
    // Only time frees units, and only admitted requests take them.
    bool only_time_frees() const { return count == Count::admitted && traits().time_frees; }
    // A thread may take units in advance, as each is of a sub-bucket that ends at a known time.
    bool can_be_leased() const {
        return traits().state == StateKind::windows && count == Count::admitted && !in_money;
    }
    // Its windows, or what it has in place of them, all last `duration`. Slots last as long as
    // their requests; months differ, and so do the days of a time zone.
    bool has_one_duration() const { return traits().has(kPer) && anchor < Anchor::utc_month; }
    // The end of a request may give something back.
    bool settles() const { return count == Count::by_status || traits().settles; }
    // Whether statuses of gRPC are among those that count.
    bool counts_grpc() const { return !statuses.empty() && statuses.back() >= kGrpcStatuses; }
    // Whether an answer of that status keeps the units that were taken at admission. A request
    // without an answer keeps them, too: a client that leaves has made its guess. Where statuses of
    // gRPC count, an answer without one keeps the units; but where statuses of HTTP count as well,
    // these decide about answers of other protocols.
    bool keeps(AnswerStatus status) const;
};

// What is wrong with a setting, and what would be right.
struct LimitFault {
    std::string_view key;  // of the setting; static
    std::string what;      // a sentence; empty: no fault

    explicit operator bool() const { return !what.empty(); }
};

// Fills in what `spec` leaves open.
Result<Limit, LimitFault> make_limit(const LimitSpec& spec);

// The smallest whole-microsecond divisor of `duration` that is at least duration / 60 and 1 ms.
Micros default_precision(Micros duration);

// What a part of a key counts by.
BOOST_DEFINE_FIXED_ENUM_CLASS(KeyPartKind, std::uint8_t, ip, user, route, constant, header, query,
                              capture,
                              method,  // of the request; GET includes HEAD
                              host,    // the authority of the request, normalised
                              claim,   // of the token that named the user
                              cookie,
                              body,        // a member of a JSON body
                              body_lower,  // the same in lower case
                              form)        // a field of a form body

// What an identifier is made of.
struct KeyPart {
    using Kind = KeyPartKind;

    Kind kind = Kind::ip;
    // Names the field (lower case), query parameter, capture, claim, cookie or field of a form, or
    // is the constant, or the JSON pointer (RFC 6901).
    std::string name;
    bool secret = false;  // of a field, parameter or cookie: only a hash of its value is shown
    // Of a claim: the position among the claims of the configuration. Of a member of a body: the
    // position among the pointers of the configuration.
    std::uint16_t claim = 0;

    // One client's own: its address, its user or its credential. The claims of a token may be
    // those of a tenant, whose users share them.
    bool names_client() const { return kind == Kind::ip || kind == Kind::user || secret; }
    bool reads_body() const { return kind >= Kind::body; }
    bool operator==(const KeyPart&) const = default;
};

// What becomes of a request for which a key makes no identifier.
enum class OnMissing : std::uint8_t {
    skip,    // this key counts nothing
    shared,  // all such requests are counted as one
    reject,  // 401 where the key needs a user that is absent, else 400
};

// Makes one identifier: of all the parts of the first choice whose parts are all there.
// `user|ip` is two choices of a part each, `header:x-tenant+route` one choice of two parts.
struct Key {
    std::vector<std::vector<KeyPart>> choices;  // neither it nor a choice is empty
    OnMissing on_missing = OnMissing::skip;

    bool operator==(const Key&) const = default;
};

// `ip` and the like: one choice of one part.
inline Key single_key(KeyPart::Kind kind) {
    return {.choices = {{{kind, {}}}}};
}

// The first part of `keys` that passes `test`; null: none does.
template <class Test>
const KeyPart* find_part(std::span<const Key> keys, Test test) {
    for (const Key& key : keys) {
        for (const auto& choice : key.choices) {
            for (const KeyPart& part : choice) {
                if (std::invoke(test, part)) return &part;
            }
        }
    }
    return nullptr;
}

template <class Test>
bool any_part(std::span<const Key> keys, Test test) {
    return find_part(keys, test) != nullptr;
}

template <class Use>
void for_each_part(std::span<const Key> keys, Use use) {
    find_part(keys, [&](const KeyPart& part) {
        use(part);
        return false;
    });
}

inline bool counts_by(std::span<const Key> keys, KeyPart::Kind kind) {
    return any_part(keys, [kind](const KeyPart& part) { return part.kind == kind; });
}

// What decides when the store does not answer.
enum class OnStoreFailure : std::uint8_t {
    local,
    allow,
    deny,
    // As local; and while it is not known how many proxies share the store, this one counts alone,
    // by the whole quota. For what has a limit though the configuration has none: it must not
    // refuse service.
    local_or_alone,
};

inline constexpr std::size_t kLimitsMax = 32;  // of one policy

// Limits that hold for some users in place of the policy's own. None: those users are unlimited.
struct Tier {
    std::string name;
    std::vector<Limit> limits;
    std::uint32_t index = 0;  // among all lists of limits: see Policy::index
    // A token states quotas of these limits: several tiers have the index and the name, which is
    // empty for the policy's own limits.
    bool by_claims = false;
};

struct Policy {
    std::string name;           // unique; `<route>/<index>` for one written in a route
    std::vector<Key> key;       // not empty, no key twice
    std::vector<Limit> limits;  // one to kLimitsMax; ids differ
    std::vector<Tier> tiers;
    OnStoreFailure on_store_failure = OnStoreFailure::local;
    bool shadow = false;  // decides, counts and logs, but never refuses
    // Never refuses, and counts each admitted request, also above the quota. Not with `shadow`.
    bool soft = false;
    // Position among all lists of limits of the configuration, those of tiers included: what a
    // table of names or counters is looked up by.
    std::uint32_t index = 0;
    // Of a candidate, which has `shadow`: the policy in whose place it would be live. It decides
    // and counts as if it were: see Charge.
    const Policy* candidate_of = nullptr;
    // Of a policy that is enforced for a share of the identifiers only, its twin in shadow counts
    // the others: this is the policy itself. The two have one name and one state.
    const Policy* twin_of = nullptr;
    bool has_candidate = false;  // another policy, or one of its twin, is its candidate

    // Millionths of each quota that threads may take at once and admit without asking; 0: none.
    std::int64_t lease_slack = 0;

    // Whether it refuses requests.
    bool is_enforced() const { return !shadow && !soft; }
    bool is_candidate() const { return candidate_of != nullptr; }
    // The policy of the configuration: of a twin and of a candidate, the one that has it.
    const Policy& written() const {
        return twin_of != nullptr ? *twin_of : candidate_of != nullptr ? *candidate_of : *this;
    }
    // Whether `candidate` would be live in place of this policy.
    bool is_replaced_by(const Policy& candidate) const {
        return has_candidate && candidate.candidate_of == &written();
    }
    // Whether the policy could refuse a request if `candidate` were live.
    bool decides_for(const Policy& candidate) const {
        return this == &candidate || (is_enforced() && !is_replaced_by(candidate));
    }
    // For people and programs: `enforce`, `shadow`, `soft` or `candidate`.
    std::string_view mode() const {
        if (is_candidate()) return "candidate";
        return shadow ? "shadow" : soft ? "soft" : "enforce";
    }
};

// The first limit of the policy, then of its tiers, that passes `test`; null: none does.
template <class Test>
const Limit* find_limit(const Policy& policy, Test test) {
    const auto find_in = [&](const std::vector<Limit>& limits) -> const Limit* {
        const auto found = std::find_if(limits.begin(), limits.end(), test);
        return found != limits.end() ? &*found : nullptr;
    };
    const Limit* found = find_in(policy.limits);
    for (const Tier& tier : policy.tiers) {
        if (found == nullptr) found = find_in(tier.limits);
    }
    return found;
}

// The name of a limit for everybody but metrics, which have two labels: `POLICY-LIMIT`. In one
// configuration two limits never share it; in the tiers of a policy the same limit has another
// quota.
inline std::string full_name(const Policy& policy, const Limit& limit) {
    return policy.name + '-' + limit.name;
}

}  // namespace tidegate::limit
