#include "app/own_program.hpp"

#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/utf8.hpp"

namespace tidegate::app {

namespace {

// The first after standard input, output and error.
constexpr int kChannel = 3;

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
}

// Where a shell finds a program that is called so.
std::vector<std::string> paths_of(const std::string& typed) {
    if (typed.find('/') != std::string::npos) return {typed};
    std::vector<std::string> paths;
    const char* const variable = std::getenv("PATH");
    std::istringstream folders(variable != nullptr ? variable : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        paths.push_back((folder.empty() ? "." : folder) + "/" + typed);
    }
    return paths;
}

// What the child does between its birth and its program.
struct SpawnActions {
    SpawnActions() {
        ::posix_spawn_file_actions_init(&files);
        ::posix_spawnattr_init(&attributes);
    }
    ~SpawnActions() {
        ::posix_spawn_file_actions_destroy(&files);
        ::posix_spawnattr_destroy(&attributes);
    }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;

    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
};

}  // namespace

OwnProgram OwnProgram::of_this_process() {
    OwnProgram own;
    std::ifstream file("/proc/self/cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t at = 0; at < line.size();) {
        const std::size_t end = std::min(line.find('\0', at), line.size());
        own.arguments_.push_back(line.substr(at, end - at));
        at = end + 1;
    }
    std::error_code failure;
    const std::filesystem::path running = "/proc/self/exe";
    own.path_ = std::filesystem::read_symlink(running, failure).string();
    if (own.arguments_.empty()) own.arguments_.push_back(own.path_);
    // A link that leads to the version in use is followed anew.
    for (const std::string& path : paths_of(own.arguments_.front())) {
        if (!std::filesystem::equivalent(path, running, failure)) continue;
        own.path_ = path;
        break;
    }
    return own;
}

std::vector<std::string> successor_environment(std::vector<std::string> variables, int channel) {
    constexpr std::array<std::string_view, 5> kOfThisProcess{
        "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID", kHandoverVariable};
    std::erase_if(variables, [&](const std::string& variable) {
        const std::string_view name = std::string_view(variable).substr(0, variable.find('='));
        return std::find(kOfThisProcess.begin(), kOfThisProcess.end(), name) !=
               kOfThisProcess.end();
    });
    variables.push_back(std::string(kHandoverVariable) + "=" + std::to_string(channel));
    return variables;
}

Result<pid_t, std::string> OwnProgram::start(const Descriptor& channel) const {
    std::vector<std::string> variables;
    for (char** one = environ; *one != nullptr; ++one) variables.emplace_back(*one);
    variables = successor_environment(std::move(variables), kChannel);

    // Where the channel has that number already, it still stays open in the child. All else goes,
    // for not every library opens its descriptors so that a program that is started lacks them.
    SpawnActions actions;
    ::posix_spawn_file_actions_adddup2(&actions.files, channel.get(), kChannel);
    ::posix_spawn_file_actions_addclosefrom_np(&actions.files, kChannel + 1);
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&actions.attributes, &none);
    ::posix_spawnattr_setflags(&actions.attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t pid = -1;
    const int error = ::posix_spawn(&pid, path_.c_str(), &actions.files, &actions.attributes,
                                    pointers_to(arguments_).data(), pointers_to(variables).data());
    if (error != 0) {
        return "cannot start " + quote(path_) + ": " + std::generic_category().message(error);
    }
    return pid;
}

}  // namespace tidegate::app
