// Writes the metrics that a struct declares (telemetry/metric.hpp). Only the sources of metrics
// include it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <boost/pfr/core.hpp>

#include "telemetry/metric.hpp"

namespace tidegate::telemetry {

namespace detail {

// Calls `visit.operator()<0>()`, `visit.operator()<1>()` and so on: once for each member of the
// aggregate `Members`, in the order in which they are declared.
template <class Members, class Visit>
void for_each_index(Visit&& visit) {
    [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
        (visit.template operator()<kIndex>(), ...);
    }
    (std::make_index_sequence<boost::pfr::tuple_size_v<Members>>());
}

}  // namespace detail

// Writes every member of the aggregate `Members`, which is `Metrics` or a base of it, in the order
// in which they are declared. A member that is no metric does not compile, so a counter that
// /metrics lacks cannot be declared.
template <class Members, class Metrics>
void write_members(Exposition& out, Threads<Metrics> threads) {
    detail::for_each_index<Members>([&]<std::size_t kIndex>() {
        using Member = boost::pfr::tuple_element_t<kIndex, Members>;
        Member::write(out, parts_of<Member>(threads, [](const Members& one) -> const Member& {
                          return boost::pfr::get<kIndex>(one);
                      }));
    });
}

// Writes every member of the aggregate `Row`, of which a thread has one for each name:
// `row_of(metrics, slot)`. The members are counted ByName.
template <class Row, class Metrics, class RowOf>
void write_rows(Exposition& out, Threads<Metrics> threads, const NameList<std::string>& names,
                RowOf&& row_of) {
    detail::for_each_index<Row>([&]<std::size_t kIndex>() {
        using Member = boost::pfr::tuple_element_t<kIndex, Row>;
        const Family family = out.family(Member::info());
        for (std::size_t slot = 0; slot < names.size(); ++slot) {
            const auto of_slot = [&](const Metrics& one) -> const typename Member::Kind& {
                return boost::pfr::get<kIndex>(row_of(one, slot));
            };
            const std::string_view name = names[slot];
            Member::Traits::add(family, {&name, 1},
                                parts_of<typename Member::Kind>(threads, of_slot));
        }
    });
}

}  // namespace tidegate::telemetry
