#include "base/json_text.hpp"

#include <nlohmann/json.hpp>

namespace tidegate {

std::string json_text(const nlohmann::ordered_json& value, JsonStyle style) {
    using Handler = nlohmann::ordered_json::error_handler_t;
    return value.dump(style.indent, ' ', style.ascii,
                      style.strict ? Handler::strict : Handler::replace);
}

}  // namespace tidegate
