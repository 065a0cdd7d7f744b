#include "app/own_program.hpp"

#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/quote.hpp"

namespace tidegate::app {

namespace {

// The first after standard input, output and error.
constexpr int kChannel = 3;

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
    return pointers;
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
    const std::string& typed = own.arguments_.front();
    if (typed.find('/') != std::string::npos &&
        std::filesystem::equivalent(typed, running, failure)) {
        own.path_ = typed;
    }
    return own;
}

std::vector<std::string> successor_environment(std::vector<std::string> variables, int channel) {
    constexpr std::array<std::string_view, 5> kOfThisProcess{
        "LISTEN_PID=", "LISTEN_FDS=", "LISTEN_FDNAMES=", "WATCHDOG_PID=", "TIDEGATE_HANDOVER="};
    std::erase_if(variables, [&](const std::string& variable) {
        return std::any_of(kOfThisProcess.begin(), kOfThisProcess.end(),
                           [&](std::string_view name) { return variable.starts_with(name); });
    });
    variables.push_back(std::string(kHandoverVariable) + "=" + std::to_string(channel));
    return variables;
}

Result<pid_t, std::string> OwnProgram::start(const Descriptor& channel) const {
    std::vector<std::string> variables;
    for (char** one = environ; *one != nullptr; ++one) variables.emplace_back(*one);
    variables = successor_environment(std::move(variables), kChannel);

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
