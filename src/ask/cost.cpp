#include "ask/cost.hpp"

#include "base/units.hpp"
#include "http/request_value.hpp"

namespace tidegate::ask {

using http::RequestValue;

Cost cost_of(const config::Route& route, const Facts& facts) {
    if (!route.header_cost) return {route.cost};
    const config::HeaderCost& source = *route.header_cost;
    const RequestValue stated = http::value_in_fields(facts.head.fields, source.field);
    if (stated.how == RequestValue::How::absent) return {route.cost};
    if (!source.from_anyone && !facts.peer.trusted) {
        return {route.cost, true, CostFault::untrusted};
    }
    const auto cost = parse_decimal(stated.value);
    if (stated.how == RequestValue::How::unclear || !cost) {
        return {route.cost, true, CostFault::unreadable};
    }
    if (*cost < source.min || *cost > source.max) {
        return {route.cost, true, CostFault::out_of_range};
    }
    return {*cost, true};
}

}  // namespace tidegate::ask
