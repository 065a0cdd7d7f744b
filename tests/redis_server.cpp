#include "redis_server.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <hiredis/hiredis.h>

#include "free_port.hpp"

namespace tidegate::test {
namespace {

using namespace std::chrono_literals;

constexpr auto kStartDeadline = 10s;
constexpr timeval kReplyTimeout{10, 0};

std::system_error failed(const char* what) {
    return {errno, std::generic_category(), what};
}

// In the child: nothing but calls that are safe after fork in a program with threads.
[[noreturn]] void become(char* const* words, const char* log, pid_t parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);  // it died before we asked
    const int fd = ::open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0) {
        ::dup2(fd, STDOUT_FILENO);
        ::dup2(fd, STDERR_FILENO);
    }
    ::execvp(words[0], words);
    ::_exit(127);
}

}  // namespace

void FreeReply::operator()(redisReply* reply) const {
    ::freeReplyObject(reply);
}

RedisConnection::RedisConnection(std::uint16_t port)
    : context_(::redisConnectWithTimeout("127.0.0.1", port, kReplyTimeout)) {
    if (context_ == nullptr) throw std::bad_alloc();
    if (context_->err != 0) {
        const std::string reason = context_->errstr;
        ::redisFree(context_);
        throw std::runtime_error("redis: " + reason);
    }
    ::redisSetTimeout(context_, kReplyTimeout);
}

RedisConnection::~RedisConnection() {
    ::redisFree(context_);
}

Reply RedisConnection::command(const std::vector<std::string>& words) {
    std::vector<const char*> starts;
    std::vector<std::size_t> sizes;
    for (const std::string& word : words) {
        starts.push_back(word.data());
        sizes.push_back(word.size());
    }
    ::redisAppendCommandArgv(context_, static_cast<int>(words.size()), starts.data(), sizes.data());
    return read();
}

void RedisConnection::send(std::string_view commands) {
    ::redisAppendFormattedCommand(context_, commands.data(), commands.size());
}

Reply RedisConnection::read() {
    void* reply = nullptr;
    if (::redisGetReply(context_, &reply) != REDIS_OK) {
        throw std::runtime_error(std::string("redis: ") + context_->errstr);
    }
    return Reply(static_cast<redisReply*>(reply));
}

RedisServer::RedisServer(std::vector<std::string> arguments, bool is_sentinel)
    : arguments_(std::move(arguments)), is_sentinel_(is_sentinel) {
    std::string name = (std::filesystem::temp_directory_path() / "redis-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw failed("mkdtemp");
    folder_ = name;
    port_ = free_port();
    start();
}

RedisServer::~RedisServer() {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
}

void RedisServer::start() {
    std::vector<std::string> words{"redis-server"};
    if (is_sentinel_) words.push_back(sentinel_file());
    words.insert(words.end(), {"--port", std::to_string(port_), "--bind", "127.0.0.1", "--save", "",
                               "--appendonly", "no", "--dir", folder_.string()});
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    if (is_sentinel_) words.emplace_back("--sentinel");
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const std::string log = (folder_ / "log").string();
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) throw failed("fork");
    if (pid_ == 0) become(pointers.data(), log.c_str(), parent);

    const auto deadline = std::chrono::steady_clock::now() + kStartDeadline;
    while (!answers()) {
        const bool gone = ::waitpid(pid_, nullptr, WNOHANG) == pid_;
        if (gone) pid_ = -1;
        if (gone || std::chrono::steady_clock::now() > deadline) {
            stop();
            throw std::runtime_error("redis-server did not start on port " + std::to_string(port_));
        }
        std::this_thread::sleep_for(5ms);
    }
}

void RedisServer::stop() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
}

void RedisServer::pause() {
    ::kill(pid_, SIGSTOP);
}
void RedisServer::resume() {
    ::kill(pid_, SIGCONT);
}

Reply RedisServer::command(const std::vector<std::string>& words) const {
    for (int tries = 1;; ++tries) {
        RedisConnection connection(port_);
        try {
            return connection.command(words);
        } catch (const std::runtime_error&) {
            if (tries == 3) throw;
        }
    }
}

std::string RedisServer::text(const std::vector<std::string>& words) const {
    const Reply reply = command(words);
    if (reply->type == REDIS_REPLY_INTEGER) return std::to_string(reply->integer);
    if (reply->str == nullptr) return {};
    return {reply->str, reply->len};
}

// A sentinel writes what it learns into it, so it has to be there.
std::string RedisServer::sentinel_file() const {
    const std::filesystem::path file = folder_ / "sentinel.conf";
    std::ofstream(file, std::ios::app);
    return file.string();
}

bool RedisServer::answers() const {
    try {
        const std::string answer = text({"PING"});
        return answer == "PONG" || answer.starts_with("NOAUTH");
    } catch (const std::runtime_error&) {
        return false;
    }
}

}  // namespace tidegate::test
