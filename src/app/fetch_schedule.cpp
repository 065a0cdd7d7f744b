#include "app/fetch_schedule.hpp"

#include <algorithm>

namespace tidegate::app {

namespace {

// `whole` less up to `part` of it.
SteadyTime::duration shortened(std::chrono::milliseconds whole, double part, double luck) {
    return std::chrono::duration_cast<SteadyTime::duration>(whole * (1 - part * luck));
}

}  // namespace

SteadyTime FetchSchedule::due(bool wanted) const {
    return wanted ? std::min(due_, wanted_from_) : due_;
}

void FetchSchedule::begin(SteadyTime now) {
    wanted_from_ = now + timing_.wanted_every;
}

void FetchSchedule::succeeded(SteadyTime now, double luck) {
    retry_ = {};
    has_succeeded_ = true;
    due_ = now + shortened(timing_.every, 0.1, luck);
}

void FetchSchedule::failed(SteadyTime now, double luck) {
    retry_ = retry_.count() == 0 ? timing_.retry : std::min(retry_ * 2, timing_.retry_max);
    due_ = now + shortened(retry_, 0.5, luck);
    if (has_succeeded_) due_ = std::max(due_, wanted_from_);
}

}  // namespace tidegate::app
