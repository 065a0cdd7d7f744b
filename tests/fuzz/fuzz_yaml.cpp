// The configuration's reader: any text gives a configuration or says where it is wrong.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.hpp"
#include "fuzz_check.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto loaded = tidegate::config::load_text(
        text, "fuzz.yaml", [](std::string_view name) -> std::optional<std::string> {
            if (name.empty()) return std::nullopt;
            return "1";
        });
    FUZZ_CHECK((loaded.config == nullptr) == !loaded.errors.empty());
    for (const auto& error : loaded.errors) {
        FUZZ_CHECK(!error.message.empty());
        FUZZ_CHECK(error.to_string().find('\n') == std::string::npos);
    }
    if (!loaded.config) return 0;
    FUZZ_CHECK(!loaded.config->listen.empty());
    for (const auto& route : loaded.config->routes) {
        FUZZ_CHECK(route.upstream < loaded.config->upstreams.size());
    }
    return 0;
}
