#include <array>
#include <chrono>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "store/charge_script.hpp"
#include "store_asking.hpp"

namespace tidegate::store::charge_reply_test {
namespace {

using namespace std::chrono_literals;
using limit::Algorithm;
using limit::ChargeItem;
using limit::kNever;
using limit::Limit;
using limit::LimitSpec;
using limit::Micros;
using limit::Verdict;
using test::doubles;
using test::made;
using test::packed;
using test::policy;
using test::spec_of;
using test::window;

constexpr std::int64_t kNow = 1'700'000'000'000'000;

constexpr char kDenied = 2;    // by what is enforced; what is in shadow admits
constexpr char kAdmitted = 3;  // by both
constexpr char kShadowDenied = 1;

// The beginning of a reply to one request.
std::string begun(char admitted, double windows_admit_at = 0) {
    return doubles(kNow) + admitted + doubles(windows_admit_at);
}

std::string units(double count, double next_free) {
    return doubles(count, next_free);
}

// The list of a schedule that denied.
std::string moments(std::int64_t looked_at, const std::vector<std::string>& members) {
    std::string out = doubles(looked_at) + packed(static_cast<std::uint16_t>(members.size()));
    for (const std::string& member : members) out += static_cast<char>(member.size()) + member;
    return out;
}

// One policy, charged for one identifier.
struct Asked {
    explicit Asked(std::vector<Limit> limits, std::int64_t cost = 1)
        : some(policy("p", std::move(limits))), charge{{&item, 1}, cost} {}
    Asked(const Asked&) = delete;
    Asked& operator=(const Asked&) = delete;

    bool reads(std::string_view reply) {
        Verdict* const verdicts[] = {&verdict};
        return read_charge_reply(reply, {&charge, 1}, verdicts);
    }

    limit::Policy some;
    ChargeItem item{&some, "user:a"};
    limit::Charge charge;
    Verdict verdict{};
};

// One of each algorithm, and a reply that admits all.
std::vector<Limit> one_of_each() {
    LimitSpec log_all = spec_of(Algorithm::sliding_log, 5, 1s);
    log_all.count = limit::Count::all;
    return {window(5, 1s),
            made(spec_of(Algorithm::fixed_window, 5, 1min)),
            made(log_all),
            made(spec_of(Algorithm::gcra, 4, 1s)),
            made(spec_of(Algorithm::leaky_bucket, 4, 1s)),
            made(spec_of(Algorithm::schedule, 5, 1h)),
            made(spec_of(Algorithm::concurrency, 5, 0s))};
}

std::string admission_of_each() {
    return begun(kAdmitted) + doubles(9) + units(2, kNow + 5) + units(0, 0) + units(1, kNow + 7) +
           doubles(0, kNow + 250'000, 0, kNow + 250'000) + doubles(1, 0) + doubles(2, 0);
}

}  // namespace

TEST_CASE("charge_reply: an admission by windows states what is left after it") {
    Asked asked({window(5, 1s), window(9, 1min)}, 2);
    REQUIRE(asked.reads(begun(kAdmitted) + doubles(77) + units(1, kNow + 1'000) + units(0, 0)));
    const Verdict& verdict = asked.verdict;
    CHECK(verdict.admitted);
    CHECK(verdict.shadow_admitted);
    CHECK(verdict.retry_after == 0us);
    REQUIRE(verdict.limits.size() == 2);
    CHECK(verdict.limits[0].remaining == 2);
    CHECK(verdict.limits[0].next_unit == 1'000us);
    CHECK(verdict.limits[1].remaining == 7);
    CHECK(verdict.limits[1].next_unit == 60'000'000us - Micros{kNow % 1'000'000});
    CHECK(verdict.receipt.at == Micros{kNow});
    CHECK(verdict.receipt.generations == std::vector<std::uint64_t>{77});
}

TEST_CASE("charge_reply: a denial by windows states which limit denied and when it passes") {
    Asked asked({window(5, 1s), window(9, 1min)}, 2);
    REQUIRE(
        asked.reads(begun(kDenied, kNow + 777) + doubles(77) + units(4, kNow + 100) + units(0, 0)));
    const Verdict& verdict = asked.verdict;
    CHECK_FALSE(verdict.admitted);
    CHECK(verdict.retry_after == 777us);
    CHECK(verdict.limits[0].denied);
    CHECK(verdict.limits[0].remaining == 1);
    CHECK(verdict.limits[0].next_unit == 100us);
    CHECK_FALSE(verdict.limits[1].denied);
    CHECK(verdict.limits[1].remaining == 9);
    CHECK(verdict.limits[1].next_unit == 0us);
    CHECK(verdict.receipt.generations == std::vector<std::uint64_t>{0});  // nothing was taken
}

TEST_CASE("charge_reply: a cost above the quota never passes, whatever the windows say") {
    Asked asked({window(5, 1s), window(9, 1min)}, 6);
    REQUIRE(asked.reads(begun(kDenied) + doubles(77) + units(0, 0) + units(8, kNow + 9)));
    CHECK(asked.verdict.retry_after == kNever);
    Asked huge({window(5, 1s)}, std::numeric_limits<std::int64_t>::max() / 2);
    REQUIRE(huge.reads(begun(kDenied) + doubles(77) + units(0, 0)));
    CHECK(huge.verdict.retry_after == kNever);
}

TEST_CASE("charge_reply: where denied requests count too, the state is that after the denial") {
    LimitSpec spec = spec_of(Algorithm::sliding_window, 5, 1s);
    spec.count = limit::Count::all;
    Asked asked({made(spec)});
    REQUIRE(asked.reads(begun(kDenied, kNow + 40) + doubles(77) + units(6, kNow + 20)));
    CHECK(asked.verdict.limits[0].denied);
    CHECK(asked.verdict.limits[0].remaining == 0);
    CHECK(asked.verdict.retry_after == 40us);
    // Full now, but not denied by this one: the other limit was.
    Asked both({made(spec), window(1, 1s)});
    REQUIRE(both.reads(begun(kDenied, kNow + 40) + doubles(77) + units(5, kNow + 20) +
                       units(1, kNow + 40)));
    CHECK_FALSE(both.verdict.limits[0].denied);
    CHECK(both.verdict.limits[1].denied);
    // Units saturate, so of the largest quota there are never more.
    spec.quota = limit::kQuotaMax;
    Asked most({made(spec)});
    REQUIRE(
        most.reads(begun(kDenied, kNow + 40) + doubles(77) + units(limit::kQuotaMax, kNow + 20)));
    CHECK(most.verdict.limits[0].denied);
    CHECK(most.verdict.retry_after == 40us);
}

TEST_CASE("charge_reply: a bucket's time is stated to the microsecond") {
    Asked asked({made(spec_of(Algorithm::gcra, 3, 1s))});
    // Nearly full: three units of a third of a second each, less a microsecond and two thirds.
    REQUIRE(asked.reads(begun(kDenied) + doubles(77) + doubles(1, kNow + 999'998)));
    CHECK(asked.verdict.retry_after == 333'332us);  // 333,331 and two thirds
    CHECK(asked.verdict.limits[0].denied);
    CHECK(asked.verdict.limits[0].remaining == 0);
    REQUIRE(asked.reads(begun(kAdmitted) + doubles(77) + doubles(0, 0)));
    CHECK(asked.verdict.limits[0].remaining == 2);
    CHECK(asked.verdict.limits[0].next_unit == 333'334us);
}

TEST_CASE("charge_reply: a line holds what it admits") {
    LimitSpec spec = spec_of(Algorithm::leaky_bucket, 4, 1s);
    spec.max_delay = 500ms;
    Asked asked({made(spec)});
    REQUIRE(asked.reads(begun(kAdmitted) + doubles(77) + doubles(1, kNow + 400'000)));
    CHECK(asked.verdict.wait == 400'001us);
    REQUIRE(asked.reads(begun(kAdmitted) + doubles(77) + doubles(0, kNow - 1)));
    CHECK(asked.verdict.wait == 0us);
    REQUIRE(asked.reads(begun(kDenied) + doubles(77) + doubles(0, kNow + 500'001)));
    CHECK(asked.verdict.wait == 0us);
    CHECK(asked.verdict.retry_after == 1us);
    Asked unaffordable({made(spec)}, 5);
    REQUIRE(unaffordable.reads(begun(kDenied) + doubles(77) + doubles(0, 0)));
    CHECK(unaffordable.verdict.retry_after == kNever);
}

TEST_CASE("charge_reply: a denial by schedule names the first moment that passes") {
    Asked asked({made(spec_of(Algorithm::schedule, 2, 1h))});
    const std::int64_t hour = 3'600'000'000;
    asked.charge.moment = Micros{kNow + 10};
    const std::string full = begun(kDenied) + doubles(77) + doubles(2, 0);
    REQUIRE(asked.reads(full + moments(kNow + 10, {std::to_string(kNow + 5) + ":1",
                                                   std::to_string(kNow + 20) + ":1"})));
    CHECK(asked.verdict.retry_after == kNever);
    CHECK(asked.verdict.limits[0].denied);
    CHECK(asked.verdict.earliest == Micros{kNow + 5 + hour});
    REQUIRE(asked.reads(full + moments(kNow + 10, {std::to_string(kNow + 10) + ":2"})));
    CHECK(asked.verdict.earliest == Micros{kNow + 10 + hour});
    Asked unaffordable({made(spec_of(Algorithm::schedule, 2, 1h))}, 3);
    REQUIRE(unaffordable.reads(begun(kDenied) + doubles(77) + doubles(0, 0) + moments(kNow, {})));
    CHECK(unaffordable.verdict.earliest == 0us);
}

TEST_CASE("charge_reply: a schedule whose list is not complete names no moment") {
    LimitSpec spec = spec_of(Algorithm::schedule, 2'000, 1h);
    spec.horizon = 1h;
    Asked asked({made(spec)});
    std::vector<std::string> members;
    for (int i = 0; i < 4'000; ++i) members.push_back(std::to_string(kNow + i) + ":2");
    const std::string full = begun(kDenied) + doubles(77) + doubles(2'000, 0);
    REQUIRE(asked.reads(full + moments(kNow, members)));
    CHECK(asked.verdict.earliest == 0us);
    members.pop_back();
    REQUIRE(asked.reads(full + moments(kNow, members)));
    CHECK(asked.verdict.earliest > 0us);
}

TEST_CASE("charge_reply: the reply of a schedule is moments and units, or it is refused") {
    Asked asked({made(spec_of(Algorithm::schedule, 2, 1h))});
    const std::string full = begun(kDenied) + doubles(77) + doubles(2, 0);
    for (const char* member : {"", ":", "1:", ":1", "1:0", "1:-1", "x:1", "1:1x", "1;1", " 1:1",
                               "99999999999999999999:1", "1:99999999999", "1:100001"}) {
        CAPTURE(member);
        CHECK_FALSE(asked.reads(full + moments(kNow, {member})));
    }
    CHECK_FALSE(asked.reads(full + moments(kNow, {"1:100000", "2:100000", "3:100000"})));
    CHECK_FALSE(asked.reads(full + moments(kNow, {"1:1"}) + moments(kNow, {"1:1"})));
}

TEST_CASE("charge_reply: slots that are held, and one that is held already") {
    Asked asked({made(spec_of(Algorithm::concurrency, 3, 0s))});
    REQUIRE(asked.reads(begun(kAdmitted) + doubles(77) + doubles(2, 0)));
    CHECK(asked.verdict.limits[0].remaining == 0);
    REQUIRE(asked.reads(begun(kAdmitted) + doubles(77) + doubles(3, 1)));
    CHECK(asked.verdict.limits[0].remaining == 0);
    REQUIRE(asked.reads(begun(kDenied) + doubles(77) + doubles(3, 0)));
    CHECK(asked.verdict.limits[0].denied);
    CHECK(asked.verdict.retry_after == 1s);
    CHECK_FALSE(asked.reads(begun(kDenied) + doubles(77) + doubles(3, 1)));
}

TEST_CASE("charge_reply: a shadow verdict states what it would have done and changes nothing") {
    auto enforced = policy("p", {window(5, 1s)});
    auto watched = policy("q", {window(1, 1s)});
    watched.shadow = true;
    const std::vector<ChargeItem> items{{&enforced, "a"}, {&watched, "a"}};
    const limit::Charge charge{items, 1};
    Verdict verdict;
    Verdict* const verdicts[] = {&verdict};
    const std::string reply =
        begun(kShadowDenied) + doubles(7) + units(1, kNow + 9) + doubles(8) + units(1, kNow + 9);
    REQUIRE(read_charge_reply(reply, {&charge, 1}, verdicts));
    CHECK(verdict.admitted);
    CHECK_FALSE(verdict.shadow_admitted);
    CHECK(verdict.retry_after == 0us);
    CHECK(verdict.limits[1].denied);
    CHECK(verdict.receipt.generations == std::vector<std::uint64_t>{7, 0});
}

TEST_CASE("charge_reply: of charges in one command each sees what those before it took") {
    const auto some = policy("p", {window(5, 1s), made(spec_of(Algorithm::gcra, 5, 1s))});
    const ChargeItem item{&some, "a"};
    const std::vector<limit::Charge> charges{
        {{&item, 1}, 3}, {{&item, 1}, 3}, {{&item, 1}, 0}, {{&item, 1}, 2}};
    Verdict first;
    Verdict second;
    Verdict third;
    Verdict fourth;
    Verdict* const verdicts[] = {&first, &second, &third, &fourth};
    const std::string until = doubles(kNow + 1'000'000);
    const std::string reply = doubles(kNow) + kAdmitted + doubles(0) + kDenied + until + kAdmitted +
                              doubles(0) + kAdmitted + doubles(0) + doubles(7) + units(0, 0) +
                              doubles(0, 0);
    REQUIRE(read_charge_reply(reply, charges, verdicts));
    CHECK(first.limits[0].remaining == 2);
    CHECK(first.limits[1].remaining == 2);
    CHECK_FALSE(second.admitted);
    CHECK(second.retry_after == 1s);
    CHECK(second.limits[0].denied);
    CHECK(second.limits[1].denied);
    CHECK(third.limits[0].remaining == 2);
    CHECK(fourth.limits[0].remaining == 0);
    CHECK(fourth.limits[0].next_unit == 1s);
    CHECK(fourth.limits[1].remaining == 0);
    // The same with the second admitted contradicts what the first took.
    std::string wrong = reply;
    wrong[8 + 9] = kAdmitted;
    CHECK_FALSE(read_charge_reply(wrong, charges, verdicts));
}

TEST_CASE("charge_reply: charges of different items in one command have a verdict each") {
    const auto some = policy("p", {window(5, 1s), window(9, 1min)});
    const std::array<ChargeItem, 3> items{{{&some, "a"}, {&some, "b"}, {&some, "c"}}};
    const std::vector<limit::Charge> charges{
        {{&items[0], 1}, 1}, {{&items[1], 1}, 2}, {{&items[2], 1}, 1}};
    std::array<Verdict, 3> read;
    Verdict* const verdicts[] = {&read[0], &read[1], &read[2]};
    std::vector<Mixed> answers;
    const std::string admission =
        begun(kAdmitted) + doubles(7) + units(0, kNow) + units(1, kNow + 9);
    const std::string alone = doubles(kNow) + '\4';
    const std::string denial =
        begun(kDenied, kNow + 9) + doubles(8) + units(5, kNow + 9) + units(2, kNow + 9);
    REQUIRE(read_mixed_reply(admission + alone + denial, charges, verdicts, answers));
    CHECK(answers == std::vector{Mixed::decided, Mixed::ask_alone, Mixed::decided});
    CHECK(read[0].admitted);
    CHECK(read[0].limits[0].remaining == 4);
    CHECK(read[0].receipt.generations == std::vector<std::uint64_t>{7});
    CHECK_FALSE(read[2].admitted);
    CHECK(read[2].retry_after == 9us);
    CHECK(read[2].limits[0].denied);
    REQUIRE(read_mixed_reply(alone + alone + alone, charges, verdicts, answers));
    CHECK(answers == std::vector(3, Mixed::ask_alone));
    // A reply that contradicts itself is the fault of its own key alone.
    const std::string mad = begun(kDenied) + doubles(8) + units(5, kNow + 9) + units(2, kNow + 9);
    REQUIRE(read_mixed_reply(admission + mad + denial, charges, verdicts, answers));
    CHECK(answers == std::vector{Mixed::decided, Mixed::unreadable, Mixed::decided});
    REQUIRE(read_mixed_reply(denial.substr(0, 8) + '\5' + denial.substr(9) + alone + admission,
                             charges, verdicts, answers));
    CHECK(answers == std::vector{Mixed::unreadable, Mixed::ask_alone, Mixed::decided});

    const auto refused = [&](const std::string& reply) {
        return !read_mixed_reply(reply, charges, verdicts, answers);
    };
    CHECK(refused(""));
    CHECK(refused(admission));
    CHECK(refused(admission + alone));
    CHECK(refused(admission + alone + denial + "x"));
    CHECK(refused(admission + alone + denial + alone));
    CHECK(refused(admission + denial.substr(1) + alone));
    CHECK(refused(admission + alone + denial.substr(0, denial.size() - 1)));
    CHECK(refused(admission + alone + (doubles(kNow) + '\5')));
    for (std::size_t size = 0; size < admission.size(); ++size) {
        REQUIRE(refused(alone + alone + admission.substr(0, size)));
    }
}

TEST_CASE("charge_reply: a reply that contradicts itself or the charge is refused") {
    Asked asked({window(5, 1s), made(spec_of(Algorithm::gcra, 4, 1s))}, 2);
    const std::string good = units(1, kNow + 9) + doubles(3, kNow + 9);
    const std::string full = units(4, kNow + 9) + doubles(0, 0);
    REQUIRE(asked.reads(begun(kAdmitted) + doubles(7) + good));
    REQUIRE(asked.reads(begun(kDenied, kNow + 9) + doubles(7) + full));
    CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7) + full));
    CHECK_FALSE(asked.reads(begun(kDenied, kNow + 9) + doubles(7) + good));
    CHECK_FALSE(asked.reads(begun(kDenied) + doubles(7) + full));        // when, then?
    CHECK_FALSE(asked.reads(begun(kDenied, kNow) + doubles(7) + full));  // now?
    CHECK_FALSE(asked.reads(begun(kDenied, kNow - 1) + doubles(7) + full));
    CHECK_FALSE(asked.reads(begun(4) + doubles(7) + good));
    CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7) + good + "x"));
    CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7) + good + doubles(1, 2)));
    CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7) + units(-1, 0) + doubles(0, 0)));
    CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7) + units(1, -1) + doubles(0, 0)));
    CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7) + units(0, 0) + doubles(4, kNow)));
    CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7) + units(0, 0) + doubles(-1, kNow)));
}

TEST_CASE("charge_reply: a number that is not whole, not exact or none at all is refused") {
    Asked asked({window(5, 1s)});
    const double fault[] = {0.5,
                            -0.5,
                            1e300,
                            -1e300,
                            18014398509481984,
                            std::numeric_limits<double>::infinity(),
                            -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN()};
    for (double number : fault) {
        CAPTURE(number);
        CHECK_FALSE(asked.reads(doubles(number) + kAdmitted + doubles(0, 7, 0, 0)));
        CHECK_FALSE(asked.reads(begun(kAdmitted, number) + doubles(7, 0, 0)));
        CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(number, 0, 0)));
        CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7, number, 0)));
        CHECK_FALSE(asked.reads(begun(kAdmitted) + doubles(7, 0, number)));
    }
    CHECK_FALSE(asked.reads(doubles(-1) + kAdmitted + doubles(0, 7, 0, 0)));
    CHECK_FALSE(asked.reads(doubles(9007199254740992.0) + kAdmitted + doubles(0, 7, 0, 0)));
}

TEST_CASE("charge_reply: a reply cut at any byte is refused") {
    Asked asked(one_of_each());
    const std::string admission = admission_of_each();
    REQUIRE(asked.reads(admission));
    CHECK(asked.verdict.limits.size() == 7);
    for (std::size_t size = 0; size < admission.size(); ++size) {
        CAPTURE(size);
        CHECK_FALSE(asked.reads(std::string_view(admission).substr(0, size)));
    }
    Asked scheduled({made(spec_of(Algorithm::schedule, 2, 1h))});
    const std::string head = begun(kDenied) + doubles(77) + doubles(2, 0);
    const std::string denial = head + moments(kNow, {std::to_string(kNow) + ":2"});
    REQUIRE(scheduled.reads(denial));
    for (std::size_t size = 0; size < denial.size(); ++size) {
        CAPTURE(size);
        // Without any moments it is a denial that names none.
        CHECK(scheduled.reads(std::string_view(denial).substr(0, size)) == (size == head.size()));
    }
}

TEST_CASE("charge_reply: rubbish of every length is read within its bounds") {
    Asked asked(one_of_each());
    const std::string admission = admission_of_each();
    std::mt19937 random(7);
    int understood = 0;
    for (int i = 0; i < 40'000; ++i) {
        // Sized exactly, on the heap: a read past the end is a fault under the sanitizer.
        std::vector<char> bytes(admission.begin(), admission.end());
        if (i % 2 == 0) bytes.resize(random() % 200);
        for (char& byte : bytes) {
            if (random() % 16 == 0) byte = static_cast<char>(random() % 4 == 0 ? random() : 0);
        }
        if (!asked.reads({bytes.data(), bytes.size()})) continue;
        ++understood;
        REQUIRE(asked.verdict.limits.size() == 7);
        REQUIRE(asked.verdict.retry_after >= 0us);
        REQUIRE(asked.verdict.wait >= 0us);
        for (const limit::LimitVerdict& one : asked.verdict.limits) REQUIRE(one.remaining >= 0);
    }
    CHECK(understood > 0);
}

TEST_CASE("charge_reply: nothing of an earlier verdict is left") {
    Asked asked({made(spec_of(Algorithm::leaky_bucket, 4, 1s))});
    asked.verdict.wait = 5s;
    asked.verdict.earliest = 6s;
    asked.verdict.retry_after = 7s;
    asked.verdict.shadow_admitted = false;
    asked.verdict.limits.resize(9);
    asked.verdict.receipt = {1s, {1, 2, 3}};
    REQUIRE(asked.reads(begun(kAdmitted) + doubles(7) + doubles(0, 0)));
    CHECK(asked.verdict.wait == 0us);
    CHECK(asked.verdict.earliest == 0us);
    CHECK(asked.verdict.retry_after == 0us);
    CHECK(asked.verdict.shadow_admitted);
    CHECK(asked.verdict.limits.size() == 1);
    CHECK(asked.verdict.receipt.generations == std::vector<std::uint64_t>{7});
}

}  // namespace tidegate::store::charge_reply_test
