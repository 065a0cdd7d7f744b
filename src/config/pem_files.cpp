#include "config/pem_files.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "base/file_work.hpp"
#include "base/timestamp.hpp"
#include "base/utf8.hpp"
#include "config/referenced_file.hpp"

namespace tidegate::config {

namespace {

using std::chrono::system_clock;

}  // namespace

std::string shown_moment(system_clock::time_point moment) {
    const auto since_epoch = std::max(moment.time_since_epoch(), system_clock::duration::zero());
    return format_timestamp(std::chrono::duration_cast<std::chrono::seconds>(since_epoch));
}

void warn_about_time(const Value& value, const std::string& path, const X509& certificate) {
    const auto now = system_clock::now();
    const std::string which = "a certificate in " + quote(path);
    if (valid_until(certificate) < now) {
        value.warn(which + " has expired, on " + shown_moment(valid_until(certificate)));
    } else if (valid_from(certificate) > now) {
        value.warn(which + " is not valid before " + shown_moment(valid_from(certificate)));
    }
}

std::optional<CertificateFile> read_certificate_file(const Value& value, std::string_view example) {
    auto file = read_referenced_file(value, example);
    if (!file) return std::nullopt;
    value.context().files.push_back(file->path);
    auto certificates = parse_certificates(file->text);
    if (!certificates) {
        value.fault("the file " + quote(file->path) + " " + certificates.error());
        return std::nullopt;
    }
    return CertificateFile{std::move(file->path), std::move(file->text), std::move(*certificates)};
}

void warn_if_world_readable(const Value& value, const std::string& path, std::string_view what) {
    namespace fs = std::filesystem;
    std::error_code ec;
    const FileWait wait(path);
    const fs::perms perms = fs::status(path, ec).permissions();
    if (ec || (perms & fs::perms::others_read) == fs::perms::none) return;
    value.warn("every user of this machine may read the " + std::string(what) +
               ": remove the permission (`chmod o-r`) from " + quote(path));
}

std::optional<KeyFile> read_key_file(const Value& value, std::string_view example) {
    auto file = read_referenced_file(value, example);
    if (!file) return std::nullopt;
    value.context().files.push_back(file->path);
    auto key = parse_private_key(file->text);
    if (!key) {
        value.fault("the file " + quote(file->path) + " " + key.error());
        return std::nullopt;
    }
    warn_if_world_readable(value, file->path, "private key");
    return KeyFile{std::move(file->path), std::move(file->text), std::move(*key)};
}

}  // namespace tidegate::config
