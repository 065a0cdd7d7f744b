// The classes that count, and how to find that of a limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include <boost/mp11/algorithm.hpp>
#include <boost/mp11/list.hpp>

#include "limit/algorithm.hpp"
#include "limit/concurrency.hpp"
#include "limit/gcra.hpp"
#include "limit/schedule.hpp"
#include "limit/window.hpp"

namespace tidegate::limit {

// In the order of StateKind.
using Kinds = boost::mp11::mp_list<WindowCount<std::uint16_t>, BucketCount,
                                   WindowCount<std::uint64_t>, ScheduleCount, SlotCount,
                                   PeriodCount, WindowCount<std::uint16_t, std::uint64_t>>;

inline constexpr std::size_t kKinds = boost::mp11::mp_size<Kinds>::value;
static_assert(kKinds == kStateKinds);

// Calls `use(std::type_identity<Kind>{})` with the class of `state`. Comparisons, for a table of
// functions would cost a jump that is hard to foresee.
template <std::size_t First = 0, class Use>
decltype(auto) with_kind(StateKind state, Use&& use) {
    if constexpr (First + 1 < kKinds) {
        if (static_cast<std::size_t>(state) != First) {
            return with_kind<First + 1>(state, std::forward<Use>(use));
        }
    }
    return use(std::type_identity<boost::mp11::mp_at_c<Kinds, First>>{});
}

template <class Kind>
using StandingOf = typename Kind::Standing;
template <class Kind>
using UnreportedOf = typename Kind::Unreported;

// A type for each class, each type once.
template <template <class> class Of>
using OneOfKinds =
    boost::mp11::mp_rename<boost::mp11::mp_unique<boost::mp11::mp_transform<Of, Kinds>>,
                           std::variant>;

}  // namespace tidegate::limit
