#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "app/shared_state.hpp"
#include "base/file_work.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/files.hpp"
#include "net/descriptor.hpp"
#include "store/replica_heartbeat.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

using telemetry::Level;
using telemetry::log;

std::string system_error_text() {
    return std::generic_category().message(errno);
}

// The number in the text of the file; 0: there is none.
int number_in(std::string_view text) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    const auto number = parse_decimal(text);
    const bool is_good = number && *number >= 1 && *number <= store::kReplicasSeenMax;
    return is_good ? static_cast<int>(*number) : 0;
}

bool write_whole(int descriptor, std::string_view text) {
    const auto size = static_cast<ssize_t>(text.size());
    return ::write(descriptor, text.data(), text.size()) == size && ::fdatasync(descriptor) == 0;
}

}  // namespace

store::ReplicaSettings replica_settings(const config::Config& config) {
    return {.configured = config.replicas.value_or(0),
            .assumed = config.replicas_assumed.value_or(1)};
}

ReplicasFile ReplicasFile::of(config::Environment environment) {
    const std::string folders = environment("STATE_DIRECTORY").value_or("");
    const std::string first = folders.substr(0, folders.find(':'));
    return ReplicasFile(first.starts_with('/') ? first + "/replicas" : std::string());
}

int ReplicasFile::read() const {
    if (path_.empty()) return 0;
    const auto read_it = [path = path_] {
        std::error_code ec;
        const FileWait wait(path);
        const bool is_there = std::filesystem::symlink_status(path, ec).type() !=
                              std::filesystem::file_type::not_found;
        auto text = config::read_file_text(path, kBytesMax, config::FileKind::no_device);
        return std::pair(is_there, std::move(text));
    };
    try {
        const auto [is_there, file] = with_file_patience(read_it);
        if (!is_there) return 0;
        const int number = file && !file->is_larger ? number_in(file->text) : 0;
        if (number == 0) {
            log(Level::warn, "ignores {}, the last number of proxies: {}", displayable(path_),
                !file ? file.error() : "it holds no number from 1 to 1048576");
        }
        return number;
    } catch (const NoAnswerFromFile& silent) {
        log(Level::warn, "ignores the last number of proxies: {}", silent.what());
        return 0;
    }
}

std::string ReplicasFile::write(int number) const {
    const std::string next = path_ + ".new";
    const FileWait wait(next);
    {
        const Descriptor file(
            ::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                   0644));
        if (!file || !write_whole(file.get(), std::to_string(number) + "\n")) {
            return system_error_text();
        }
    }
    return std::rename(next.c_str(), path_.c_str()) == 0 ? std::string() : system_error_text();
}

}  // namespace tidegate::app
