#include "net/readiness.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include <boost/asio/posix/stream_descriptor.hpp>

#include "net/connection.hpp"

namespace tidegate {

namespace {

// Then the other work of the loop gets its turn: timers, new connections, answers of Redis.
constexpr int kTurnsInARow = 4;

int new_epoll() {
    const int descriptor = ::epoll_create1(EPOLL_CLOEXEC);
    if (descriptor < 0) throw std::system_error(errno, std::system_category(), "epoll_create1");
    return descriptor;
}

}  // namespace

Readiness::Readiness(asio::io_context& io)
    : turn_(Turn::of(io.get_executor())), epoll_(io.get_executor(), new_epoll()) {
    watch();
    turn_.set_source(this);
}

Readiness::~Readiness() {
    turn_.set_source(nullptr);
}

bool Readiness::add(int descriptor, Connection& connection) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &connection;
    return ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

// Closing takes the descriptor out of the kernel's set; events that were fetched before are dropped
// here.
void Readiness::remove(const Connection& connection) {
    for (std::size_t i = next_; i < count_; ++i) {
        if (events_[i].data.ptr == &connection) events_[i].data.ptr = nullptr;
    }
}

void Readiness::release(int descriptor, const Connection& connection) {
    ::epoll_ctl(epoll_.native_handle(), EPOLL_CTL_DEL, descriptor, nullptr);
    remove(connection);
}

std::uint32_t Readiness::undelivered(const Connection& connection) const {
    for (std::size_t i = next_; i < count_; ++i) {
        if (events_[i].data.ptr == &connection) return events_[i].events;
    }
    return 0;
}

void Readiness::stop() {
    turn_.set_source(nullptr);
    error_code ignored;
    epoll_.close(ignored);
}

void Readiness::watch() {
    epoll_.async_wait(decltype(epoll_)::wait_read, [this](const error_code& ec) {
        if (ec) return;
        // Under load, when a turn brings several at once, there is news again by its end. To ask
        // for it here is one system call; by way of the loop it would be three.
        int turns = 0;
        do {
            turn_.run([] {});
        } while (count_ > 1 && ++turns < kTurnsInARow && epoll_.is_open());
        // Last: the turn's output is on its way before the kernel is asked again.
        if (epoll_.is_open()) watch();
    });
}

void Readiness::tell() noexcept {
    const int fetched =
        ::epoll_wait(epoll_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
    next_ = 0;
    count_ = static_cast<std::size_t>(std::max(fetched, 0));
    while (next_ < count_) {
        const epoll_event event = events_[next_++];
        if (event.data.ptr == nullptr) continue;
        static_cast<Connection*>(event.data.ptr)->on_events(event.events);
    }
}

}  // namespace tidegate
