#include "client/proxy_header_wait.hpp"

#include <array>
#include <utility>

#include "http/proxy_header.hpp"

namespace tidegate::client {

namespace {

constexpr std::chrono::milliseconds kPatienceInDrain{500};

}  // namespace

ProxyHeaderWait::ProxyHeaderWait(Executor executor, DeadlineWheel& deadlines,
                                 ConnectionPtr connection, const Arrival& arrival)
    : sleeper_(std::move(executor), deadlines),
      connection_(std::move(connection)),
      arrival_(arrival) {
    arrival_.has_proxy_header = true;
}

Task<ProxyHeaderWait::End> ProxyHeaderWait::run(std::chrono::milliseconds patience) {
    sleeper_.allow(is_stopping_ ? kPatienceInDrain : patience);
    for (;;) {
        if (connection_->readable()) {
            if (const std::optional<End> end = look()) co_return *end;
        }
        if (sleeper_.expired()) co_return is_stopping_ ? End::left : End::timeout;
        connection_->watch_read(&sleeper_.wakeup());
        co_await sleeper_.sleep();
    }
}

std::optional<ProxyHeaderWait::End> ProxyHeaderWait::look() {
    std::array<char, http::kProxyHeaderBytesMax> bytes;
    const IoResult seen = connection_->peek_some(bytes);
    if (seen.status == IoStatus::would_block) return std::nullopt;
    if (seen.status != IoStatus::ok) return End::left;
    const http::ProxyHeader header = http::read_proxy_header({bytes.data(), seen.bytes});
    fault_ = header.fault;
    if (header.state == http::ProxyHeader::State::malformed) return End::malformed;
    if (header.state == http::ProxyHeader::State::incomplete) {
        if (!connection_->has_hung_up()) {
            connection_->await_more();
            return std::nullopt;
        }
        fault_ = "is not whole";
        return End::malformed;
    }
    const IoResult taken = connection_->read_some({bytes.data(), header.bytes});
    if (taken.bytes != header.bytes) return End::left;
    const bool is_all = seen.bytes == header.bytes && seen.bytes < bytes.size();
    if (is_all && !connection_->has_hung_up()) connection_->await_more();
    if (header.ends) {
        arrival_.peer.address = header.ends->source;
        arrival_.local_port = header.ends->destination_port;
        arrival_.port_is_published = true;
    }
    return End::complete;
}

void ProxyHeaderWait::on_drain() {
    is_stopping_ = true;
    sleeper_.allow(kPatienceInDrain);
}

void ProxyHeaderWait::cut_off() {
    is_stopping_ = true;
    if (connection_) connection_->reset();
    sleeper_.wakeup().wake_later();
}

}  // namespace tidegate::client
