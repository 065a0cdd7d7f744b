#include "cli/quickstart_certificate.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/utf8.hpp"
#include "config/error_message.hpp"
#include "config/config.hpp"
#include "tls/certificate.hpp"

namespace tidegate::cli {

namespace {

namespace fs = std::filesystem;
using config::ErrorMessage;

constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kForAll = 0644;

std::string cannot_write(const fs::path& path, int error) {
    return fmt::format("cannot write {}: {}; run this in a folder that you may write to",
                       quote(path.string()), std::generic_category().message(error));
}

bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t bytes = ::write(descriptor, text.data(), text.size());
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(bytes));
    }
    return true;
}

// Writes a file that is not there yet. Empty, or why not; then there is none.
std::string write_new(const fs::path& path, std::string_view text, mode_t mode) {
    const int descriptor =
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (descriptor < 0) return cannot_write(path, errno);
    const bool is_written = write_all(descriptor, text);
    const int error = errno;
    ::close(descriptor);
    if (is_written) return {};
    ::unlink(path.c_str());
    return cannot_write(path, error);
}

// Also of a link that leads nowhere: it is not written through.
bool has_entry(const fs::path& path) {
    std::error_code ec;
    return fs::symlink_status(path, ec).type() != fs::file_type::not_found;
}

}  // namespace

Result<QuickstartFiles, std::string> ensure_quickstart_certificate(
    const fs::path& folder, std::chrono::system_clock::time_point now) {
    const fs::path certificate = folder / config::kQuickstartCertificate;
    const fs::path key = folder / config::kQuickstartKey;
    const bool has_certificate = has_entry(certificate);
    if (has_certificate != has_entry(key)) {
        return ErrorMessage{fmt::format(
            "{} is here without {}: remove it, and both are made anew",
            quote(has_certificate ? config::kQuickstartCertificate : config::kQuickstartKey),
            quote(has_certificate ? config::kQuickstartKey : config::kQuickstartCertificate))};
    }
    if (has_certificate) return QuickstartFiles::found;
    const auto made = make_throwaway_certificate(now);
    if (!made) return ErrorMessage{made.error()};
    std::string fault = write_new(key, made->key, kOwnerOnly);
    if (!fault.empty()) return ErrorMessage{std::move(fault)};
    fault = write_new(certificate, made->certificate, kForAll);
    if (fault.empty()) return QuickstartFiles::made;
    ::unlink(key.c_str());
    return ErrorMessage{std::move(fault)};
}

}  // namespace tidegate::cli
