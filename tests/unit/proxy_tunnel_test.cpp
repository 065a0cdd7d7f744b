#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "proxy/request.hpp"
#include "proxy/tunnel.hpp"
#include "unit/proxy_world.hpp"
#include "unit/upstream_world.hpp"

namespace tidegate::proxy::tunnel_test {

using namespace std::chrono_literals;

namespace {

constexpr http::HeadBounds kBounds{16'384, 100, 16'384};
constexpr std::string_view kHandshake =
    "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
constexpr std::string_view kSwitched =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

std::string with_route(const std::string& more = "", const std::string& top = "") {
    return "upstreams: {api: {servers: [http://127.0.0.1:3000]}}\nroutes:\n"
           "  - {upgrade: [websocket], policies: []" +
           more + "}\n" + top;
}

// A frame of a server or, with a mask of zeros, of a client.
std::string frame(unsigned first, std::string_view payload, bool masked) {
    std::string out(1, static_cast<char>(first));
    if (payload.size() < 126) {
        out += static_cast<char>(payload.size() | (masked ? 0x80U : 0U));
    } else {
        out += static_cast<char>(126U | (masked ? 0x80U : 0U));
        out += static_cast<char>(payload.size() >> 8);
        out += static_cast<char>(payload.size() & 0xff);
    }
    if (masked) out.append(4, '\0');
    return out.append(payload);
}
std::string from_client(std::string_view payload, unsigned first = 0x81) {
    return frame(first, payload, true);
}
std::string from_server(std::string_view payload, unsigned first = 0x81) {
    return frame(first, payload, false);
}
std::string close_to_client(std::uint16_t code, std::string_view reason) {
    std::string payload{static_cast<char>(code >> 8), static_cast<char>(code & 0xff)};
    return from_server(payload.append(reason), 0x88);
}

// A Close frame that the proxy sends in place of the client, unmasked.
std::string unmasked(std::string bytes) {
    if (bytes.size() < 6) return bytes;
    for (std::size_t i = 6; i < bytes.size(); ++i) {
        bytes[i] = static_cast<char>(bytes[i] ^ bytes[2 + (i - 6) % 4]);
    }
    return bytes.erase(2, 4);
}
const std::string kGoingAway("\x88\x82\x03\xe9", 4);

// The far end of a connection of the proxy's.
class Far {
  public:
    explicit Far(int descriptor) : descriptor_(descriptor) {}
    ~Far() { close(); }
    void send(std::string_view bytes) const {
        REQUIRE(::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(bytes.size()));
    }
    // Sends as much as there is room for, and returns how much that was.
    std::size_t send_some(std::string_view bytes) const {
        const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        return sent > 0 ? static_cast<std::size_t>(sent) : 0;
    }
    std::string got() {
        std::string all;
        std::array<char, 65'536> block;
        for (;;) {
            const ssize_t bytes = ::recv(descriptor_, block.data(), block.size(), 0);
            is_ended = bytes == 0;
            if (bytes <= 0) return all;
            all.append(block.data(), static_cast<std::size_t>(bytes));
        }
    }
    void finish() const { ::shutdown(descriptor_, SHUT_WR); }
    void close() {
        if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
    }

    bool is_ended = false;  // the last got() has found the end

  private:
    int descriptor_;
};

std::pair<int, int> socket_pair() {
    std::array<int, 2> ends{};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) == 0);
    return {ends[0], ends[1]};
}

// A request for a WebSocket and, once open() has run, its tunnel.
struct Rig {
    explicit Rig(const std::string& yaml = with_route(), std::string_view early = "")
        : world(yaml),
          context{.executor = world.io.get_executor(),
                  .generation = world.generation,
                  .thread = 0,
                  .metrics = world.metrics,
                  .engine = {world.io.get_executor(), world.limiter, passwords, world.ask_metrics},
                  .request_ids = {},
                  .exchanges = {world.io.get_executor(), world.wheel, world.buffers},
                  .date = {}} {
        const auto [near, far] = socket_pair();
        browser.emplace(far);
        link.reset(new client::Http1Link{
            .input = {ConnectionPtr(new Connection(world.readiness, near)), world.buffers},
            .sleeper = {world.io.get_executor(), world.wheel},
            .arrival = {.local_port = 80},
            .is_draining = world.is_draining});
        client.begin(*link);
        browser->send(std::string(kHandshake) + std::string(early));
        settle();
        REQUIRE(client.read_head(kBounds) == client::Http1Input::Head::complete);
        client.set_head_state(client::Http1Stream::Head::complete);
        exchange.client = &stream;
        begin(context, exchange);
        check_framing(exchange);
        REQUIRE(context.engine.begin(question_of(exchange)));
        REQUIRE(exchange.decision.goes_on());
        REQUIRE(check_upgrade(exchange) == Fault::none);
        REQUIRE(exchange.relay.is_upgrade);
        forward();
    }
    ~Rig() {
        if (!is_over) {
            link->is_cut_off = true;
            link->sleeper.wakeup().wake_later();
            settle();
        }
        link->input.connection().close();
        if (exchange.upstream) {
            exchange.upstream->stream.cancel();
            exchange.upstream->stream.http1().release();
        }
    }

    // The handshake goes to the server.
    void forward() {
        const auto [near, far] = socket_pair();
        server.emplace(far);
        exchange.upstream->stream.open(*to, ConnectionPtr(new Connection(world.readiness, near)),
                                       false);
        settle();
        exchange.upstream->stream.allow_switch();
        write_request_head(exchange, "127.0.0.1:3000");
        REQUIRE(exchange.upstream->stream.send({}, {}) == IoStatus::ok);
        asked = server->got();
    }
    // The server's answer to it.
    void answer(std::string_view bytes) {
        server->send(bytes);
        settle();
        REQUIRE(exchange.upstream->stream.read_head(kBounds, link->sleeper.wakeup()) ==
                upstream::Http1Stream::Head::complete);
    }
    void open(std::string_view behind = "") {
        answer(std::string(kSwitched) + std::string(behind));
        REQUIRE(is_upgrade_accepted(exchange));
        spawn(world.io.get_executor(), run(*this),
              [this](const std::exception_ptr& thrown) { failure = thrown; });
        settle();
        const std::string head = browser->got();
        REQUIRE(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"));
        first_bytes = head.substr(head.find("\r\n\r\n") + 4);
        switched = head.substr(0, head.size() - first_bytes.size());
    }
    // As Forwarder::accept_switch() does, whose tunnel serve() runs.
    static Task<> run(Rig& self) {
        const IoStatus status = co_await pass_on_switch(self.context, self.exchange);
        if (status == IoStatus::ok) {
            self.to->begin_request(self.pool.is_counted());
            self.pool.take_seat(self.request).release();
            self.exchange.tunnel =
                self.pool.open_tunnel(self.exchange.upstream->stream, self.request);
            self.fault = co_await run_tunnel(self.context, self.exchange);
        }
        self.is_over = true;
    }

    void settle() {
        world.io.restart();
        world.io.poll();
    }
    // Until `holds`, with the wheel going on: for times of some milliseconds, which have to pass.
    template <class Holds>
    bool passes_until(Holds holds) {
        const SteadyTime end = steady_now() + 20s;
        while (!holds() && steady_now() < end) {
            world.wheel.advance(wheel_time += 1s);
            settle();
        }
        return holds();
    }
    bool ends() {
        return passes_until([this] { return is_over; });
    }
    // Begins a drain.
    void drain() {
        world.is_draining = true;
        link->sleeper.wakeup().wake_later();
        settle();
    }
    std::optional<TunnelEnd> end() const { return exchange.relay.tunnel_end; }

    World world;
    ask::PasswordPool passwords{{}};
    WorkerContext context;
    client::Http1Stream client;
    client::Stream stream{client};
    std::unique_ptr<client::Http1Link> link;
    upstream::ServerPtr to{new upstream::Server(
        std::make_shared<upstream::SharedServer>(upstream::server_at("127.0.0.1", 3000),
                                                 upstream::endpoint_at("127.0.0.1", 3000), 1),
        0)};
    upstream::Metrics upstream_metrics{1};
    const upstream::GroupPtr group =
        upstream::group_of(upstream::upstream_of({upstream::server_at("127.0.0.1", 3000)}));
    upstream::Pool pool{
        {world.io.get_executor(), world.readiness, world.wheel, world.buffers, upstream_metrics},
        group,
        0,
        0};
    Exchange exchange{world.io.get_executor(), world.wheel, world.buffers};
    const IpPrefixes prefixes;
    upstream::ActiveRequest request{exchange.decision.client, prefixes, [](void*) {}, nullptr};
    std::optional<Far> browser;
    std::optional<Far> server;
    std::string asked;        // that the server got
    std::string switched;     // the 101 that the browser got
    std::string first_bytes;  // behind it
    SteadyTime wheel_time{};
    Fault fault = Fault::stopped;
    bool is_over = false;
    std::exception_ptr failure;
};

}  // namespace

TEST_CASE("tunnel: the handshake goes on with Upgrade, and the 101 comes back with it") {
    Rig rig;
    CHECK(has(rig.asked, "GET /chat HTTP/1.1\r\n"));
    CHECK(has(rig.asked, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"));
    CHECK(has(rig.asked, "\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"));
    rig.open();
    CHECK(has(rig.switched, "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"));
    CHECK(has(rig.switched, "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    CHECK_FALSE(has(rig.switched, "Content-Length"));
    CHECK_FALSE(has(rig.switched, "Connection: close"));
    CHECK(rig.exchange.relay.status == 101);
    CHECK_FALSE(rig.is_over);
    CHECK(rig.link->is_tunnel);
    CHECK(has(rig.world.figures(), "\ntidegate_tunnels_open 1\n"));
}

TEST_CASE("tunnel: a 101 whose value belongs to another key is not accepted") {
    Rig rig;
    std::string other(kSwitched);
    other[other.find("s3pP")] = 'S';
    rig.answer(other);
    CHECK_FALSE(is_upgrade_accepted(rig.exchange));
    rig.is_over = true;
}

TEST_CASE("tunnel: bytes go both ways as they come, those behind the handshakes first") {
    Rig rig(with_route(), from_client("early"));
    rig.open(from_server("first"));
    CHECK(rig.first_bytes == from_server("first"));
    CHECK(rig.server->got() == from_client("early"));
    for (int i = 0; i < 3; ++i) {
        rig.browser->send(from_client("hello"));
        rig.settle();
        CHECK(rig.server->got() == from_client("hello"));
        rig.server->send(from_server("you too") + from_server("", 0x89));
        rig.settle();
        CHECK(rig.browser->got() == from_server("you too") + from_server("", 0x89));
    }
    // A payload does not wait for its end.
    const std::string bytes = from_client("a longer text");
    rig.browser->send(bytes.substr(0, 9));
    rig.settle();
    CHECK(rig.server->got() == bytes.substr(0, 9));
    rig.browser->send(bytes.substr(9));
    rig.settle();
    CHECK(rig.server->got() == bytes.substr(9));
    CHECK(rig.exchange.relay.bytes_received ==
          from_client("early").size() + 3 * from_client("hello").size() + bytes.size());
    CHECK_FALSE(rig.is_over);
}

TEST_CASE("tunnel: what the record needs stays, and the rest of the request is gone") {
    Rig rig;
    rig.open();
    CHECK(rig.exchange.facts.head.method == "GET");
    CHECK(rig.exchange.facts.head.path == "/chat");
    CHECK(rig.exchange.facts.host == "a.example");
    CHECK(rig.exchange.facts.head.fields.capacity() == 0);
    CHECK(rig.client.head().fields.capacity() == 0);
    CHECK(rig.client.take_bytes().data() == nullptr);
    CHECK(rig.exchange.tunnel->take_bytes().data() == nullptr);
    CHECK(rig.exchange.upstream == nullptr);
}

TEST_CASE("tunnel: an end that takes nothing stops the other, and loses nothing") {
    Rig rig;
    rig.open();
    const std::string one = from_client(std::string(60'000, 'x'));
    std::string sent;
    for (std::size_t some = one.size(); some == one.size();) {
        some = rig.browser->send_some(one);
        sent += one.substr(0, some);
        rig.settle();
    }
    CHECK_FALSE(rig.is_over);
    std::string got;
    for (int i = 0; i < 1'000 && got.size() < sent.size(); ++i) {
        got += rig.server->got();
        rig.settle();
    }
    CHECK(got == sent);
}

TEST_CASE("tunnel: a Close goes through, and the end of each side after it") {
    Rig rig;
    rig.open();
    const std::string close = from_client("\x03\xe8", 0x88);
    rig.browser->send(close + "nothing may follow");
    rig.settle();
    CHECK(rig.server->got() == close);
    rig.server->send(from_server("\x03\xe8", 0x88));
    rig.server->finish();
    rig.settle();
    CHECK(rig.browser->got() == from_server("\x03\xe8", 0x88));
    rig.browser->got();
    CHECK(rig.browser->is_ended);
    CHECK_FALSE(rig.is_over);
    rig.browser->finish();
    rig.settle();
    CHECK(rig.is_over);
    CHECK(rig.fault == Fault::none);
    CHECK(rig.end() == TunnelEnd::client);
    CHECK_FALSE(rig.client.is_broken_off());
    CHECK_FALSE(rig.client.keeps_alive());
    CHECK(rig.exchange.relay.tunnel_fault.empty());
    CHECK(rig.exchange.relay.reached == Reached::end);
    const std::string figures = rig.world.figures();
    CHECK(has(figures, "\ntidegate_tunnels_open 0\n"));
    CHECK(has(figures, "\ntidegate_tunnels_total{end=\"client\"} 1\n"));
}

TEST_CASE("tunnel: one side may finish sending while the other goes on") {
    Rig rig;
    rig.open();
    rig.browser->send(from_client("last"));
    rig.browser->finish();
    rig.settle();
    CHECK(rig.server->got() == from_client("last"));
    rig.server->got();
    CHECK(rig.server->is_ended);
    rig.server->send(from_server("and more"));
    rig.settle();
    CHECK(rig.browser->got() == from_server("and more"));
    CHECK_FALSE(rig.is_over);
    rig.server->finish();
    rig.settle();
    CHECK(rig.is_over);
    CHECK(rig.end() == TunnelEnd::client);
}

TEST_CASE("tunnel: an upstream that is gone ends it when the client sends something") {
    Rig rig;
    rig.open();
    rig.server->close();
    rig.settle();
    rig.browser->send(from_client("hello?"));
    rig.settle();
    REQUIRE(rig.is_over);
    CHECK(rig.end() == TunnelEnd::upstream);
    CHECK(rig.fault == Fault::none);
}

TEST_CASE("tunnel: one whose ends are both silent is closed on both sides") {
    Rig rig(with_route("", "timeouts: {tunnel_idle: 50ms}\n"));
    rig.open();
    REQUIRE(rig.passes_until([&] { return rig.exchange.relay.tunnel_fault == "tunnel: idle"; }));
    CHECK(rig.browser->got() == close_to_client(1001, "idle"));
    CHECK(unmasked(rig.server->got()) == kGoingAway);
    // The ends may take a moment to answer.
    rig.server->finish();
    CHECK(rig.ends());
    CHECK(rig.end() == TunnelEnd::idle);
}

TEST_CASE("tunnel: a client over a bound gets a Close that says which, and the upstream one, too") {
    const auto closed_with = [](const std::string& bounds, const std::string& bytes,
                                const std::string& goes_on) {
        Rig rig(with_route(", tunnel: {" + bounds + "}"));
        rig.open();
        rig.browser->send(bytes);
        rig.settle();
        const std::string got = rig.server->got();
        REQUIRE(got.starts_with(goes_on));
        CHECK(unmasked(got.substr(goes_on.size())) == kGoingAway);
        rig.server->got();
        CHECK(rig.server->is_ended);
        rig.server->finish();
        rig.settle();
        CHECK(rig.is_over);
        CHECK(rig.fault == Fault::none);
        return rig.browser->got();
    };
    const std::string two = from_client("one") + from_client("two");
    CHECK(closed_with("messages: 2/h", from_client("one") + from_client("two"),
                      from_client("one")) == close_to_client(1008, "too many messages"));
    CHECK(closed_with("message_bytes: 4", two + from_client("three"), two) ==
          close_to_client(1009, "message too large"));
    CHECK(closed_with("messages: off", two + from_server("unmasked"), two) ==
          close_to_client(1002, "bad frames"));
}

TEST_CASE("tunnel: a drain closes at the end of the frame that is under way") {
    Rig rig;
    rig.open();
    const std::string up = from_client("a text of the client");
    const std::string down = from_server("a text of the server");
    rig.browser->send(up.substr(0, 10));
    rig.server->send(down.substr(0, 10));
    rig.settle();
    CHECK(rig.server->got() == up.substr(0, 10));
    CHECK(rig.browser->got() == down.substr(0, 10));
    rig.drain();
    CHECK(rig.server->got().empty());
    CHECK(rig.browser->got().empty());
    rig.browser->send(up.substr(10) + from_client("dropped"));
    rig.server->send(down.substr(10) + from_server("dropped"));
    rig.settle();
    const std::string to_server = rig.server->got();
    REQUIRE(to_server.starts_with(up.substr(10)));
    CHECK(unmasked(to_server.substr(up.size() - 10)) == kGoingAway);
    CHECK(rig.browser->got() == down.substr(10) + close_to_client(1001, "the proxy stops"));
    rig.server->finish();
    rig.settle();
    CHECK(rig.is_over);
    CHECK(rig.end() == TunnelEnd::drained);
    CHECK_FALSE(rig.client.is_broken_off());
}

TEST_CASE("tunnel: in a drain the next waits for its turn, and goes on until then") {
    Rig rig;
    rig.open();
    rig.context.tunnel_drain.scheduled = 1;
    rig.drain();
    CHECK(rig.browser->got().empty());
    rig.browser->send(from_client("still here"));
    rig.settle();
    CHECK(rig.server->got() == from_client("still here"));
    CHECK_FALSE(rig.is_over);
}

TEST_CASE("tunnel: a connection that is cut off ends its tunnel at once") {
    Rig rig;
    rig.open();
    rig.link->is_cut_off = true;
    rig.link->sleeper.wakeup().wake_later();
    rig.settle();
    CHECK(rig.is_over);
    CHECK(rig.fault == Fault::client_left);  // which the log of the request shows as stopped
    CHECK(rig.end() == TunnelEnd::cut);
}

TEST_CASE("tunnel: a client that takes nothing is left after client_write") {
    Rig rig(with_route("", "timeouts: {client_write: 50ms}\n"));
    rig.open();
    const std::string one = from_server(std::string(60'000, 'x'));
    while (rig.server->send_some(one) == one.size()) rig.settle();
    rig.settle();
    REQUIRE(rig.ends());
    CHECK(rig.end() == TunnelEnd::stalled);
    CHECK(rig.client.is_broken_off());
}

TEST_CASE("tunnel: a request that is no handshake goes on as it is, or is refused") {
    const auto judged = [](const std::string& fields, const std::string& yaml = with_route()) {
        World world(yaml);
        Request request(world, get(fields));
        REQUIRE(request.decide() == Fault::none);
        const Fault fault = check_upgrade(request.exchange);
        if (fault == Fault::none) CHECK_FALSE(request.exchange.relay.is_upgrade);
        return fault;
    };
    CHECK(judged("") == Fault::none);
    CHECK(judged("Connection: Upgrade\r\nUpgrade: h2c\r\n") == Fault::none);
    CHECK(judged("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n") ==
          Fault::bad_upgrade);
    CHECK(judged("Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n") ==
          Fault::upgrade_version);
    CHECK(judged("Connection: Upgrade\r\nUpgrade: websocket\r\n",
                 "upstream: http://127.0.0.1:3000\n") == Fault::none);

    World world(with_route());
    Request request(world, get());
    REQUIRE(request.decide() == Fault::none);
    request.exchange.decision.refuse(Fault::upgrade_version);
    const std::string refusal = request.refused();
    CHECK(refusal.starts_with("HTTP/1.1 426 Upgrade Required\r\n"));
    CHECK(has(refusal, "\r\nSec-WebSocket-Version: 13\r\n"));
    CHECK(has(refusal, "\r\nUpgrade: websocket\r\n"));
}

TEST_CASE("tunnel: ends of a drain are spread, however many there are") {
    for (const std::uint32_t count : {1U, 2U, 10U, 1'000U}) {
        std::set<std::int64_t> ends;
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto delay = drain_delay(i, 100s);
            CHECK(delay >= 0ms);
            CHECK(delay < 100s);
            ends.insert(delay.count());
        }
        CHECK(ends.size() == count);
        // No gap is larger than some three times what it would be if they were even.
        std::int64_t last = 0;
        std::int64_t gap = 0;
        for (const std::int64_t end : ends) gap = std::max(gap, end - std::exchange(last, end));
        gap = std::max(gap, 100'000 - last);
        CHECK(gap <= 300'000 / static_cast<std::int64_t>(count));
    }
    CHECK(drain_delay(7, 0ms) == 0ms);
    CHECK(drain_delay(7, 24h) < 24h);
}

}  // namespace tidegate::proxy::tunnel_test
