#include "integration/transport.hpp"

#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string_view>

#include "integration/process.hpp"

namespace tidegate::test {
namespace {

// Made once in a process: only keys of elliptic curves are that quick to make.
struct Throwaway {
    Throwaway() : own(authority.issue()), client(SSL_CTX_new(TLS_client_method())) {
        X509_STORE_add_cert(SSL_CTX_get_cert_store(client.get()), authority.certificate());
        SSL_CTX_set_verify(client.get(), SSL_VERIFY_PEER, nullptr);
        SSL_CTX_set_min_proto_version(client.get(), TLS1_2_VERSION);
    }

    Authority authority;
    Certificate own;
    std::unique_ptr<SSL_CTX, ReleaseOpenSsl> client;
};

const Throwaway& throwaway() {
    static const Throwaway made;
    return made;
}

struct Ports {
    std::mutex mutex;
    std::multiset<std::uint16_t> open;  // guarded by mutex
};

Ports& ports() {
    static Ports all;
    return all;
}

std::string_view transport() {
    static const std::string chosen = [] {
        const char* const said = std::getenv("TIDEGATE_TRANSPORT");
        const std::string name = said == nullptr ? "clear" : said;
        if (name != "clear" && name != "tls" && name != "h2c" && name != "h2") {
            throw std::runtime_error("TIDEGATE_TRANSPORT is not `clear`, `tls`, `h2c` or `h2`");
        }
        return name;
    }();
    return chosen;
}

bool is_open(std::uint16_t port) {
    const std::lock_guard lock(ports().mutex);
    return ports().open.contains(port);
}

}  // namespace

bool over_tls() {
    return transport() == "tls" || transport() == "h2";
}

bool over_http2() {
    return transport() == "h2c" || transport() == "h2";
}

std::string client_scheme() {
    return over_tls() ? "https" : "http";
}

std::string listen_yaml(std::uint16_t port, const TemporaryFolder& folder) {
    const std::string address = "127.0.0.1:" + std::to_string(port);
    if (transport() == "h2c") {
        return "listen: {address: \"" + address + "\", http: [h2, http1]}\n";
    }
    if (!over_tls()) return "listen: " + address + "\n";
    return "listen: {address: \"" + address + "\", tls: {certificates: [{certificate: \"" +
           folder.write("listener.pem", throwaway().own.pem()) + "\", key: \"" +
           folder.write("listener.key", throwaway().own.key_pem()) + "\"}]}}\n";
}

SslPtr tls_to_listener() {
    SslPtr tls(SSL_new(throwaway().client.get()));
    ask_for_name(tls.get(), "localhost");
    SSL_set1_host(tls.get(), "localhost");
    return tls;
}

void ask_for_name(SSL* tls, const std::string& name) {
    std::string copy = name;
    SSL_ctrl(tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, copy.data());
}

void offer_protocols(SSL* tls, const std::vector<std::string>& names) {
    std::string wire;
    for (const auto& name : names) wire += static_cast<char>(name.size()) + name;
    const auto* const bytes = reinterpret_cast<const unsigned char*>(wire.data());
    SSL_set_alpn_protos(tls, bytes, static_cast<unsigned>(wire.size()));
}

ListenerPort::ListenerPort(std::uint16_t port) : port_(port) {
    const std::lock_guard lock(ports().mutex);
    ports().open.insert(port_);
}

ListenerPort::~ListenerPort() {
    const std::lock_guard lock(ports().mutex);
    ports().open.erase(ports().open.find(port_));
}

bool ListenerPort::speaks_tls(std::uint16_t port) {
    return over_tls() && is_open(port);
}

bool ListenerPort::speaks_http2(std::uint16_t port) {
    return over_http2() && is_open(port);
}

}  // namespace tidegate::test
