#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "telemetry/top_and_denials.hpp"

namespace tidegate::telemetry::top_and_denials_test {

namespace {

using namespace std::chrono_literals;
using Time = DenialLog::Time;

constexpr std::chrono::system_clock::time_point kNoon{};

bool deny(DenialLog& log, const std::string& identifier, Time now) {
    if (!log.admits(identifier, now)) return false;
    Denial& kept = log.keep(kNoon);
    kept.request_id = "r";
    kept.identifier = identifier;
    kept.count = kept.quota = 10;
    return true;
}

TEST_CASE("denials: at most four a second of one identifier are kept, the others go on") {
    DenialLog log(1);
    const Time begin{1h};
    int kept = 0;
    for (int i = 0; i < 100; ++i) kept += deny(log, "ip:1", begin + i * 1ms) ? 1 : 0;
    CHECK(kept == 4);
    CHECK(deny(log, "ip:2", begin + 500ms));
    CHECK(log.left_out() == 96);
    CHECK_FALSE(deny(log, "ip:1", begin + 999ms));
    CHECK(deny(log, "ip:1", begin + 1s));
}

TEST_CASE("denials: at most 64 a second are kept of a thread") {
    DenialLog log(1);
    const Time begin{1h};
    int kept = 0;
    for (int i = 0; i < 1'000; ++i) {
        kept += deny(log, "ip:" + std::to_string(i), begin + i * 1us) ? 1 : 0;
    }
    CHECK(kept == 64);
    CHECK(log.left_out() == 936);
    CHECK(deny(log, "ip:1", begin + 1s));
}

TEST_CASE("denials: the last 256 are kept, and are read in pieces, oldest first") {
    DenialLog log(1);
    CHECK(log.after(0, 256).empty());
    for (int i = 1; i <= 300; ++i) CHECK(deny(log, "ip:" + std::to_string(i), Time{} + i * 1s));
    const std::vector<Denial> all = log.after(0, 1'000);
    REQUIRE(all.size() == 256);
    CHECK(all.front().identifier == "ip:45");
    CHECK(all.back().identifier == "ip:300");
    CHECK(all.back().number == 300);
    const std::vector<Denial> piece = log.after(50, 16);
    REQUIRE(piece.size() == 16);
    CHECK(piece.front().number == 51);
    CHECK(piece.back().number == 66);
    CHECK(log.after(299, 16).size() == 1);
    CHECK(log.after(300, 16).empty());
    CHECK(log.left_out() == 0);
}

TEST_CASE("denials: texts of any bytes are kept as they are, up to a length") {
    DenialLog log(1);
    const std::string hostile("\0\x1b[2J<script>\"\xff", 15);
    REQUIRE(log.admits(hostile, Time{}));
    Denial& denial = log.keep(kNoon);
    denial.request_id = hostile;
    denial.identifier = hostile;
    denial.route = std::string(1'000, 'r');
    denial.policy = "p";
    denial.limit = "p-1s";
    denial.count = 3;
    denial.quota = 2;
    const Denial kept = log.after(0, 1).at(0);
    CHECK(kept.request_id == hostile);
    CHECK(kept.identifier == hostile);
    CHECK(kept.route == std::string(DenialText::kBytesMax, 'r'));
    CHECK(kept.policy == "p");
    CHECK(kept.limit == "p-1s");
    CHECK(kept.count == 3);
    CHECK(kept.quota == 2);
    CHECK_FALSE(kept.retry_after_seconds);
}

TEST_CASE("denials: a denial has nothing of the one whose place it takes") {
    DenialLog log(1);
    const std::string longer(DenialText::kBytesMax, 'a');
    for (std::size_t i = 0; i < DenialLog::kKept; ++i) {
        Denial& denial = log.keep(kNoon);
        for (DenialText* text : {&denial.request_id, &denial.identifier, &denial.route,
                                 &denial.policy, &denial.limit}) {
            *text = longer;
        }
        denial.count = denial.quota = denial.cost = 7;
        denial.retry_after_seconds = 7;
    }
    const Denial& next = log.keep(kNoon + 1s);
    CHECK(next.number == DenialLog::kKept + 1);
    CHECK(next.time == kNoon + 1s);
    for (const DenialText* text :
         {&next.request_id, &next.identifier, &next.route, &next.policy, &next.limit}) {
        CHECK(text->view().empty());
    }
    CHECK(next.count == 0);
    CHECK(next.quota == 0);
    CHECK(next.cost == 0);
    CHECK_FALSE(next.retry_after_seconds);
}

std::uint64_t total_of(Activity& activity) {
    ActivityCopy copy;
    while (!copy.add_piece(activity, ActivityKind::top_requests, Time{})) {
    }
    return merge(copy.names.generations, 9).total;
}

TEST_CASE("activity: off keeps nothing, and another size begins anew") {
    Activity activity;
    CHECK(activity.names() == nullptr);
    activity.set_names_max(64);
    REQUIRE(activity.names() != nullptr);
    activity.names()->requests.add("a", Time{});
    activity.set_names_max(64);
    CHECK(total_of(activity) == 1);
    activity.set_names_max(128);
    CHECK(total_of(activity) == 0);
    activity.set_names_max(0);
    CHECK(activity.names() == nullptr);
}

TEST_CASE("activity: a copy that a reload interrupts begins anew") {
    Activity activity;
    activity.set_names_max(1'024);
    for (int i = 0; i < 600; ++i) activity.names()->requests.add(std::to_string(i), Time{});
    ActivityCopy copy;
    CHECK_FALSE(copy.add_piece(activity, ActivityKind::top_requests, Time{}));
    activity.set_names_max(512);
    activity.names()->requests.add("a", Time{});
    CHECK(copy.add_piece(activity, ActivityKind::top_requests, Time{}));
    CHECK(merge(copy.names.generations, 9).total == 1);
    activity.set_names_max(0);
    CHECK(copy.add_piece(activity, ActivityKind::top_requests, Time{}));
    CHECK(merge(copy.names.generations, 9).total == 0);
}

TEST_CASE("activity: denials are copied a few at a time, all of them once") {
    Activity activity;
    activity.set_names_max(64);
    DenialLog& log = activity.names()->denials.last;
    for (int i = 1; i <= 300; ++i) CHECK(deny(log, "ip:" + std::to_string(i), Time{} + i * 1s));
    ActivityCopy copy;
    int pieces = 1;
    while (!copy.add_piece(activity, ActivityKind::denials, Time{})) ++pieces;
    CHECK(pieces == 16);
    REQUIRE(copy.denials.size() == 256);
    CHECK(copy.denials.front().number == 45);
    CHECK(copy.denials.back().number == 300);
}

TEST_CASE("activity: denials in shadow are lists of their own") {
    Activity activity;
    activity.set_names_max(64);
    Activity::Names& names = *activity.names();
    names.denials.names.add("ip:1", Time{});
    names.shadow_denials.names.add("ip:2", Time{});
    names.shadow_denials.names.add("ip:2", Time{});
    CHECK(deny(names.denials.last, "ip:1", Time{}));
    for (int i = 0; i < 9; ++i) deny(names.shadow_denials.last, "ip:2", Time{});
    const auto copy_of = [&](ActivityKind kind) {
        ActivityCopy copy;
        while (!copy.add_piece(activity, kind, Time{})) {
        }
        return copy;
    };
    const auto total = [&](ActivityKind kind) {
        return merge(copy_of(kind).names.generations, 9).total;
    };
    CHECK(total(ActivityKind::top_requests) == 0);
    CHECK(total(ActivityKind::top_denials) == 1);
    CHECK(total(ActivityKind::top_shadow) == 2);
    const ActivityCopy denials = copy_of(ActivityKind::denials);
    REQUIRE(denials.denials.size() == 1);
    CHECK(denials.denials[0].identifier == "ip:1");
    CHECK(denials.denials_left_out == 0);
    const ActivityCopy shadow = copy_of(ActivityKind::shadow_denials);
    REQUIRE(shadow.denials.size() == 4);
    CHECK(shadow.denials[0].identifier == "ip:2");
    CHECK(shadow.denials_left_out == 5);
}

}  // namespace

}  // namespace tidegate::telemetry::top_and_denials_test
