#include "ask/moment.hpp"

#include "base/timestamp.hpp"
#include "http/request_value.hpp"

namespace tidegate::ask {

using http::RequestValue;

Moment moment_of(const config::Route& route, const Facts& facts) {
    const config::MomentSource& source = *route.moment;
    const RequestValue stated = source.in == config::MomentSource::In::header
                                    ? http::value_in_fields(facts.head.fields, source.name)
                                    : http::value_in_query(facts.head.query, source.name);
    if (stated.how == RequestValue::How::absent) {
        return {std::nullopt, "The request does not say when it is meant for."};
    }
    if (stated.how == RequestValue::How::unclear) {
        return {std::nullopt, "The request says in more than one way when it is meant for."};
    }
    const auto at = parse_timestamp(stated.value);
    if (at) return {at, {}};
    return {std::nullopt,
            "The moment the request is meant for is neither RFC 3339 nor Unix seconds."};
}

}  // namespace tidegate::ask
