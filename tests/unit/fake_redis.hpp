// A server that speaks just enough RESP, answers what a test says and fails on command. On the
// event loop of the test, which never sleeps: it runs the loop until something has happened.
#pragma once

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include "net/asio.hpp"

namespace tidegate::test {

using Words = std::vector<std::string>;

// Runs `io` until `done()`; false when that takes longer than anything here may.
template <class Done>
bool run_until(asio::io_context& io, Done done,
               std::chrono::milliseconds patience = std::chrono::seconds{30}) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!done()) {
        if (std::chrono::steady_clock::now() >= deadline) return false;
        io.restart();
        io.run_one_until(deadline);
    }
    return true;
}

class FakeRedis {
  public:
    using Acceptor = asio::ip::tcp::acceptor;
    using Socket = asio::ip::tcp::socket;

    explicit FakeRedis(asio::io_context& io) : io_(io), acceptor_(io) {
        std::signal(SIGPIPE, SIG_IGN);
        listen();
    }
    ~FakeRedis() {
        *gone_ = true;
        refuse();
    }
    FakeRedis(const FakeRedis&) = delete;
    FakeRedis& operator=(const FakeRedis&) = delete;

    int port() const { return port_; }

    // The answer to a command; "" is silence. EVALSHA goes to `evalsha`, all else to `other`.
    std::function<std::string(const Words&)> evalsha = [](const Words&) { return "+done\r\n"; };
    std::function<std::string(const Words&)> other = [](const Words&) { return "+OK\r\n"; };

    std::vector<Words> seen;           // every command, of all connections
    std::vector<std::size_t> by_read;  // how many were whole after each read that ended some
    int connections = 0;               // accepted so far

    std::size_t count(std::string_view name) const {
        std::size_t found = 0;
        for (const Words& words : seen) found += words.front() == name ? 1 : 0;
        return found;
    }

    // To the connection that is there.
    void say(std::string_view bytes) {
        error_code ignored;
        if (socket_) asio::write(*socket_, asio::buffer(bytes), ignored);
    }
    void hang_up() {
        error_code ignored;
        if (socket_) socket_->close(ignored);
        socket_.reset();
    }
    // New connections are refused until listen() is called; the one that is there is closed.
    void refuse() {
        error_code ignored;
        acceptor_.close(ignored);
        hang_up();
    }
    void listen() {
        const asio::ip::tcp::endpoint endpoint(asio::ip::address_v4::loopback(),
                                               static_cast<unsigned short>(port_));
        acceptor_ = Acceptor(io_, endpoint);
        port_ = acceptor_.local_endpoint().port();
        accept();
    }

  private:
    void accept() {
        acceptor_.async_accept([this, gone = gone_](const error_code& ec, Socket socket) {
            if (*gone || ec) return;
            ++connections;
            received_.clear();
            socket_ = std::make_shared<Socket>(std::move(socket));
            read(socket_);
            accept();
        });
    }

    void read(const std::shared_ptr<Socket>& socket) {
        socket->async_read_some(asio::buffer(piece_), [this, gone = gone_, socket](
                                                          const error_code& ec, std::size_t size) {
            if (ec || *gone || socket != socket_) return;
            received_.append(piece_.data(), size);
            answer_all();
            if (socket == socket_) read(socket);
        });
    }

    void answer_all() {
        std::size_t commands = 0;
        std::string answers;
        for (Words words; take_command(words); words.clear()) {
            ++commands;
            seen.push_back(words);
            answers += words.front() == "EVALSHA" ? evalsha(words) : other(words);
        }
        if (commands != 0) by_read.push_back(commands);
        if (!answers.empty()) say(answers);
    }

    // One whole command, off the front of what was received.
    bool take_command(Words& words) {
        std::string_view rest = received_;
        const auto number = [&](char type, std::size_t& value) {
            const std::size_t end = rest.find("\r\n");
            if (end == std::string_view::npos) return false;
            REQUIRE(rest.front() == type);
            value = std::stoul(std::string(rest.substr(1, end - 1)));
            rest.remove_prefix(end + 2);
            return true;
        };
        std::size_t size = 0;
        if (!number('*', size)) return false;
        for (; size != 0; --size) {
            std::size_t length = 0;
            if (!number('$', length) || rest.size() < length + 2) return false;
            words.emplace_back(rest.substr(0, length));
            rest.remove_prefix(length + 2);
        }
        received_.erase(0, received_.size() - rest.size());
        return true;
    }

    asio::io_context& io_;
    Acceptor acceptor_;
    int port_ = 0;
    std::shared_ptr<Socket> socket_;
    std::string received_;
    std::vector<char> piece_ = std::vector<char>(1 << 20);
    std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);
};

}  // namespace tidegate::test
