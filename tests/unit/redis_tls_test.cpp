// The client over TLS, against a server of a thread of its own that speaks as much RESP as it
// needs.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include "redis/client.hpp"
#include "redis/hiredis_connection.hpp"
#include "tls/tls_client.hpp"
#include "tls_server.hpp"
#include "unit/fake_redis.hpp"

namespace tidegate::redis::tls_test {
namespace {

using namespace std::chrono_literals;
using test::Authority;
using test::run_until;
using test::TlsServer;

constexpr Script kScript{"count", "0123456789012345678901234567890123456789", "return 1"};

// The words of the commands that arrive on a connection.
class Commands {
  public:
    explicit Commands(TlsServer::Conversation& client) : client_(client) {}

    // Empty when the client has left.
    test::Words next() {
        test::Words words;
        std::size_t count = 0;
        if (!number('*', count)) return {};
        for (; count != 0; --count) {
            std::size_t size = 0;
            if (!number('$', size) || !have(size + 2)) return {};
            words.emplace_back(take(size));
            take(2);
        }
        return words;
    }

  private:
    bool have(std::size_t bytes) {
        while (text_.size() - at_ < bytes) {
            text_.erase(0, at_);
            at_ = 0;
            char piece[16'384];
            const std::size_t size = client_.read(piece, sizeof piece);
            if (size == 0) return false;
            text_.append(piece, size);
        }
        return true;
    }
    std::string take(std::size_t bytes) {
        at_ += bytes;
        return text_.substr(at_ - bytes, bytes);
    }
    bool number(char type, std::size_t& value) {
        std::string digits;
        while (have(1)) {
            const char c = take(1)[0];
            if (c == type || c == '\r') continue;
            if (c == '\n') {
                value = std::stoul(digits);
                return true;
            }
            digits += c;
        }
        return false;
    }

    TlsServer::Conversation& client_;
    std::string text_;
    std::size_t at_ = 0;
};

// Answers everything: scripts with the last word of the command.
void answer_all(TlsServer::Conversation& client) {
    Commands commands(client);
    for (auto words = commands.next(); !words.empty(); words = commands.next()) {
        if (!client.send(words[0] == "EVALSHA" ? "+" + words.back() + "\r\n" : "+OK\r\n")) return;
    }
}

TlsSettings believing(const Authority& authority) {
    TlsSettings settings;
    settings.ca = authority.pem();
    return settings;
}

TlsSettings presenting(const Authority& authority, const test::Certificate& own) {
    TlsSettings settings = believing(authority);
    settings.certificate = own.pem();
    settings.key = own.key_pem();
    return settings;
}

ClientOptions options_for(std::uint16_t port, const TlsSettings& settings,
                          const std::string& host = "localhost") {
    // As the program sets it: a write to a connection that has ended is only an error.
    std::signal(SIGPIPE, SIG_IGN);
    ClientOptions options;
    options.host = host;
    options.port = port;
    options.timeout = 5s;
    options.probe_every = 20ms;
    options.scripts = {&kScript};
    auto made = TlsClient::make(settings);
    REQUIRE(made);
    options.tls = *made;
    return options;
}

std::optional<RedisConnectFault> try_once(const TlsServer& server, const TlsSettings& settings,
                                          const std::string& host = "localhost") {
    return Client::try_once(options_for(server.port(), settings, host), 10s);
}

bool says(const std::optional<RedisConnectFault>& fault, const std::string& part) {
    INFO("it says: ", fault ? fault->message : "nothing");
    CHECK_MESSAGE((fault && fault->message.find(part) != std::string::npos), part);
    return fault && fault->message.find(part) != std::string::npos;
}

struct Asker final : Request {
    explicit Asker(std::string own_name) : name(std::move(own_name)) {}

    void append_command(std::string& out) override {
        append_resp({"EVALSHA", kScript.sha1, "0", name}, out);
    }
    const Script* script() const override { return &kScript; }
    void on_reply(const Reply& reply) override {
        ++told;
        text = reply.text;
    }
    void on_failure(Failure why) override {
        ++told;
        failure = why;
    }
    bool answered() const { return told == 1 && !failure && text == name; }

    std::string name;
    int told = 0;
    std::string text;
    std::optional<Failure> failure;
};

struct Rig {
    explicit Rig(const ClientOptions& options)
        : client(std::make_shared<Client>(io.get_executor(), options,
                                          [this](bool up, std::string_view reason) {
                                              states.push_back(up);
                                              reasons.emplace_back(reason);
                                          })) {
        spawn(io.get_executor(), Client::run(client),
              [this](const std::exception_ptr&) { ended = true; });
    }
    ~Rig() {
        client->stop();
        CHECK(run_until(io, [&] { return ended; }));
    }
    Asker& send(std::string name) {
        Asker& asker = askers.emplace_back(std::move(name));
        CHECK(client->send(asker) == std::nullopt);
        return asker;
    }
    Asker& ask(std::string name) {
        Asker& asker = send(std::move(name));
        CHECK(run_until(io, [&] { return asker.told != 0; }));
        return asker;
    }

    asio::io_context io;
    std::shared_ptr<Client> client;
    std::vector<bool> states;
    std::vector<std::string> reasons;
    std::deque<Asker> askers;
    bool ended = false;
};

}  // namespace

TEST_CASE("tls: commands and replies pass, and the server is asked for by its name") {
    const Authority authority;
    const TlsServer server(authority.issue(), answer_all);
    Rig rig(options_for(server.port(), believing(authority)));
    CHECK(rig.ask("a").answered());
    CHECK(rig.ask(std::string(300'000, 'x')).answered());
    CHECK(rig.ask("b").answered());
    CHECK(server.names_asked_for() == std::vector<std::string>{"localhost"});
    CHECK(rig.states.empty());
}

TEST_CASE("tls: ten thousand commands in flight get their replies in order") {
    const Authority authority;
    // The server answers nothing before all is there: both directions fill up.
    const TlsServer server(authority.issue(), [](TlsServer::Conversation& client) {
        Commands commands(client);
        std::string answers;
        int held = 0;
        for (auto words = commands.next(); !words.empty(); words = commands.next()) {
            if (words[0] != "EVALSHA") {
                client.send("+OK\r\n");
                continue;
            }
            answers += "$" + std::to_string(words.back().size()) + "\r\n" + words.back() + "\r\n";
            if (++held == 10'000) client.send(answers);
        }
    });
    ClientOptions options = options_for(server.port(), believing(authority));
    options.timeout = 30s;
    Rig rig(options);
    for (int i = 0; i < 10'000; ++i) rig.send(std::to_string(i) + std::string(300, '.'));
    CHECK(run_until(
        rig.io, [&] { return rig.askers.back().told != 0; }, 30s));
    int right = 0;
    for (const Asker& asker : rig.askers) right += asker.answered() ? 1 : 0;
    CHECK(right == 10'000);
}

TEST_CASE("tls: an authority that is not believed is named as the reason, and will not change") {
    const Authority authority;
    const Authority stranger;
    const TlsServer server(stranger.issue(), answer_all);
    const auto fault = try_once(server, believing(authority));
    says(fault, "Redis at localhost:" + std::to_string(server.port()));
    says(fault, "its certificate is not accepted: unable to get local issuer certificate");
    CHECK(fault->refused);
}

TEST_CASE("tls: without authorities of its own, those of the system are believed: not this one") {
    const Authority authority;
    const TlsServer server(authority.issue(), answer_all);
    says(try_once(server, {}), "no trusted authority has signed it");
}

TEST_CASE("tls: a certificate for another name is refused, and the missing name shown") {
    const Authority authority;
    const TlsServer server(authority.issue("DNS:redis.internal"), answer_all);
    const auto fault = try_once(server, believing(authority));
    says(fault, "hostname mismatch (it is not for `localhost`)");
    CHECK(fault->refused);
    says(try_once(server, believing(authority), "127.0.0.1"), "IP address mismatch");
    TlsSettings named = believing(authority);
    named.server_name = "redis.internal";
    CHECK_FALSE(try_once(server, named));
    CHECK_FALSE(try_once(server, named, "127.0.0.1"));
    CHECK(server.names_asked_for().back() == "redis.internal");
}

TEST_CASE("tls: a name in the subject alone is no name") {
    const Authority authority;
    const TlsServer server(authority.issue(""), answer_all);
    says(try_once(server, believing(authority)), "hostname mismatch");
}

TEST_CASE("tls: an address is held to the addresses of the certificate, and not sent as a name") {
    const Authority authority;
    const TlsServer server(authority.issue("IP:127.0.0.1"), answer_all);
    CHECK_FALSE(try_once(server, believing(authority), "127.0.0.1"));
    CHECK(server.names_asked_for() == std::vector<std::string>{""});
    const TlsServer named(authority.issue("DNS:127.0.0.1"), answer_all);
    says(try_once(named, believing(authority), "127.0.0.1"), "IP address mismatch");
}

TEST_CASE("tls: a certificate that has expired, or is not valid yet, is refused") {
    const Authority authority;
    const TlsServer late(authority.issue("DNS:localhost", {-7200, -3600}), answer_all);
    says(try_once(late, believing(authority)), "certificate has expired");
    const TlsServer early(authority.issue("DNS:localhost", {3600, 7200}), answer_all);
    says(try_once(early, believing(authority)), "certificate is not yet valid");
}

TEST_CASE("tls: the server's own certificate may be the trusted one") {
    const Authority authority;
    const test::Certificate own = authority.issue();
    TlsSettings pinned;
    pinned.ca = own.pem();
    test::Certificate copy;
    copy.certificate.reset(own.certificate.get());
    X509_up_ref(own.certificate.get());
    copy.key.reset(own.key.get());
    EVP_PKEY_up_ref(own.key.get());
    const TlsServer server(std::move(copy), answer_all);
    CHECK_FALSE(try_once(server, pinned));
}

TEST_CASE("tls: versions before 1.2 are not spoken") {
    const Authority authority;
    const TlsServer old(authority.issue(), answer_all, TLS1_1_VERSION);
    const auto fault = try_once(old, believing(authority));
    CHECK(fault.has_value());
    CHECK(old.names_asked_for().empty());
    const TlsServer older(authority.issue(), answer_all, TLS1_2_VERSION);
    CHECK_FALSE(try_once(older, believing(authority)));
}

TEST_CASE(
    "tls: a client certificate that is wanted is presented; the message says if it is missing or "
    "wrong") {
    const Authority authority;
    const Authority clients;
    for (const int newest : {0, TLS1_2_VERSION}) {
        CAPTURE(newest);
        const TlsServer server(authority.issue(), answer_all, newest, &clients);
        CHECK_FALSE(try_once(server, presenting(authority, clients.issue("DNS:tidegate"))));
        const auto missing = try_once(server, believing(authority));
        REQUIRE(missing);
        CHECK(missing->refused);
        says(missing, "it wants a client certificate, and none is configured");
        const auto wrong = try_once(server, presenting(authority, authority.issue("DNS:tidegate")));
        REQUIRE(wrong);
        CHECK(wrong->refused);
        says(wrong, "it does not accept our certificate");
    }
}

TEST_CASE("tls: a missing client certificate is named every time, whatever becomes of the alert") {
    const Authority authority;
    const Authority clients;
    for (const int newest : {0, TLS1_2_VERSION}) {
        CAPTURE(newest);
        const TlsServer server(authority.issue(), answer_all, newest, &clients);
        int named = 0;
        for (int i = 0; i < 50; ++i) {
            const auto fault = try_once(server, believing(authority));
            const bool is_named =
                fault && fault->message.find("it wants a client certificate") != std::string::npos;
            named += is_named && fault->refused ? 1 : 0;
        }
        CHECK(named == 50);
    }
}

TEST_CASE("tls: a client certificate that has expired is refused, and the message says so") {
    const Authority authority;
    const Authority clients;
    const test::Certificate late = clients.issue("DNS:tidegate", {-7200, -3600});
    for (const int newest : {0, TLS1_2_VERSION}) {
        CAPTURE(newest);
        const TlsServer server(authority.issue(), answer_all, newest, &clients);
        const auto fault = try_once(server, presenting(authority, late));
        says(fault, "it does not accept our certificate");
        says(fault, "expired");
        CHECK(fault->refused);
    }
}

TEST_CASE("tls: a server that asks for a client certificate and does without it is no fault") {
    const Authority authority;
    const Authority clients;
    for (const int newest : {0, TLS1_2_VERSION}) {
        CAPTURE(newest);
        // A connection that has brought an answer and ends has not ended for lack of one.
        const TlsServer server(
            authority.issue(),
            [](TlsServer::Conversation& client) {
                Commands commands(client);
                if (!commands.next().empty()) client.send("+OK\r\n");
            },
            newest, &clients, TlsServer::Clients::may_have_none);
        ClientOptions options = options_for(server.port(), believing(authority));
        options.database = 1;  // two commands
        const auto fault = Client::try_once(options, 10s);
        REQUIRE(fault);
        CHECK(fault->message.find("client certificate") == std::string::npos);
        CHECK_FALSE(fault->refused);
    }
}

TEST_CASE("tls: the message says that a server asked for a certificate before it closed") {
    const Authority authority;
    const Authority clients;
    const TlsServer server(
        authority.issue(), [](TlsServer::Conversation&) {}, 0, &clients,
        TlsServer::Clients::may_have_none);
    const auto missing = try_once(server, believing(authority));
    says(missing, "it wants a client certificate, and none is configured");
    const auto refused = try_once(server, presenting(authority, clients.issue("DNS:tidegate")));
    says(refused, "after it had asked for our certificate, which it may not accept");
    CHECK_FALSE(refused->refused);
}

TEST_CASE("tls: the message says that a server does not speak TLS") {
    asio::io_context io;
    asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    std::thread server([&] {
        asio::ip::tcp::socket client(io);
        acceptor.accept(client);
        char byte = 0;
        error_code ignored;
        asio::read(client, asio::buffer(&byte, 1), ignored);
        asio::write(client, asio::buffer(std::string_view("-ERR Protocol error\r\n")), ignored);
        client.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
        std::string rest(4096, '\0');
        asio::read(client, asio::buffer(rest), ignored);
    });
    const auto fault = Client::try_once(
        options_for(acceptor.local_endpoint().port(), believing(Authority()), "127.0.0.1"), 10s);
    server.join();
    says(fault, "it does not speak TLS there");
    CHECK(fault->refused);
}

TEST_CASE("tls: an unreachable server is not reported as one that refuses") {
    asio::io_context io;
    asio::ip::tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    const auto port = acceptor.local_endpoint().port();
    acceptor.close();
    const auto fault =
        Client::try_once(options_for(port, believing(Authority()), "127.0.0.1"), 10s);
    says(fault, "Connection refused");
    CHECK_FALSE(fault->refused);
}

TEST_CASE("tls: a handshake that does not come ends with the deadline for connecting") {
    asio::io_context io;
    asio::ip::tcp::acceptor silent(io, {asio::ip::address_v4::loopback(), 0});
    ClientOptions options =
        options_for(silent.local_endpoint().port(), believing(Authority()), "127.0.0.1");
    options.timeout = 50ms;
    Rig rig(options);
    const auto begun = std::chrono::steady_clock::now();
    CHECK(run_until(rig.io, [&] { return !rig.states.empty(); }));
    CHECK(std::chrono::steady_clock::now() - begun < 2s);
    CHECK(rig.reasons.front().find("no answer in TLS") != std::string::npos);
    CHECK_FALSE(rig.client->is_up());
}

TEST_CASE("tls: a connection that is cut is made again, and commands that wait are sent") {
    const Authority authority;
    std::atomic<int> connections{0};
    const TlsServer server(authority.issue(), [&](TlsServer::Conversation& client) {
        Commands commands(client);
        const bool first = ++connections == 1;
        for (auto words = commands.next(); !words.empty(); words = commands.next()) {
            if (first && words.back() == "cut") return;
            client.send(words[0] == "EVALSHA" ? "+" + words.back() + "\r\n" : "+OK\r\n");
        }
    });
    Rig rig(options_for(server.port(), believing(authority)));
    CHECK(rig.ask("a").answered());
    Asker& lost = rig.ask("cut");
    CHECK(lost.failure == Failure::disconnected);
    CHECK(rig.ask("b").answered());
    CHECK(connections == 2);
}

TEST_CASE("tls: commands that were sent just before a stop still arrive") {
    const Authority authority;
    std::atomic<bool> heard{false};
    const TlsServer server(authority.issue(), [&](TlsServer::Conversation& client) {
        Commands commands(client);
        for (auto words = commands.next(); !words.empty(); words = commands.next()) {
            if (words.back() == "last words") heard = true;
            client.send("+OK\r\n");
        }
    });
    {
        Rig rig(options_for(server.port(), believing(authority)));
        rig.ask("a");
        Asker& last = rig.send("last words");
        rig.client->stop();
        CHECK(last.failure == Failure::disconnected);
        CHECK(run_until(
            rig.io, [&] { return heard.load(); }, 2s));
    }
}

TEST_CASE("tls: a client may stop at any step of connecting") {
    const Authority authority;
    const TlsServer server(authority.issue(), answer_all);
    for (int steps = 0; steps < 60; ++steps) {
        Rig rig(options_for(server.port(), believing(authority), "127.0.0.1"));
        for (int i = 0; i < steps && rig.io.run_one_for(20ms) != 0; ++i) {
        }
        rig.client->stop();
        CHECK(run_until(rig.io, [&] { return rig.ended; }));
    }
}

TEST_CASE("tls: other certificates are for the connections made from then on") {
    const Authority former;
    const Authority later;
    const TlsServer server(later.issue(), answer_all);
    auto options = options_for(server.port(), believing(former));
    const auto shared = TlsClient::make(believing(former));
    REQUIRE(shared);
    options.tls = *shared;
    CHECK(Client::try_once(options, 10s).has_value());
    (*shared)->replace_with(**TlsClient::make(believing(later)));
    CHECK_FALSE(Client::try_once(options, 10s));
}

TEST_CASE("tls: a process without descriptors left reports that, and loses none") {
    asio::io_context io;
    const StreamSocket first(io.get_executor());  // what Asio itself needs is there
    const auto settings = TlsClient::make(believing(Authority()));
    REQUIRE(settings);
    const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    // The next that are free: the program that started the tests may have left some open in
    // between.
    std::array<int, 4> free_descriptors{};
    for (int& each : free_descriptors) each = ::dup(descriptor);
    for (const int each : free_descriptors) ::close(each);
    // A pipe needs three, and gives one back.
    for (rlim_t left = 0; left <= 3; ++left) {
        CAPTURE(left);
        rlimit few = before;
        few.rlim_cur = static_cast<rlim_t>(free_descriptors.at(left));
        ::setrlimit(RLIMIT_NOFILE, &few);
        std::string reason;
        auto pipe = TlsPipe::splice(io.get_executor(), descriptor,
                                    (*settings)->connection_to("localhost"), reason);
        ::setrlimit(RLIMIT_NOFILE, &before);
        int domain = 0;
        socklen_t size = sizeof domain;
        ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size);
        CHECK((pipe != nullptr) == (left == 3));
        CHECK(domain == (left == 3 ? AF_UNIX : AF_INET));
        CHECK(reason == (left == 3 ? "" : "Too many open files"));
        pipe.reset();
        const int again = ::dup(descriptor);
        CHECK(again == free_descriptors.front());
        ::close(again);
    }
    ::close(descriptor);
}

TEST_CASE("tls: settings that cannot be used are refused with the reason") {
    const Authority authority;
    const auto fault_of = [](const TlsSettings& settings) {
        const auto made = TlsClient::make(settings);
        return made ? std::string() : made.error();
    };
    TlsSettings settings;
    settings.ca = "nothing";
    CHECK(fault_of(settings).find("holds no certificate") != std::string::npos);
    settings = presenting(authority, authority.issue());
    CHECK(fault_of(settings).empty());
    settings.key = authority.issue().key_pem();
    CHECK(fault_of(settings).find("does not belong to the certificate") != std::string::npos);
    settings.key.clear();
    CHECK(fault_of(settings).find("holds no private key") != std::string::npos);
}

}  // namespace tidegate::redis::tls_test
