#include "store/charge_script.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/text.hpp"
#include "limit/kinds.hpp"
#include "store/process_clock.hpp"
#include "store/scripts.hpp"

namespace tidegate::store {

namespace {

using limit::ChargeItem;
using limit::kNever;
using limit::Limit;
using limit::Micros;

// The version of the layout of states. It is part of each key, so proxies of different versions
// never read each other's states.
constexpr std::string_view kStateVersion = "4";
constexpr std::size_t kPoliciesHeadBytes = 2;
constexpr std::size_t kRunBytes = 7;
constexpr std::size_t kLimitBytes = 26;  // kind, three numbers, name
constexpr std::size_t kNumbersBytes = 16;

constexpr std::array<bool, 256> plain_letters() {
    std::array<bool, 256> plain{};
    for (std::size_t byte = 0x21; byte < 0x7f; ++byte) plain[byte] = true;
    for (const char special : {'{', '}', '%', ':'}) {
        plain[static_cast<unsigned char>(special)] = false;
    }
    return plain;
}
constexpr auto kPlain = plain_letters();

bool is_plain(char letter) {
    return kPlain[static_cast<unsigned char>(letter)];
}

std::size_t safe_size(std::string_view text) {
    std::size_t size = text.size();
    for (char letter : text) size += is_plain(letter) ? 0 : 2;
    return size;
}

// Escapes what would end a policy's name in a key, or be a hash tag.
void append_safe(std::string_view text, std::string& out) {
    for (char letter : text) {
        if (is_plain(letter)) {
            out += letter;
        } else {
            append_percent_encoded(letter, out);
        }
    }
}

// The number of items, from the first on, that have one policy, tier and cost. Their limits are
// sent once.
std::size_t run_length(std::span<const ChargeItem> items) {
    constexpr std::size_t kMost = 255;
    std::size_t length = 1;
    while (length < std::min(items.size(), kMost) && items[length].policy == items[0].policy &&
           items[length].tier == items[0].tier && items[length].own_cost == items[0].own_cost) {
        ++length;
    }
    return length;
}

template <class Visit>
void for_each_run(std::span<const ChargeItem> items, Visit visit) {
    while (!items.empty()) {
        const std::size_t length = run_length(items);
        visit(items.first(length));
        items = items.subspan(length);
    }
}

// Names the records of a state and their order: 256 times a hash that is not zero, plus their
// number.
std::uint32_t layout_of(std::span<const Limit> limits) {
    std::uint32_t hash = 0x811c9dc5;
    for (const Limit& limit : limits) hash = (hash ^ limit.id) * 0x01000193;
    hash ^= hash >> 15;
    return (hash | 1) << 8 | static_cast<std::uint32_t>(limits.size());
}

// The flags of a run in ARGV[1] of read_states.lua.
enum RunFlag : std::uint8_t {
    kShadow = 1,
    kOwnCost = 2,
    kSoft = 4,
    kCandidate = 8,
    kReplaced = 16,
};

// Whether the next candidate among the items behind those of `policy` is its own. The items of a
// candidate follow those of the policy that it would replace.
bool is_replaced(const limit::Policy& policy, std::span<const ChargeItem> behind) {
    if (!policy.has_candidate) return false;
    const auto next = std::find_if(behind.begin(), behind.end(), [](const ChargeItem& item) {
        return item.policy->is_candidate();
    });
    return next != behind.end() && policy.is_replaced_by(*next->policy);
}

// Whether a candidate has items beside its run. The script judges each run of a candidate as a
// candidate of its own.
[[maybe_unused]] bool has_more_of_candidate(const limit::Policy& policy,
                                            std::span<const ChargeItem> behind) {
    return policy.is_candidate() &&
           std::any_of(behind.begin(), behind.end(),
                       [&](const ChargeItem& item) { return item.policy == &policy; });
}

// `behind`: the items of the charge that follow.
std::uint8_t flags_of(std::span<const ChargeItem> run, std::span<const ChargeItem> behind) {
    const limit::Policy& policy = *run[0].policy;
    return static_cast<std::uint8_t>(
        (policy.shadow ? kShadow : 0) | (run[0].own_cost != ChargeItem::kOfCharge ? kOwnCost : 0) |
        (policy.soft ? kSoft : 0) | (policy.is_candidate() ? kCandidate : 0) |
        (is_replaced(policy, behind) ? kReplaced : 0));
}

void append_run(std::span<const ChargeItem> run, std::span<const ChargeItem> behind,
                std::optional<Micros> clock, std::string& out) {
    const std::span<const Limit> limits = run[0].limits();
    assert(!limits.empty() && limits.size() <= limit::kLimitsMax);
    std::array<char, kRunBytes + (kLimitBytes + sizeof(double)) * limit::kLimitsMax> bytes;
    limit::Packer packed(bytes.data());
    packed.put(static_cast<std::uint8_t>(run.size()));
    packed.put(flags_of(run, behind));
    packed.put(layout_of(limits));
    packed.put(static_cast<std::uint8_t>(limits.size()));
    for (const Limit& limit : limits) {
        packed.put(static_cast<std::uint8_t>(limit.script_letter()));
    }
    for (const Limit& limit : limits) {
        // Only a time zone makes the wall clock matter.
        const bool needs_time = limit.zone != nullptr && !clock;
        const Micros wall = needs_time ? process_now().wall : clock.value_or(Micros{0});
        packed.put(static_cast<std::uint32_t>(limit.quota));
        limit::with_kind(limit.state(), [&]<class Kind>(std::type_identity<Kind>) {
            Kind::pack_terms(limit, wall, packed);
        });
    }
    for (const Limit& limit : limits) {
        packed.put(limit.id);
        packed.put(limit.mark_bytes());
    }
    for (const Limit& limit : limits) {
        if (limit.is_wide()) packed.put_double(limit.quota);
    }
    out.append(bytes.data(), packed.end());
}

std::size_t run_size(std::span<const Limit> limits) {
    std::size_t size = kRunBytes + kLimitBytes * limits.size();
    for (const Limit& limit : limits) size += limit.is_wide() ? sizeof(double) : 0;
    return size;
}

// Whether two of the charges may share a state. In 1 of 30 commands of 16 charges of two items it
// says so because hashes meet; then the script only takes a little longer.
bool may_share_a_state(std::span<const limit::Charge> charges) {
    constexpr std::size_t kPlaces = 1 << 14;
    std::bitset<kPlaces> taken;
    for (const limit::Charge& charge : charges) {
        for (const ChargeItem& item : charge.items) {
            const std::size_t hash = std::hash<std::string_view>{}(item.identifier) +
                                     std::hash<const limit::Policy*>{}(item.policy);
            auto place = taken[hash % kPlaces];
            if (place) return true;
            place = true;
        }
    }
    return false;
}

void append_requests(std::span<const limit::Charge> charges, std::string& out) {
    // A cost above every quota is denied whatever it is; a huge one would not be exact in Lua.
    const auto append_cost = [&](std::int64_t cost) {
        append_double(std::min(cost, limit::kMoneyMax + 1), out);
    };
    std::size_t size = 0;
    for_each_run(charges[0].items, [&](std::span<const ChargeItem> run) {
        if (run[0].own_cost != ChargeItem::kOfCharge) size += sizeof(double);
        for (const Limit& limit : run[0].limits())
            size += limit.traits().asks_more ? kNumbersBytes : 0;
    });
    append_length('$', (sizeof(double) + size) * charges.size(), out);
    for (const limit::Charge& charge : charges) {
        append_cost(charge.cost);
        for_each_run(charge.items, [&](std::span<const ChargeItem> run) {
            const std::int64_t cost = charge.cost_of(run[0]);
            if (run[0].own_cost != ChargeItem::kOfCharge) append_cost(cost);
            for (const Limit& limit : run[0].limits()) {
                if (!limit.traits().asks_more) continue;
                limit::Charge of_run = charge;
                of_run.cost = cost;
                limit::with_kind(limit.state(), [&]<class Kind>(std::type_identity<Kind>) {
                    Kind::append_request(limit, of_run, out);
                });
            }
        });
    }
    out += "\r\n";
}

// The command up to the number of keys; append_clock() is its end.
void append_call(const redis::Script& script, std::size_t keys, std::optional<Micros> clock,
                 std::string& out) {
    append_length('*', 5 + keys + (clock ? 1 : 0), out);
    out.append("$7\r\nEVALSHA\r\n$40\r\n").append(script.sha1).append("\r\n");
}

std::size_t key_size(const ChargeItem& item, std::string_view prefix, std::size_t name_size) {
    return prefix.size() + kStateVersion.size() + 1 + name_size + 2 + item.identifier.size() + 1;
}

// A string of the command: the state's key, and `suffix`.
void append_key(const ChargeItem& item, std::string_view prefix, std::string_view suffix,
                std::string& out) {
    const std::string_view name = item.policy->name;
    const std::size_t name_size = safe_size(name);
    append_length('$', key_size(item, prefix, name_size) + suffix.size(), out);
    out.append(prefix).append(kStateVersion).append(1, ':');
    if (name_size == name.size()) {
        out += name;
    } else {
        append_safe(name, out);
    }
    out.append(":{").append(item.identifier).append(1, '}').append(suffix).append("\r\n");
}

// The reply says how every limit stood; what clients see follows from that by the same functions as
// in process.

// What has been read of a reply to requests of the same items.
struct Answer {
    struct Decided {
        bool admitted = false;
        bool shadow_admitted = false;
        std::int64_t windows_admit_at = 0;
    };
    Micros now{0};
    std::vector<Decided> decided;
    // By item, where the charge has candidates, which are decided alone: whether the candidate and
    // all that would be enforced beside it admit.
    std::vector<bool> candidates;
    std::vector<limit::StateNumbers> numbers;  // items, limits

    // Whether the item at `position` takes what the request costs.
    bool grants(const ChargeItem& item, std::size_t position, const Decided& request) const {
        if (item.policy->is_candidate()) return candidates[position];
        return request.admitted && (!item.policy->shadow || request.shadow_admitted);
    }
};

// One a thread, so that a decision allocates nothing once there was one as large.
Answer& answer_of_thread() {
    thread_local Answer answer;
    return answer;
}

// False: the script cannot have sent it.
bool read_candidates(limit::PackedReader& reader, std::span<const ChargeItem> items,
                     std::vector<bool>& candidates) {
    candidates.clear();
    if (std::none_of(items.begin(), items.end(),
                     [](const ChargeItem& item) { return item.policy->is_candidate(); })) {
        return true;
    }
    bool is_right = true;
    for_each_run(items, [&](std::span<const ChargeItem> run) {
        const std::uint8_t admits = run[0].policy->is_candidate() ? reader.byte() : 0;
        is_right = is_right && admits <= 1;
        candidates.insert(candidates.end(), run.size(), admits == 1);
    });
    return is_right;
}

bool read_answer(limit::PackedReader& reader, std::span<const limit::Charge> charges,
                 std::vector<std::uint64_t>& generations, Answer& answer) {
    answer.decided.clear();
    answer.numbers.clear();
    generations.clear();
    answer.now = Micros{reader.number()};
    for (std::size_t i = 0; i < charges.size(); ++i) {
        const std::uint8_t admitted = reader.byte();
        if (admitted > 3) return false;
        answer.decided.push_back({(admitted & 1) != 0, (admitted & 2) != 0, reader.number()});
    }
    if (!read_candidates(reader, charges[0].items, answer.candidates)) return false;
    for (const ChargeItem& item : charges[0].items) {
        generations.push_back(static_cast<std::uint64_t>(reader.number()));
        for (std::size_t i = 0; i < item.limits().size(); ++i) {
            const std::int64_t first = reader.number();
            answer.numbers.push_back({first, reader.number()});
        }
    }
    return !reader.is_broken() && answer.now >= Micros{0} && answer.now <= limit::kNowMax;
}

// False: the script cannot have sent these numbers.
bool read_limit(const limit::ScriptQuestion& question, const limit::StateNumbers& numbers,
                limit::ScriptAnswer& answer) {
    if (numbers.first < 0 || numbers.second < 0) return false;
    return limit::with_kind(question.limit.state(), [&]<class Kind>(std::type_identity<Kind>) {
        if (!Kind::are_possible(question.limit, numbers)) return false;
        answer = Kind::answer(question, numbers);
        return true;
    });
}

// The verdict on one request; false if the reply contradicts itself.
bool tell(const limit::Charge& charge, const Answer& answer, const Answer::Decided& decided,
          limit::Verdict& verdict) {
    verdict.admitted = decided.admitted;
    verdict.shadow_admitted = decided.shadow_admitted;
    verdict.retry_after = verdict.wait = verdict.earliest = Micros{0};
    verdict.limits.clear();
    bool any_denied = false;
    std::size_t position = 0;
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        const ChargeItem& item = charge.items[i];
        const bool granted = answer.grants(item, i, decided);
        const bool is_enforced = item.policy->is_enforced();
        const std::int64_t cost = charge.cost_of(item);
        for (const Limit& limit : item.limits()) {
            const limit::StateNumbers& numbers = answer.numbers[position++];
            const bool counted = limit.count == limit::Count::all && !granted && cost > 0;
            const limit::ScriptQuestion question{limit,
                                                 answer.now,
                                                 cost,
                                                 charge.moment,
                                                 granted ? cost : 0,
                                                 counted,
                                                 Micros{decided.windows_admit_at}};
            limit::ScriptAnswer one;
            if (!read_limit(question, numbers, one)) return false;
            verdict.limits.push_back(one.verdict);
            if (!is_enforced) continue;
            verdict.wait = std::max(verdict.wait, one.wait);
            any_denied = any_denied || one.verdict.denied;
            if (!decided.admitted && !one.passes_now) {
                verdict.retry_after = std::max(verdict.retry_after, one.retry);
            }
        }
    }
    // A denial has a limit that denies, and a time to come back that is not past.
    return decided.admitted != any_denied && verdict.retry_after >= Micros{0} &&
           (decided.admitted || verdict.retry_after > Micros{0});
}

// The numbers once a request is admitted, for the next one in the same command.
void take(const limit::Charge& charge, Answer& answer) {
    std::size_t position = 0;
    for (const ChargeItem& item : charge.items) {
        const std::int64_t cost = charge.cost_of(item);
        for (const Limit& limit : item.limits()) {
            limit::StateNumbers& numbers = answer.numbers[position++];
            if (cost == 0) continue;
            limit::with_kind(limit.state(), [&]<class Kind>(std::type_identity<Kind>) {
                Kind::take_units(limit, answer.now, cost, numbers);
            });
        }
    }
}

// The script lists the schedules in the order in which it looks at them: limits of a run, then
// items.
struct AskedSchedule {
    const Limit* limit;
    std::int64_t cost;
};

std::vector<AskedSchedule> schedules_asked(const limit::Charge& charge, Micros now) {
    std::vector<AskedSchedule> schedules;
    for_each_run(charge.items, [&](std::span<const ChargeItem> run) {
        const ChargeItem& first = run[0];
        for (const Limit& limit : first.limits()) {
            if (!limit.traits().has_moments || !first.policy->is_enforced()) continue;
            if (!limit::concerns_moment(limit, charge.moment, now)) continue;
            schedules.insert(schedules.end(), run.size(), {&limit, charge.cost_of(first)});
        }
    });
    return schedules;
}

// The first moment that all schedules would accept; false if the reply has none.
bool read_schedules(limit::PackedReader& reader, const limit::Charge& charge, Micros now,
                    Micros& earliest) {
    struct Schedule {
        AskedSchedule asked;
        limit::ListedMoments reply;
    };
    std::vector<Schedule> schedules;
    bool have_all = true;
    bool any_takes = false;
    Micros moment{0};
    for (const AskedSchedule& asked : schedules_asked(charge, now)) {
        limit::ListedMoments& reply = schedules.emplace_back(Schedule{asked, {}}).reply;
        any_takes = any_takes || asked.cost > 0;
        if (!limit::read_moments(reader, reply)) return false;
        have_all = have_all && reply.are_all;
        moment = std::max(moment, reply.asked_for);
    }
    if (reader.is_broken() || !have_all || !any_takes) return !reader.is_broken();
    for (Micros before{-1}; before != moment && moment != kNever;) {
        before = moment;
        for (const Schedule& schedule : schedules) {
            if (moment == kNever) break;
            if (schedule.asked.cost == 0) continue;
            const Limit& limit = *schedule.asked.limit;
            moment = limit::earliest_fit(schedule.reply.moments, limit, limit.quota, moment,
                                         schedule.asked.cost);
        }
    }
    earliest = moment == kNever ? Micros{0} : moment;
    return true;
}

// The reply to a charge of windows, alone or among others, begins with this.
std::size_t reply_size(const limit::Charge& charge) {
    std::size_t size = 8 + 1 + 8;
    for (const ChargeItem& item : charge.items) size += 8 + 16 * item.limits().size();
    return size;
}

void forget_what_took_nothing(const limit::Charge& charge, const Answer& answer,
                              const Answer::Decided& decided, limit::Receipt& receipt) {
    for (std::size_t i = 0; i < charge.items.size(); ++i) {
        if (!answer.grants(charge.items[i], i, decided) || charge.cost_of(charge.items[i]) == 0) {
            receipt.generations[i] = 0;
        }
    }
}

}  // namespace

bool can_share_command(const limit::Charge& charge) {
    return std::all_of(charge.items.begin(), charge.items.end(), [](const ChargeItem& item) {
        const auto limits = item.limits();
        return !item.policy->shadow &&
               std::all_of(limits.begin(), limits.end(),
                           [](const Limit& limit) { return limit.only_time_frees(); });
    });
}

bool have_same_runs(const limit::Charge& a, const limit::Charge& b) {
    const auto is_own = [](const ChargeItem& item) {
        return item.own_cost != ChargeItem::kOfCharge;
    };
    for (std::size_t i = 0; i < a.items.size(); ++i) {
        const ChargeItem& in_a = a.items[i];
        const ChargeItem& in_b = b.items[i];
        if (is_own(in_a) != is_own(in_b)) return false;
        if (i == 0 || a.items[i - 1].policy != in_a.policy || a.items[i - 1].tier != in_a.tier) {
            continue;
        }
        const bool same_in_a = a.items[i - 1].own_cost == in_a.own_cost;
        if (same_in_a != (b.items[i - 1].own_cost == in_b.own_cost)) return false;
    }
    return true;
}

bool can_mix(const limit::Charge& charge) {
    constexpr std::size_t kItemsMax = 4;
    return charge.items.size() <= kItemsMax && &charge_script(charge) != &charge_script({});
}

void append_state_key(const ChargeItem& item, std::string_view prefix, std::string& out) {
    append_key(item, prefix, {}, out);
}

void append_set_key(const ChargeItem& item, const Limit& limit, std::string_view prefix,
                    std::string& out) {
    std::array<char, 9> suffix{':'};
    for (std::size_t digit = 0; digit < 8; ++digit) {
        suffix[1 + digit] = kHexDigits[limit.id >> (28 - 4 * digit) & 15];
    }
    append_key(item, prefix, {suffix.data(), suffix.size()}, out);
}

std::size_t reading_keys(std::span<const ChargeItem> items) {
    std::size_t keys = items.size();
    for (const ChargeItem& item : items) {
        const auto limits = item.limits();
        keys += static_cast<std::size_t>(std::count_if(
            limits.begin(), limits.end(), [](const Limit& limit) { return limit.has_set(); }));
    }
    return keys;
}

void append_reading(std::span<const ChargeItem> items, std::size_t keys, std::size_t requests,
                    std::string_view prefix, std::optional<Micros> clock, std::string& out) {
    append_number(keys, out);
    append_reading_keys(items, prefix, out);
    append_reading_argument(items, requests, clock, out);
}

void append_reading_argument(std::span<const ChargeItem> items, std::size_t requests,
                             std::optional<Micros> clock, std::string& out) {
    std::size_t size = kPoliciesHeadBytes;
    for_each_run(items,
                 [&](std::span<const ChargeItem> run) { size += run_size(run[0].limits()); });
    append_length('$', size, out);
    append_packed(static_cast<std::uint8_t>(items.size()), out);
    append_packed(static_cast<std::uint8_t>(requests), out);
    std::span<const ChargeItem> behind = items;
    for_each_run(items, [&](std::span<const ChargeItem> run) {
        behind = behind.subspan(run.size());
        assert(!has_more_of_candidate(*run[0].policy, behind));
        append_run(run, behind, clock, out);
    });
    out += "\r\n";
}

void append_reading_keys(std::span<const ChargeItem> items, std::string_view prefix,
                         std::string& out) {
    for (const ChargeItem& item : items) append_state_key(item, prefix, out);
    for (const ChargeItem& item : items) {
        for (const Limit& limit : item.limits()) {
            if (limit.has_set()) append_set_key(item, limit, prefix, out);
        }
    }
}

void append_charge_arguments(std::span<const limit::Charge> charges, std::optional<Micros> clock,
                             std::string& out) {
    append_reading_argument(charges[0].items, charges.size(), clock, out);
    append_requests(charges, out);
}

void append_charge_command(std::span<const limit::Charge> charges, std::string_view prefix,
                           std::optional<Micros> clock, std::string& out) {
    const limit::Charge& first = charges[0];
    assert(!first.items.empty() && first.items.size() <= 255 && charges.size() <= kBatchMax);
    const std::size_t keys = reading_keys(first.items);
    // The fast path takes several requests only of different items.
    const auto& script = charges.size() == 1 ? charge_script(first) : charge_script({});
    append_call(script, keys, clock, out);
    append_reading(first.items, keys, charges.size(), prefix, clock, out);
    append_requests(charges, out);
    append_clock(clock, out);
}

void append_mixed_command(std::span<const limit::Charge> charges, std::string_view prefix,
                          std::optional<Micros> clock, std::string& out) {
    const limit::Charge& first = charges[0];
    assert(charges.size() > 1 && charges.size() <= kMixedMax && can_mix(first));
    const std::size_t keys = charges.size() * first.items.size();
    append_call(charge_script(first), keys, clock, out);
    append_number(keys, out);
    for (const limit::Charge& charge : charges) {
        assert(charge.items.size() == first.items.size() && charge.cost > 0);
        for (const ChargeItem& item : charge.items) append_state_key(item, prefix, out);
    }
    append_reading_argument(first.items, may_share_a_state(charges) ? 1 : 0, clock, out);
    append_requests(charges, out);
    append_clock(clock, out);
}

bool read_charge_reply(std::string_view reply, std::span<const limit::Charge> charges,
                       std::span<limit::Verdict* const> verdicts) {
    limit::PackedReader reader(reply);
    Answer& answer = answer_of_thread();
    limit::Receipt& receipt = verdicts[0]->receipt;
    if (!read_answer(reader, charges, receipt.generations, answer)) return false;
    receipt.at = answer.now;
    // All took from the same states at the same moment.
    for (std::size_t i = 1; i < charges.size(); ++i) {
        if (!charges[i].has_own_costs()) continue;
        verdicts[i]->receipt = receipt;
        forget_what_took_nothing(charges[i], answer, answer.decided[i], verdicts[i]->receipt);
    }
    forget_what_took_nothing(charges[0], answer, answer.decided[0], receipt);
    for (std::size_t i = 0; i < charges.size(); ++i) {
        if (!tell(charges[i], answer, answer.decided[i], *verdicts[i])) return false;
        if (charges.size() > 1 && answer.decided[i].admitted) take(charges[i], answer);
    }
    if (!reader.is_at_end() &&
        !read_schedules(reader, charges[0], answer.now, verdicts[0]->earliest)) {
        return false;
    }
    return reader.is_at_end();
}

bool read_mixed_reply(std::string_view reply, std::span<const limit::Charge> charges,
                      std::span<limit::Verdict* const> verdicts, std::vector<Mixed>& answers) {
    constexpr char kAskAlone = 4;
    constexpr std::size_t kAskAloneBytes = 9;
    const std::size_t whole = reply_size(charges[0]);
    answers.clear();
    for (std::size_t i = 0; i < charges.size(); ++i) {
        if (reply.size() < kAskAloneBytes) return false;
        const bool alone = reply[kAskAloneBytes - 1] == kAskAlone;
        const std::size_t size = alone ? kAskAloneBytes : whole;
        if (reply.size() < size) return false;
        const bool understood =
            !alone && read_charge_reply(reply.substr(0, size), {&charges[i], 1}, {&verdicts[i], 1});
        answers.push_back(understood ? Mixed::decided
                          : alone    ? Mixed::ask_alone
                                     : Mixed::unreadable);
        reply.remove_prefix(size);
    }
    return reply.empty();
}

}  // namespace tidegate::store
