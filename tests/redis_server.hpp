// A Redis server of a test's own, on a free loopback port, gone when the test is.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct redisContext;
struct redisReply;

namespace tidegate::test {

struct FreeReply {
    void operator()(redisReply* reply) const;
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

// One blocking connection. Throws std::runtime_error when it is lost or nothing comes for 10 s.
class RedisConnection {
  public:
    explicit RedisConnection(std::uint16_t port);
    ~RedisConnection();
    RedisConnection(const RedisConnection&) = delete;
    RedisConnection& operator=(const RedisConnection&) = delete;

    // Sends one command and waits for its reply, which may be an error.
    Reply command(const std::vector<std::string>& words);
    // Sends RESP as it is; its replies are then read one by one.
    void send(std::string_view commands);
    Reply read();

  private:
    redisContext* context_;
};

// Owns the process. Not for use by several threads at once.
class RedisServer {
  public:
    // Starts `redis-server` with `arguments` added and waits until it answers PING, or, when it
    // wants a password, refuses to. Throws std::runtime_error after 10 s. A sentinel watches no
    // master at first.
    explicit RedisServer(std::vector<std::string> arguments = {}, bool is_sentinel = false);
    ~RedisServer();
    RedisServer(const RedisServer&) = delete;
    RedisServer& operator=(const RedisServer&) = delete;

    std::uint16_t port() const { return port_; }
    pid_t pid() const { return pid_; }

    void stop();   // kills it; what it held is lost
    void start();  // after stop(): again, on the same port
    void pause();  // it keeps its connections and answers nothing
    void resume();

    // One command over a connection of its own; over another where that is cut off before the
    // reply, as a sentinel does to the clients of a server that it makes a replica.
    Reply command(const std::vector<std::string>& words) const;
    // The same, as text: a string, a status or an error as it is, an integer in decimal, "" for
    // nil.
    std::string text(const std::vector<std::string>& words) const;

  private:
    bool answers() const;
    std::string sentinel_file() const;

    std::vector<std::string> arguments_;
    bool is_sentinel_;
    std::filesystem::path folder_;
    std::uint16_t port_ = 0;
    pid_t pid_ = -1;
};

}  // namespace tidegate::test
