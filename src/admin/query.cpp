#include "admin/query.hpp"

#include <utility>

#include "http/request_value.hpp"

namespace tidegate::admin {

Result<std::optional<std::string>, AdminAnswer> asked_in_query(std::string_view target,
                                                               std::string_view name) {
    const std::size_t mark = target.find('?');
    const auto query = mark == std::string_view::npos ? std::string_view() : target.substr(mark);
    http::RequestValue stated = http::value_in_query(query, name);
    switch (stated.how) {
        case http::RequestValue::How::once:
            return std::optional(std::move(stated.value));
        case http::RequestValue::How::absent:
            return std::optional<std::string>();
        case http::RequestValue::How::unclear:
            break;
    }
    return problem(400, "The query can be read in more than one way.");
}

}  // namespace tidegate::admin
