#include "integration/process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "places.hpp"

namespace tidegate::test {

TemporaryFolder::TemporaryFolder() {
    auto name = (std::filesystem::temp_directory_path() / "tidegate-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
        throw std::runtime_error("mkdtemp " + name + ": " + std::strerror(errno));
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, std::string_view text) const {
    const auto file = path_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
}

std::string read_file(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

Process::Process(const std::vector<std::string>& arguments, const std::filesystem::path& folder)
    : folder_(folder) {
    std::vector<char*> argv;
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);

    const auto out = (folder_ / "stdout").string();
    const auto err = (folder_ / "stderr").string();
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND;
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), kFlags, 0600);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), kFlags, 0600);
    const int failed = ::posix_spawnp(&pid_, argv[0], &files, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0)
        throw std::runtime_error("cannot start " + arguments[0] + ": " + std::strerror(failed));
}

Process::~Process() {
    if (!running()) return;
    signal(SIGKILL);
    wait(kPatience);
}

void Process::signal(int number) const {
    // Once it is reaped, another process may have its id.
    if (!ended_) ::kill(pid_, number);
}

std::optional<int> Process::wait(milliseconds patience) {
    const auto deadline = Clock::now() + patience;
    while (!ended_) {
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) == pid_) {
            ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        } else if (Clock::now() >= deadline) {
            break;
        } else {
            std::this_thread::sleep_for(milliseconds{2});
        }
    }
    return ended_;
}

std::string program() {
    const char* chosen = std::getenv("TIDEGATE_PROGRAM");
    return chosen != nullptr ? chosen : built_program();
}

bool sanitized() {
    if (const char* said = std::getenv("TIDEGATE_SANITIZED")) return std::strcmp(said, "1") == 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return true;
#else
    return false;
#endif
}

milliseconds slack() {
    return milliseconds{sanitized() ? 400 : 50};
}

Finished run_tidegate(const std::vector<std::string>& arguments) {
    const TemporaryFolder folder;
    std::vector<std::string> command{program()};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Process process(command, folder.path());
    const auto code = process.wait(kPatience);
    if (!code) throw std::runtime_error("tidegate " + arguments.front() + " does not end");
    return {.code = *code, .output = process.output(), .errors = process.errors()};
}

}  // namespace tidegate::test
