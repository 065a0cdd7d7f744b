#include "tls/openssl_text.hpp"

#include <limits>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

namespace tidegate {

void FreeBio::operator()(BIO* bio) const {
    BIO_free(bio);
}

BioPtr open_text(std::string_view text) {
    ERR_clear_error();
    if (text.size() > std::numeric_limits<int>::max()) return nullptr;
    return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

bool was_end_of_pem() {
    const unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    return ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
}

BioPtr open_memory() {
    return BioPtr(BIO_new(BIO_s_mem()));
}

std::string written(BIO& memory) {
    char* text = nullptr;
    const long size = BIO_get_mem_data(&memory, &text);
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : std::string();
}

std::string openssl_reason() {
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return reason != nullptr ? reason : "out of memory";
}

}  // namespace tidegate
