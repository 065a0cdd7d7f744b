#include "integration/tls_layer.hpp"

#include <array>
#include <utility>

#include <openssl/err.h>

namespace tidegate::test {

TlsLayer::TlsLayer(SslPtr tls) : tls_(std::move(tls)) {
    SSL_set_bio(tls_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(tls_.get());
}

TlsLayer::State TlsLayer::shake() {
    const std::lock_guard lock(mutex_);
    if (state_ != State::shaking) return state_;
    ERR_clear_error();
    const int result = SSL_do_handshake(tls_.get());
    if (result == 1) {
        state_ = State::open;
    } else {
        note(result);
    }
    return state_;
}

void TlsLayer::take(std::string_view wire) {
    const std::lock_guard lock(mutex_);
    BIO_write(SSL_get_rbio(tls_.get()), wire.data(), static_cast<int>(wire.size()));
}

std::string TlsLayer::read() {
    const std::lock_guard lock(mutex_);
    std::string plain;
    std::array<char, 16'384> bytes;
    while (state_ == State::open) {
        ERR_clear_error();
        const int size = SSL_read(tls_.get(), bytes.data(), bytes.size());
        if (size > 0) {
            plain.append(bytes.data(), static_cast<std::size_t>(size));
            continue;
        }
        note(size);
        break;
    }
    return plain;
}

TlsLayer::State TlsLayer::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

std::string TlsLayer::fault() const {
    const std::lock_guard lock(mutex_);
    return fault_;
}

bool TlsLayer::has_to_send() const {
    const std::lock_guard lock(mutex_);
    return BIO_ctrl_pending(SSL_get_wbio(tls_.get())) > 0;
}

std::string TlsLayer::sealed(std::string_view plain) {
    const std::lock_guard lock(mutex_);
    if (!plain.empty()) SSL_write(tls_.get(), plain.data(), static_cast<int>(plain.size()));
    return to_send();
}

std::string TlsLayer::ending() {
    const std::lock_guard lock(mutex_);
    SSL_shutdown(tls_.get());
    return to_send();
}

std::string TlsLayer::to_send() {
    std::string wire(BIO_ctrl_pending(SSL_get_wbio(tls_.get())), '\0');
    if (!wire.empty()) {
        BIO_read(SSL_get_wbio(tls_.get()), wire.data(), static_cast<int>(wire.size()));
    }
    return wire;
}

void TlsLayer::note(int result) {
    switch (SSL_get_error(tls_.get(), result)) {
        case SSL_ERROR_WANT_READ:
            return;
        case SSL_ERROR_ZERO_RETURN:
            state_ = State::ended;
            return;
        default:
            state_ = State::failed;
    }
    const unsigned long error = ERR_get_error();
    const char* const reason = ERR_reason_error_string(error);
    fault_ = reason != nullptr ? reason : "TLS has failed";
    const long judged = SSL_get_verify_result(tls_.get());
    if (judged != X509_V_OK) fault_ += std::string(": ") + X509_verify_cert_error_string(judged);
}

}  // namespace tidegate::test
