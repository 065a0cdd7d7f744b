#include "matrix/alone.hpp"

#include <iterator>
#include <sstream>
#include <stdexcept>

#include "places.hpp"

namespace tidegate::test {
namespace {

// Long enough for a thread to notice that its server is a replica now.
constexpr milliseconds kUntilAddressMoves{200};

// The rights that docs/redis.md says are enough, word by word.
std::vector<std::string> documented_rights() {
    const std::string begin = "\nACL SETUSER tidegate on >PASSWORD ";
    const std::string text = read_file(source_folder() + "/docs/redis.md");
    const auto at = text.find(begin);
    if (at == std::string::npos) throw std::runtime_error("docs/redis.md names no rights");
    const auto from = at + begin.size();
    std::istringstream line(text.substr(from, text.find('\n', from) - from));
    return {std::istream_iterator<std::string>(line), {}};
}

std::string replication_of(const RedisServer& server) {
    return server.text({"INFO", "replication"});
}

constexpr auto npos = std::string::npos;

}  // namespace

AloneWay::AloneWay(std::string_view way, Fault fault)
    : way_(way), tls_port_(free_port()), server_(arguments(tls_port_)) {
    if (is_of_network(fault) || fault == Fault::failed_over) {
        network_.emplace(way_ == "tls" ? tls_port_ : server_.port());
    }
    if (fault == Fault::failed_over) prepare_heir();
}

std::vector<std::string> AloneWay::arguments(std::uint16_t tls_port) const {
    if (way_ == "acl") {
        std::vector<std::string> words{"--user", "tidegate", "on", ">pw"};
        for (std::string& right : documented_rights()) words.push_back(std::move(right));
        return words;
    }
    if (way_ != "tls") return {};
    const Certificate own = authority_.issue();
    return {"--tls-port",         std::to_string(tls_port),
            "--tls-cert-file",    folder_.write("server.pem", own.pem()),
            "--tls-key-file",     folder_.write("server.key", own.key_pem()),
            "--tls-ca-cert-file", folder_.write("ca.pem", authority_.pem()),
            "--tls-auth-clients", "no"};
}

std::string AloneWay::address() const {
    const auto direct = way_ == "tls" ? tls_port_ : server_.port();
    const std::string port = std::to_string(network_ ? network_->port() : direct);
    if (way_ == "tls") {
        return "url: \"rediss://localhost:" + port + "\", tls: {ca: \"" +
               (folder_.path() / "ca.pem").string() + "\"}";
    }
    return "url: \"redis://" + std::string(way_ == "acl" ? "tidegate:pw@" : "") +
           "127.0.0.1:" + port + (way_ == "acl" ? "/1" : "") + "\"";
}

void AloneWay::prepare_heir() {
    heir_tls_port_ = free_port();
    heir_.emplace(arguments(heir_tls_port_));
    heir_->command({"REPLICAOF", "127.0.0.1", std::to_string(server_.port())});
    await("a replica", [&] { return replication_of(server_).find("state=online") != npos; });
}

void AloneWay::fail_over() {
    await("Redis to begin a failover", [&] {
        return server_.text({"FAILOVER", "TO", "127.0.0.1", std::to_string(heir_->port())}) == "OK";
    });
    await("another master", [&] { return replication_of(*heir_).find("role:master") != npos; });
    pass(kUntilAddressMoves);
    network_->lead_to(way_ == "tls" ? heir_tls_port_ : heir_->port());
}

}  // namespace tidegate::test
