// A file of Envoy's rate limit service: whatever it holds, the configuration has rules that can be
// looked up, or an error with a message.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "fuzz_check.hpp"

namespace {

using namespace tidegate;

std::string path() {
    return "/tmp/tidegate-fuzz-rls-" + std::to_string(::getpid()) + ".yaml";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::ofstream(path(), std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    const auto loaded = config::load_text(
        "listen: {address: '127.0.0.1:1', face: envoy_grpc}\nrls: {files: [" + path() + "]}\n",
        "fuzz", [](std::string_view) { return std::optional<std::string>(); });
    ::unlink(path().c_str());
    FUZZ_CHECK((loaded.config == nullptr) == !loaded.errors.empty());
    for (const auto& error : loaded.errors) FUZZ_CHECK(!error.message.empty());
    return 0;
}
