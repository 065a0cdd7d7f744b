#include "integration/tls_world.hpp"

#include <stdexcept>
#include <utility>

namespace tidegate::test {
namespace {

void require(bool good, const char* what) {
    if (!good) throw std::runtime_error(std::string("tls_world: ") + what);
}

// A server of TLS 1.3 judges a client's certificate when the client has finished its handshake
// already. It gives a ticket to a client that it accepts. Until then this client sends nothing:
// unread bytes would turn the server's alert into a reset.
bool is_admitted(Socket& socket) {
    const auto deadline = Clock::now() + kPatience;
    SSL* const tls = socket.tls();
    while (SSL_is_init_finished(tls) == 1 && SSL_version(tls) == TLS1_3_VERSION &&
           SSL_SESSION_is_resumable(SSL_get0_session(tls)) == 0) {
        require(Clock::now() < deadline, "neither a ticket nor an end");
        try {
            if (socket.receive(Clock::now() + milliseconds{20}).empty()) return false;
        } catch (const std::runtime_error&) {
            // Nothing yet.
        }
    }
    return SSL_is_init_finished(tls) == 1;
}

}  // namespace

std::string TlsWorld::keep(const std::string& name, const Certificate& certificate,
                           const std::string& more) const {
    return "{certificate: " + write(name + ".pem", certificate.pem()) +
           ", key: " + write(name + ".key", certificate.key_pem()) + more + "}";
}

std::string TlsWorld::keep(const std::string& name) const {
    return keep(name, issue(name, "DNS:localhost,DNS:" + name));
}

std::string TlsWorld::write(const std::string& name, const std::string& text) const {
    // As tools do it: a reader sees the old file or the new one, whole.
    const std::string written = folder_.write(name + ".new", text);
    const std::filesystem::path path = folder_.path() / name;
    std::filesystem::rename(written, path);
    return "\"" + path.string() + "\"";
}

Certificate TlsWorld::issue(const std::string& common_name, const std::string& names) const {
    return issued_by(authority_, {.common_name = common_name, .names = names});
}

SslPtr TlsWorld::make_client(const Speaking& how) const {
    const std::unique_ptr<SSL_CTX, ReleaseOpenSsl> context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX* const settings = context.get();
    X509_STORE_add_cert(SSL_CTX_get_cert_store(settings), authority_.certificate());
    SSL_CTX_set_verify(settings, SSL_VERIFY_PEER, nullptr);
    // Clients must be able to speak old versions.
    if (how.oldest < TLS1_2_VERSION) SSL_CTX_set_security_level(settings, 0);
    SSL_CTX_set_min_proto_version(settings, how.oldest);
    SSL_CTX_set_max_proto_version(settings, how.newest);
    require(how.ciphers.empty() || SSL_CTX_set_cipher_list(settings, how.ciphers.c_str()) == 1,
            "no such cipher");
    require(
        how.signatures.empty() || SSL_CTX_set1_sigalgs_list(settings, how.signatures.c_str()) == 1,
        "no such signature");
    if (how.own != nullptr) {
        SSL_CTX_use_certificate(settings, how.own->certificate.get());
        SSL_CTX_use_PrivateKey(settings, how.own->key.get());
    }
    SslPtr tls(SSL_new(settings));
    if (!how.protocols.empty()) offer_protocols(tls.get(), how.protocols);
    if (!how.name.empty()) ask_for_name(tls.get(), how.name);
    if (how.session != nullptr) {
        const SessionPtr copy(SSL_SESSION_dup(how.session->get()));
        require(SSL_set_session(tls.get(), copy.get()) == 1, "no session to go on with");
    }
    return tls;
}

Socket TlsWorld::connect(std::uint16_t port, const Speaking& how) const {
    Socket socket = Socket::connect(port, how.from);
    if (!how.first.empty()) socket.send(how.first);
    socket.begin_tls(make_client(how));
    return socket;
}

TlsProxy::TlsProxy(const TlsWorld& world, const std::string& tls, const std::string& more,
                   const std::string& listen_more)
    : world_(world), port_(free_port()), listen_more_(listen_more) {
    tidegate_.emplace(yaml(tls, more));
}

std::string TlsProxy::yaml(const std::string& tls, const std::string& more) const {
    return "listen: {address: \"127.0.0.1:" + std::to_string(port_) + "\", tls: {" + tls + "}" +
           listen_more_ + "}\n" + more;
}

Message TlsProxy::get(const Speaking& how, const std::string& path) const {
    return client(how).get(path);
}

std::string TlsProxy::shown(const Speaking& how) const {
    const RawClient shaken = client(how);
    return common_name_of(SSL_get0_peer_certificate(shaken.tls()));
}

std::string TlsProxy::refusal(const Speaking& how) const {
    Socket socket = world_.connect(port_, how);
    bool is_served = is_admitted(socket);
    if (is_served) {
        socket.send(get_request("/"));
        is_served = !socket.receive().empty();
    }
    if (is_served) return "";
    return socket.fault().empty() ? "closed without a word" : socket.fault();
}

bool TlsProxy::reload(const std::string& tls, const std::string& more) const {
    tidegate_->write_configuration(yaml(tls, more));
    return tidegate_->reload().status() == 200;
}

std::string certificates(const std::vector<std::string>& items) {
    std::string list;
    for (const std::string& item : items) list += (list.empty() ? "" : ", ") + item;
    return "certificates: [" + list + "]";
}

SessionPtr session_of(const RawClient& client) {
    const SessionPtr shared(SSL_get1_session(client.tls()));
    require(shared != nullptr, "no session");
    return SessionPtr(SSL_SESSION_dup(shared.get()));
}

bool was_resumed(const RawClient& client) {
    return SSL_session_reused(client.tls()) == 1;
}

}  // namespace tidegate::test
