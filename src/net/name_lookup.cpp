#include "net/name_lookup.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

namespace tidegate {

struct NameLookup::Shared {
    std::string host;
    std::uint16_t port;
    std::vector<StreamProtocol::endpoint> endpoints;
    std::string error;
    std::atomic<bool> done{false};  // releases what is above

    void run();
};

void NameLookup::Shared::run() {
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    const int outcome = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
    if (outcome == 0) {
        for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
            endpoints.emplace_back(entry->ai_addr, entry->ai_addrlen);
        }
        ::freeaddrinfo(found);
    } else {
        error = ::gai_strerror(outcome);
    }
    done.store(true, std::memory_order_release);
}

NameLookup::NameLookup(std::string host, std::uint16_t port) : shared_(std::make_shared<Shared>()) {
    shared_->host = std::move(host);
    shared_->port = port;
    try {
        std::thread([shared = shared_] { shared->run(); }).detach();
    } catch (const std::system_error& failed) {
        shared_->error = failed.what();
        shared_->done = true;
    }
}

bool NameLookup::done() const {
    return shared_->done.load(std::memory_order_acquire);
}

const std::vector<StreamProtocol::endpoint>& NameLookup::endpoints() const {
    return shared_->endpoints;
}

const std::string& NameLookup::error() const {
    return shared_->error;
}

}  // namespace tidegate
