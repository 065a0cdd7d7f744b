// A sentinel that answers what the test wants, to any number of connections. On the event loop of
// the test.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/write.hpp>

#include "net/asio.hpp"
#include "redis/cluster_map.hpp"
#include "redis/resp.hpp"

namespace tidegate::test {

class FakeSentinel {
  public:
    using Socket = asio::ip::tcp::socket;

    explicit FakeSentinel(asio::io_context& io) : io_(io), acceptor_(io) { listen(); }
    ~FakeSentinel() {
        *gone_ = true;
        refuse();
    }
    FakeSentinel(const FakeSentinel&) = delete;
    FakeSentinel& operator=(const FakeSentinel&) = delete;

    redis::NodeAddress node() const { return {"127.0.0.1", static_cast<std::uint16_t>(port_)}; }

    // What it knows.
    std::string master_name = "mymaster";
    int master_port = 0;
    std::string password;
    bool is_silent = false;

    // The commands that it got.
    int asked = 0;
    int connections = 0;
    std::size_t subscribers() const {
        std::size_t count = 0;
        for (const auto& peer : peers_) count += peer->is_subscribed ? 1 : 0;
        return count;
    }

    // The master is there now, and all subscribers get the news.
    void switch_to(int port, const std::string& name = "mymaster") {
        const std::string text = name + " 127.0.0.1 " + std::to_string(master_port) +
                                 " 127.0.0.1 " + std::to_string(port);
        master_port = port;
        say_to_subscribers(redis::resp({"message", "+switch-master", text}));
    }
    void say_to_subscribers(const std::string& bytes) {
        error_code ignored;
        for (const auto& peer : peers_) {
            if (peer->is_subscribed) asio::write(peer->socket, asio::buffer(bytes), ignored);
        }
    }
    void hang_up() {
        error_code ignored;
        for (const auto& peer : peers_) peer->socket.close(ignored);
        peers_.clear();
    }
    void refuse() {
        error_code ignored;
        acceptor_.close(ignored);
        hang_up();
    }
    void listen() {
        const asio::ip::tcp::endpoint endpoint(asio::ip::address_v4::loopback(),
                                               static_cast<unsigned short>(port_));
        acceptor_ = asio::ip::tcp::acceptor(io_, endpoint);
        port_ = acceptor_.local_endpoint().port();
        accept();
    }

  private:
    struct Peer {
        explicit Peer(Socket socket_of) : socket(std::move(socket_of)) {}
        Socket socket;
        std::array<char, 4'096> piece{};
        redis::RespReader reader;  // commands are lists, too
        bool is_subscribed = false;
        bool is_known = false;
    };
    using PeerPtr = std::shared_ptr<Peer>;

    void accept() {
        acceptor_.async_accept([this, gone = gone_](const error_code& ec, Socket socket) {
            if (*gone || ec) return;
            ++connections;
            peers_.push_back(std::make_shared<Peer>(std::move(socket)));
            read(peers_.back());
            accept();
        });
    }

    void read(const PeerPtr& peer) {
        peer->socket.async_read_some(
            asio::buffer(peer->piece),
            [this, gone = gone_, peer](const error_code& ec, std::size_t size) {
                if (*gone) return;
                if (ec) {
                    std::erase(peers_, peer);
                    return;
                }
                peer->reader.feed({peer->piece.data(), size});
                std::string answers;
                while (const auto command = peer->reader.next()) {
                    answers += answer(*peer, words_of(*command));
                }
                error_code ignored;
                if (!is_silent) asio::write(peer->socket, asio::buffer(answers), ignored);
                read(peer);
            });
    }

    static std::vector<std::string> words_of(const redis::RespValue& command) {
        std::vector<std::string> words;
        for (const auto& word : command.items) words.push_back(word.text);
        return words;
    }

    std::string answer(Peer& peer, const std::vector<std::string>& words) {
        if (words.front() == "AUTH") {
            peer.is_known = words.back() == password;
            return peer.is_known ? "+OK\r\n" : "-WRONGPASS invalid username-password pair\r\n";
        }
        if (!password.empty() && !peer.is_known) return "-NOAUTH Authentication required.\r\n";
        if (words.front() == "SUBSCRIBE") {
            peer.is_subscribed = true;
            return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
        }
        if (words.front() == "PING") return redis::resp({"pong", ""});
        if (words[1] == "MASTERS") {
            return "*1\r\n*4\r\n$4\r\nname\r\n$" + std::to_string(master_name.size()) + "\r\n" +
                   master_name + "\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n";
        }
        ++asked;
        if (words.back() != master_name) return "*-1\r\n";
        return redis::resp({"127.0.0.1", std::to_string(master_port)});
    }

    asio::io_context& io_;
    asio::ip::tcp::acceptor acceptor_;
    int port_ = 0;
    std::vector<PeerPtr> peers_;
    std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);
};

}  // namespace tidegate::test
