#include "upstream/health_checks.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/units.hpp"
#include "base/version.hpp"
#include "http/head.hpp"

namespace tidegate::upstream {

namespace {

using std::chrono::milliseconds;

// How often the checks look whether names lead to other servers.
constexpr milliseconds kFollowEvery{500};
constexpr http::HeadBounds kHeadBounds{16'384, 200, 16'384};
// What the check reads of an answer, so that the server can finish it.
constexpr std::size_t kAnswerBytesMax = 65'536;

// The status of the final answer at the front of `bytes`; 0: it is not whole yet, -1: no answer.
int status_of(std::string_view bytes) {
    constexpr int kFinal = 200;
    for (;;) {
        http::HeadScanner scanner;
        const std::size_t length = scanner.scan(bytes, kHeadBounds);
        if (scanner.fault() != http::HeadFault::none) return -1;
        if (length == 0) return 0;
        http::ResponseHead head;
        if (http::parse_response_head(bytes.substr(0, length), kHeadBounds, head) !=
            http::HeadFault::none) {
            return -1;
        }
        if (head.status >= kFinal) return head.status;
        bytes.remove_prefix(length);
    }
}

// Too many descriptors are in use: that says nothing about a server.
bool is_want_of_ours(error_code ec) {
    namespace errc = boost::system::errc;
    return ec == errc::too_many_files_open || ec == errc::too_many_files_open_in_system ||
           ec == errc::no_buffer_space || ec == errc::not_enough_memory;
}

}  // namespace

HealthChecks::HealthChecks(const Executor& executor, GroupPtr group)
    : executor_(executor),
      group_(std::move(group)),
      changed_(executor),
      random_(static_cast<std::minstd_rand::result_type>(
          std::chrono::steady_clock::now().time_since_epoch().count())) {}

Task<> HealthChecks::run(std::shared_ptr<HealthChecks> self) {
    if (!self->group_->settings().health_check) co_return;
    while (!self->stopped_) {
        for (const ServerPtr& server : self->group_->servers()) {
            const auto is_it = [&](const auto& one) { return one.lock() == server; };
            if (std::any_of(self->watched_.begin(), self->watched_.end(), is_it)) continue;
            self->watched_.emplace_back(server);
            spawn_vital(self->executor_, watch(self, server));
        }
        self->changed_.expires_after(kFollowEvery);
        co_await self->changed_.async_wait(as_values);
    }
}

void HealthChecks::stop() {
    stopped_ = true;
    changed_.cancel();
    for (Timer* const pause : pauses_) pause->cancel();
    for (const auto& socket : sockets_) socket->close();
}

Task<> HealthChecks::watch(std::shared_ptr<HealthChecks> self, ServerPtr server) {
    Timer pause(self->executor_);
    self->pauses_.push_back(&pause);
    while (!self->stopped_ && !server->state.is_draining()) {
        // From beginning to beginning: a check that takes long does not stretch `every`.
        pause.expires_after(self->next_pause());
        const auto socket = std::make_shared<TimedSocket>(StreamSocket(self->executor_));
        self->sockets_.push_back(socket);
        const std::optional<std::string> fault = co_await self->check(server, socket);
        std::erase(self->sockets_, socket);
        if (self->stopped_ || server->state.is_draining()) break;
        if (fault) self->group_->note_check(*server, *fault);
        co_await pause.async_wait(as_values);
    }
    std::erase(self->pauses_, &pause);
    std::erase_if(self->watched_, [&](const auto& one) { return one.lock() == server; });
}

// Ten percent more or less, so that the checks of many proxies do not come at once.
milliseconds HealthChecks::next_pause() {
    const auto every = group_->settings().health_check->every;
    const std::int64_t tenth = every.count() / 10;
    return every +
           milliseconds(std::uniform_int_distribution<std::int64_t>(-tenth, tenth)(random_));
}

std::string HealthChecks::request_for(const SharedServer& server) const {
    const config::HealthCheck& settings = *group_->settings().health_check;
    return "GET " + settings.path +
           " HTTP/1.1\r\nHost: " + (settings.host.empty() ? server.authority : settings.host) +
           "\r\nUser-Agent: tidegate-health/" + std::string(kVersion) +
           "\r\nAccept: */*\r\nConnection: close\r\n\r\n";
}

Task<std::optional<std::string>> HealthChecks::check(ServerPtr server,
                                                     std::shared_ptr<TimedSocket> socket) {
    const config::HealthCheck& settings = *group_->settings().health_check;
    error_code no_socket;
    socket->socket().open(server->endpoint.protocol(), no_socket);
    if (is_want_of_ours(no_socket)) co_return std::nullopt;
    if (no_socket) co_return "cannot connect: " + no_socket.message();
    socket->expect_within(settings.timeout);
    const auto too_late = [&](std::string_view what) {
        return std::string(what) + " within " + format_duration(settings.timeout);
    };

    auto [ec] = co_await socket->socket().async_connect(server->endpoint, as_values);
    // Its time may have ended in the same turn of the loop, and the socket with it.
    if (!socket->socket().is_open()) co_return too_late("it accepts no connection");
    if (ec) {
        socket->close();
        co_return "cannot connect: " + ec.message();
    }
    if (settings.path.empty()) {
        socket->close();
        co_return std::string();
    }
    const std::string request = request_for(*server);
    std::size_t count = 0;
    for (std::size_t sent = 0; !ec && sent < request.size(); sent += count) {
        std::tie(ec, count) =
            co_await socket->socket().async_write_some(asio::buffer(request) + sent, as_values);
    }
    std::string answer;
    int status = 0;
    while (!ec && answer.size() < kAnswerBytesMax) {
        char bytes[4'096];
        std::tie(ec, count) =
            co_await socket->socket().async_read_some(asio::buffer(bytes), as_values);
        answer.append(bytes, count);
        if (status == 0) status = status_of(answer);
        if (status < 0) break;
    }
    const bool late = !socket->socket().is_open();
    socket->close();
    if (status == 0) {
        co_return late ? too_late("it does not answer") : "it closes without an answer";
    }
    if (status < 0) co_return "its answer is not HTTP";
    const auto fits = [&](const config::StatusRange& range) { return range.contains(status); };
    if (std::any_of(settings.status.begin(), settings.status.end(), fits)) co_return std::string();
    co_return "it answers " + std::to_string(status);
}

}  // namespace tidegate::upstream
