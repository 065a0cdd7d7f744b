#include "doctor/listeners.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/ip.hpp"
#include "config/address.hpp"
#include "doctor/endpoints.hpp"
#include "doctor/faces.hpp"
#include "doctor/http2_trial.hpp"
#include "doctor/listener_http.hpp"
#include "doctor/listener_tls.hpp"
#include "doctor/parallel.hpp"
#include "doctor/tls_trial.hpp"
#include "doctor/wait_for.hpp"
#include "net/timed_socket.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

namespace {

using config::Listen;
using AuthoritiesPtr = std::shared_ptr<const SystemAuthorities>;

// Each takes a handshake.
constexpr std::size_t kNamesMax = 32;
// Keeps the peer's address (the PROXY protocol's specification, section 2.1).
constexpr std::string_view kProxyHeader = "PROXY UNKNOWN\r\n";
constexpr std::size_t kHeadBytesMax = 8'192;

std::string host_of(const Listen& listen) {
    const bool is_every6 = listen.address.host == config::kEveryAddress && listen.ipv6_only;
    return is_every6 ? "::1" : config::reachable(listen.address).host;
}

// Where this machine reaches a listener; nothing for a port that the system chooses.
std::optional<StreamProtocol::endpoint> endpoint_of(const Listen& listen,
                                                    const TimeLimit& time_limit) {
    config::Address address = listen.address;
    if (!address.is_unix() && address.port == 0) return std::nullopt;
    if (!address.is_unix()) address.host = host_of(listen);
    const auto endpoints = find_endpoints(address, time_limit.for_step());
    return endpoints ? std::optional(endpoints->front()) : std::nullopt;
}

// Whether a connection of ours may send a PROXY header there.
bool may_connect(const Listen& listen) {
    if (!listen.proxy_protocol) return true;
    return listen.proxy_protocol->admits(listen.address.is_unix() ? std::nullopt
                                                                  : parse_ip(host_of(listen)));
}

// The head of the answer, or the reason why there is none.
Task<std::string> ask_redirect(std::shared_ptr<TimedSocket> socket,
                               StreamProtocol::endpoint endpoint, std::string request,
                               std::chrono::milliseconds time) {
    std::string head;
    socket->expect_within(time);
    error_code ec = co_await socket->connect(endpoint);
    if (!ec) ec = co_await socket->write(request);
    while (!ec && head.find("\r\n\r\n") == head.npos && head.size() < kHeadBytesMax) {
        std::array<char, 2'048> bytes{};
        const ByteStream::Received received = co_await socket->read_some(bytes);
        head.append(bytes.data(), received.bytes);
        ec = received.ec;
    }
    socket->close();
    co_return head;
}

// A name that the listener with TLS at `port` has a certificate for.
std::string name_at_port(const config::Config& config, std::uint16_t port) {
    for (const Listen& listen : config.listen) {
        if (!listen.tls || listen.address.port != port) continue;
        const auto names = names_to_ask_for(*listen.tls);
        if (!names.empty()) return names.front();
    }
    return "localhost";
}

class ListenerExamination {
  public:
    ListenerExamination(const config::Config& config, const TimeLimit& time_limit)
        : config_(config), time_limit_(time_limit) {
        // Every certificate that the listener shows is checked.
        TlsSettings settings;
        settings.verify = false;
        auto client = TlsClient::make(settings);
        if (client) client_ = std::move(*client);
        auto authorities = SystemAuthorities::read();
        if (authorities) authorities_ = std::move(*authorities);
    }

    Findings examine(const Listen& listen) const {
        Findings findings("listen " + listen.address.to_string());
        if (listen.address.is_inherited()) {
            findings.note("listen.reachable", "not looked at: systemd opens this socket", {});
            return findings;
        }
        const auto endpoint = endpoint_of(listen, time_limit_);
        if (!endpoint || client_ == nullptr) return findings;
        if (!may_connect(listen)) {
            findings.note("listen.reachable",
                          "not looked at: `proxy_protocol.from` does not list this machine", {});
            return findings;
        }
        const std::string fault = try_connect(*endpoint, time_limit_.for_step());
        if (!fault.empty()) {
            findings.note("listen.reachable",
                          fmt::format("not looked at: cannot connect to {}: {}",
                                      endpoint_text(*endpoint), fault),
                          "start Tidegate, then run this again");
        } else if (listen.tls) {
            examine_names(listen, *endpoint, findings);
        } else if (listen.redirects) {
            examine_redirect(listen, *endpoint, findings);
        } else {
            const TlsAnswer answer = shake_hands(listen, *endpoint, "localhost", false);
            judge_plain_listener(answer, findings);
            const bool speaks_tls = !answer.chain.empty();
            if (listen.takes_http2 && !speaks_tls) examine_http2(listen, *endpoint, findings);
        }
        return findings;
    }

  private:
    TlsAnswer shake_hands(const Listen& listen, const StreamProtocol::endpoint& endpoint,
                          const std::string& name, bool awaits_refusal) const {
        return try_tls({.endpoint = endpoint,
                        .host = name,
                        .before = std::string(listen.proxy_protocol ? kProxyHeader : ""),
                        .time = time_limit_.for_step(),
                        .awaits_refusal = awaits_refusal,
                        .offers_http = true},
                       *client_);
    }

    void examine_names(const Listen& listen, const StreamProtocol::endpoint& endpoint,
                       Findings& findings) const {
        const TlsServerSettings& settings = *listen.tls;
        std::vector<std::string> names = names_to_ask_for(settings);
        if (names.size() > kNamesMax) {
            findings.note("listen.names",
                          fmt::format("only {} of the {} names of its certificates are asked for",
                                      kNamesMax, names.size()),
                          {});
            names.resize(kNamesMax);
        }
        if (names.empty()) names.emplace_back("localhost");
        std::vector<NameTrial> trials;
        for (const std::string& name : names) {
            // The listener treats clients without a certificate alike, whatever the name.
            trials.push_back({name, shake_hands(listen, endpoint, name, trials.empty())});
            if (trials.back().answer.speaks_no_tls) break;
        }
        judge_listener_tls(settings, trials, authorities_.get(), std::chrono::system_clock::now(),
                           findings);
        judge_negotiated(listen, trials.front().answer, findings);
    }

    void examine_http2(const Listen& listen, const StreamProtocol::endpoint& endpoint,
                       Findings& findings) const {
        judge_prior_knowledge(
            try_http2({.endpoint = endpoint,
                       .before = std::string(listen.proxy_protocol ? kProxyHeader : ""),
                       .time = time_limit_.for_step()}),
            findings);
    }

    void examine_redirect(const Listen& listen, const StreamProtocol::endpoint& endpoint,
                          Findings& findings) const {
        const std::string name = name_at_port(config_, listen.redirect_port);
        const std::string request =
            fmt::format("{}GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
                        listen.proxy_protocol ? kProxyHeader : "", name);
        asio::io_context io{1};
        const auto socket = std::make_shared<TimedSocket>(StreamSocket(io));
        judge_redirect(
            wait_for(io, ask_redirect(socket, endpoint, request, time_limit_.for_step())), name,
            config_, findings);
    }

    const config::Config& config_;
    const TimeLimit& time_limit_;
    std::shared_ptr<TlsClient> client_;  // null: OpenSSL has no memory
    AuthoritiesPtr authorities_;         // null: they cannot be read
};

}  // namespace

Findings examine_listeners(const config::Config& config, const TimeLimit& time_limit) {
    Findings all("listen");
    const auto is_tried = [](const Listen& one) {
        return one.tls || one.redirects || one.takes_http2;
    };
    if (std::any_of(config.listen.begin(), config.listen.end(), is_tried)) {
        const ListenerExamination examination(config, time_limit);
        all.append(in_parallel(config.listen.size(), [&](std::size_t index) {
            return examination.examine(config.listen[index]);
        }));
    } else {
        all.note("listen", "not checked: if Tidegate runs already, it holds these addresses itself",
                 {});
    }
    all.append(examine_faces(config));
    return all;
}

}  // namespace tidegate::doctor
