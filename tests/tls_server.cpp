#include "tls_server.hpp"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <utility>

#include <openssl/err.h>

namespace tidegate::test {

namespace {

// Impossible here.
void require(bool good, const char* what) {
    if (!good) throw std::runtime_error(std::string("tls_server: ") + what);
}

// Takes the one protocol that it knows, or none. The list has each behind its length.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* bytes,
                    const unsigned char* offered, unsigned offered_bytes, void* own) {
    const auto& protocol = *static_cast<const std::string*>(own);
    for (unsigned at = 0; at < offered_bytes; at += offered[at] + 1U) {
        const std::string_view one(reinterpret_cast<const char*>(offered + at + 1), offered[at]);
        if (one != protocol) continue;
        *chosen = offered + at + 1;
        *bytes = offered[at];
        return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_NOACK;
}

// A client may close during a write: that is an ordinary error.
void block_sigpipe() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

}  // namespace

std::string TlsServer::Conversation::read_head() {
    std::string head;
    char byte = 0;
    while (!head.ends_with("\r\n\r\n") && SSL_read(tls_, &byte, 1) == 1) head += byte;
    const std::lock_guard lock(owner_.mutex_);
    owner_.seen_.push_back(head);
    return head;
}

std::size_t TlsServer::Conversation::read(char* bytes, std::size_t size) {
    const int got = SSL_read(tls_, bytes, static_cast<int>(size));
    return got > 0 ? static_cast<std::size_t>(got) : 0;
}

bool TlsServer::Conversation::send(std::string_view bytes) {
    return bytes.empty() || SSL_write(tls_, bytes.data(), static_cast<int>(bytes.size())) > 0;
}

void TlsServer::Conversation::wait_for_end() {
    char bytes[4096];
    while (SSL_read(tls_, bytes, sizeof bytes) > 0) {
    }
}

TlsServer::TlsServer(Certificate certificate, Handler handler, int newest, const Authority* clients,
                     Clients rule, std::string protocol)
    : certificate_(std::move(certificate)),
      handler_(std::move(handler)),
      protocol_(std::move(protocol)),
      context_(SSL_CTX_new(TLS_server_method())) {
    SSL_CTX_use_certificate(context_.get(), certificate_.certificate.get());
    SSL_CTX_use_PrivateKey(context_.get(), certificate_.key.get());
    if (!protocol_.empty()) SSL_CTX_set_alpn_select_cb(context_.get(), choose_protocol, &protocol_);
    if (newest != 0) {
        // A test may want a version that the system's own bounds exclude.
        SSL_CTX_set_security_level(context_.get(), 0);
        SSL_CTX_set_min_proto_version(context_.get(), 0);
        SSL_CTX_set_max_proto_version(context_.get(), newest);
    }
    if (clients != nullptr) {
        X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), clients->certificate());
        const int must = rule == Clients::must_have_one ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
        SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER | must, nullptr);
    }
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    require(::bind(listener_, generic, size) == 0 && ::listen(listener_, 16) == 0 &&
                ::getsockname(listener_, generic, &size) == 0,
            "cannot listen");
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] {
        block_sigpipe();
        accept_all();
    });
}

TlsServer::TlsServer(Certificate certificate, const std::string& answer)
    : TlsServer(std::move(certificate), [answer](Conversation& client) {
          client.read_head();
          client.send(answer);
          client.finish();
      }) {}

TlsServer::~TlsServer() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    {
        const std::lock_guard lock(mutex_);
        if (client_ >= 0) ::shutdown(client_, SHUT_RDWR);
    }
    thread_.join();
    ::close(listener_);
}

std::string TlsServer::url(const std::string& path, const std::string& host) const {
    return "https://" + host + ":" + std::to_string(port_) + path;
}

std::vector<std::string> TlsServer::seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
}

// A client's side of a handshake may be over before this one's.
std::vector<std::string> TlsServer::names_asked_for() const {
    std::unique_lock lock(mutex_);
    handshake_over_.wait_for(lock, std::chrono::seconds{10}, [this] { return !is_shaking_hands_; });
    return names_;
}

void TlsServer::accept_all() {
    while (!stopping_) {
        const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) continue;
        {
            const std::lock_guard lock(mutex_);
            client_ = client;
            if (stopping_) ::shutdown(client_, SHUT_RDWR);
        }
        ++connections_;
        serve(client);
        const std::lock_guard lock(mutex_);
        client_ = -1;
        ::close(client);
    }
}

bool TlsServer::shake_hands(SSL* tls) {
    {
        const std::lock_guard lock(mutex_);
        is_shaking_hands_ = true;
    }
    const bool is_shaken = SSL_accept(tls) == 1;
    const std::lock_guard lock(mutex_);
    if (is_shaken) {
        const char* const name = SSL_get_servername(tls, TLSEXT_NAMETYPE_host_name);
        names_.emplace_back(name != nullptr ? name : "");
    }
    is_shaking_hands_ = false;
    handshake_over_.notify_all();
    return is_shaken;
}

void TlsServer::serve(int descriptor) {
    const std::unique_ptr<SSL, ReleaseOpenSsl> tls(SSL_new(context_.get()));
    SSL_set_fd(tls.get(), descriptor);
    if (shake_hands(tls.get())) {
        if (SSL_session_reused(tls.get()) == 1) ++resumptions_;
        Conversation client(*this, tls.get());
        handler_(client);
    } else {
        // A reset, caused by bytes that the client has sent already, could destroy the alert.
        ::shutdown(descriptor, SHUT_WR);
        std::array<char, 4'096> unread;
        while (::recv(descriptor, unread.data(), unread.size(), 0) > 0) {
        }
    }
    ERR_clear_error();
}

std::string tls_answer(std::string_view body, const std::string& status,
                       const std::string& more_fields) {
    return "HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\nConnection: close\r\n" + more_fields + "\r\n" + std::string(body);
}

}  // namespace tidegate::test
