#include "app/socket_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

#include "base/file_work.hpp"
#include "base/quote.hpp"
#include "net/descriptor.hpp"

namespace tidegate::app {

namespace {

std::string errno_text(int error) {
    return std::generic_category().message(error);
}

std::string set_group(int descriptor, const struct stat& now, const std::string& group) {
    const auto id = config::find_group(group);
    if (!id) return "there is no group " + quote(group) + " on this system";
    if (now.st_gid == *id) return {};
    if (::fchownat(descriptor, "", static_cast<uid_t>(-1), *id, AT_EMPTY_PATH) == 0) return {};
    if (errno != EPERM) {
        return "the group " + quote(group) + " cannot be set: " + errno_text(errno);
    }
    return "this process may not give the socket to the group " + quote(group) +
           ": make its user a member of the group (systemd: `SupplementaryGroups=" + group +
           "`), or grant CAP_CHOWN";
}

std::string set_mode(int descriptor, unsigned mode) {
    // chmod() of an O_PATH descriptor, which follows no link at the path itself.
    const std::string opened = "/proc/self/fd/" + std::to_string(descriptor);
    if (::chmod(opened.c_str(), mode) == 0) return {};
    return "its mode cannot be set: " + errno_text(errno);
}

}  // namespace

std::string set_socket_file(const std::string& path, const config::SocketFile& wanted) {
    if (wanted == config::SocketFile{}) return {};
    const FileWait wait(path);
    const Descriptor file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat now {};
    if (!file || ::fstat(file.get(), &now) != 0) {
        return "its file cannot be opened: " + errno_text(errno);
    }
    if (!S_ISSOCK(now.st_mode)) return "another file has taken its place";
    constexpr unsigned kPermissions = 07777;
    const unsigned former = now.st_mode & kPermissions;
    const unsigned mode = wanted.mode.value_or(former);
    // What the new mode takes away goes before the group changes, and what it adds comes behind.
    std::string wrong;
    if ((former & mode) != former) wrong = set_mode(file.get(), former & mode);
    if (wrong.empty() && !wanted.group.empty()) wrong = set_group(file.get(), now, wanted.group);
    if (wrong.empty() && (former & mode) != mode) wrong = set_mode(file.get(), mode);
    return wrong;
}

}  // namespace tidegate::app
