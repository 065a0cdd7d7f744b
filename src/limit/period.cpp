#include "limit/period.hpp"

#include <cassert>
#include <chrono>

namespace tidegate::limit {
namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::weeks;

Micros begin_of(sys_days day) {
    return day.time_since_epoch();
}

Period week_of(sys_days today) {
    const sys_days monday = today - (std::chrono::weekday(today) - std::chrono::Monday);
    return {begin_of(monday), begin_of(monday + weeks{1})};
}

Period month_of(sys_days today) {
    const std::chrono::year_month_day date(today);
    const auto month = date.year() / date.month();
    const auto next = month + std::chrono::months{1};
    return {begin_of(month / 1), begin_of(next / 1)};
}

}  // namespace

Period period_at(Anchor anchor, Micros at) {
    assert(anchor == Anchor::utc_week || anchor == Anchor::utc_month);
    const sys_days today = std::chrono::floor<days>(std::chrono::sys_time<Micros>(at));
    return anchor == Anchor::utc_week ? week_of(today) : month_of(today);
}

}  // namespace tidegate::limit
