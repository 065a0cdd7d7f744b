// The JSON Schema of the configuration, for editors.
#pragma once

#include <string_view>

namespace tidegate::config {

// config/tidegate.schema.json, as the build found it: JSON Schema 2020-12, with a last line end.
std::string_view schema_text();

}  // namespace tidegate::config
