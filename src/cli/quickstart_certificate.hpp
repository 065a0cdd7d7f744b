// The certificate that `tidegate quickstart --tls` shows, and its key, in two files.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "base/result.hpp"

namespace tidegate::cli {

enum class QuickstartFiles { made, found };

// Makes config::kQuickstartCertificate and config::kQuickstartKey in `folder`, the key for its
// owner's eyes only. If both are there they stay, and nothing that is there is ever written over.
// Or why not, as a sentence.
Result<QuickstartFiles, std::string> ensure_quickstart_certificate(
    const std::filesystem::path& folder, std::chrono::system_clock::time_point now);

}  // namespace tidegate::cli
