#include "tls/client_auth.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "tls/certificate.hpp"
#include "tls/openssl.hpp"

namespace tidegate {

using std::chrono::system_clock;

class ParsedClientAuth {
  public:
    ClientAuth mode = ClientAuth::off;
    int depth = 0;
    std::vector<CertificatePtr> authorities;
    std::vector<RevocationListPtr> lists;
    system_clock::time_point lists_hold_until = system_clock::time_point::max();
    std::array<unsigned char, SSL_MAX_SID_CTX_LENGTH> session_context{};
};

namespace {

using Names = ClientCertificate::Names;

// Neither URIs (RFC 3986) nor host names have `"` and `\`, about whose escapes readers of
// X-Forwarded-Client-Cert differ.
bool is_alternative_name(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return c > ' ' && c <= '~' && c != '"' && c != '\\';
    });
}

void add_client_name(std::string text, bool is_usable, Names& names) {
    if (is_usable) {
        names.values.push_back(std::move(text));
    } else {
        names.is_incomplete = true;
    }
}

// ascii_name() escapes the special characters of RFC 4514 by a backslash. Written in hex as well,
// no reader can take an escaped quote for the end of a quoted string, nor lose the escape of a
// comma.
std::string in_hex_escapes(std::string_view escaped) {
    std::string out;
    out.reserve(escaped.size());
    for (std::size_t i = 0; i < escaped.size(); ++i) {
        out += escaped[i];
        if (escaped[i] != '\\' || i + 1 == escaped.size() || hex_value(escaped[i + 1]) >= 0) {
            continue;
        }
        append_hex(static_cast<std::uint8_t>(escaped[++i]), out, kUpperHexDigits);
    }
    return out;
}

void read_common_names(const X509& certificate, Names& names) {
    const X509_NAME* const subject = X509_get_subject_name(&certificate);
    int at = -1;
    while ((at = X509_NAME_get_index_by_NID(subject, NID_commonName, at)) >= 0) {
        const ASN1_STRING* const value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
        unsigned char* bytes = nullptr;
        const int size = ASN1_STRING_to_UTF8(&bytes, value);
        const std::string_view text(reinterpret_cast<const char*>(bytes),
                                    size < 0 ? 0 : static_cast<std::size_t>(size));
        add_client_name(std::string(text), size > 0 && displayable(text) == text, names);
        if (size >= 0) OPENSSL_free(bytes);
    }
}

void read_alternative_name(const GENERAL_NAME& name, ClientCertificate& into) {
    int kind = 0;
    const void* const value = GENERAL_NAME_get0_value(&name, &kind);
    Names* const names = kind == GEN_URI     ? &into.uris
                         : kind == GEN_DNS   ? &into.dns_names
                         : kind == GEN_EMAIL ? &into.emails
                                             : nullptr;
    if (names == nullptr) return;
    const std::string_view text = bytes_of(static_cast<const ASN1_STRING*>(value));
    const bool has_one_case = kind == GEN_DNS;
    add_client_name(has_one_case ? to_lower(std::string(text)) : std::string(text),
                    is_alternative_name(text), *names);
}

void read_alternative_names(const X509& certificate, ClientCertificate& into) {
    const AlternativeNames names = alternative_names(certificate);
    if (names.is_broken) {
        for (Names* of : {&into.uris, &into.dns_names, &into.emails}) of->is_incomplete = true;
    }
    for (int i = 0; i < sk_GENERAL_NAME_num(names.list.get()); ++i) {
        read_alternative_name(*sk_GENERAL_NAME_value(names.list.get(), i), into);
    }
}

using Signature = RevocationListFacts::Signature;

std::optional<system_clock::time_point> due_time(const X509_CRL& list) {
    const ASN1_TIME* const next = X509_CRL_get0_nextUpdate(&list);
    return next == nullptr ? std::nullopt : std::optional(time_of(next));
}

Signature judge_signature(X509_CRL& list, std::span<const CertificatePtr> authorities) {
    auto signature = Signature::of_stranger;
    for (const CertificatePtr& authority : authorities) {
        const X509_NAME* const name = X509_get_subject_name(authority.get());
        if (X509_NAME_cmp(name, X509_CRL_get_issuer(&list)) != 0) continue;
        const bool good = X509_CRL_verify(&list, X509_get0_pubkey(authority.get())) == 1;
        ERR_clear_error();
        // Two authorities may have one name: an old key and a new one.
        if (good) return Signature::good;
        signature = Signature::bad;
    }
    return signature;
}

// The key of the issuer that has signed it; null: it does not say.
const ASN1_OCTET_STRING* key_id_of(X509_CRL& list) {
    const int at = X509_CRL_get_ext_by_NID(&list, NID_authority_key_identifier, -1);
    return at < 0 ? nullptr : X509_EXTENSION_get_data(X509_CRL_get_ext(&list, at));
}

bool are_of_one_issuer(X509_CRL& a, X509_CRL& b) {
    if (X509_NAME_cmp(X509_CRL_get_issuer(&a), X509_CRL_get_issuer(&b)) != 0) return false;
    const ASN1_OCTET_STRING* const key_of_a = key_id_of(a);
    const ASN1_OCTET_STRING* const key_of_b = key_id_of(b);
    if (key_of_a == nullptr || key_of_b == nullptr) return key_of_a == key_of_b;
    return ASN1_OCTET_STRING_cmp(key_of_a, key_of_b) == 0;
}

// The bytes of all certificates that a client sends.
constexpr long kChainBytesMax = 32'768;
// The names of the authorities go into each handshake. Beyond, none is named, which means any (RFC
// 8446 section 4.2.4).
constexpr int kAuthorityNamesBytesMax = 16'384;

void require_memory(bool is_done) {
    if (is_done) return;
    ERR_clear_error();
    throw std::bad_alloc();
}

// The hash that tickets of other settings do not have.
class ContextHash {
  public:
    ContextHash() : digest_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
        require_memory(digest_ != nullptr &&
                       EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr) == 1);
    }

    void add(std::uint64_t number) {
        std::array<unsigned char, sizeof number> bytes{};
        for (unsigned char& byte : bytes) {
            byte = static_cast<unsigned char>(number);
            number >>= 8;
        }
        EVP_DigestUpdate(digest_.get(), bytes.data(), bytes.size());
    }
    // `encode`: one of OpenSSL's i2d functions.
    template <class Object>
    void add(int (*encode)(const Object*, unsigned char**), const Object& object) {
        unsigned char* der = nullptr;
        const int size = encode(&object, &der);
        require_memory(size >= 0);
        add(static_cast<std::uint64_t>(size));
        EVP_DigestUpdate(digest_.get(), der, static_cast<std::size_t>(size));
        OPENSSL_free(der);
    }
    void finish(std::array<unsigned char, SSL_MAX_SID_CTX_LENGTH>& into) {
        static_assert(SSL_MAX_SID_CTX_LENGTH == 32);
        EVP_DigestFinal_ex(digest_.get(), into.data(), nullptr);
    }

  private:
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest_;
};

// OpenSSL sorts a list when it is first asked; afterwards threads may share it. (X509_CRL_sort()
// would have it encoded anew, and its signature would be wrong.)
void sort_by_first_question(X509_CRL& list) {
    const std::unique_ptr<ASN1_INTEGER, decltype(&ASN1_INTEGER_free)> any(ASN1_INTEGER_new(),
                                                                          &ASN1_INTEGER_free);
    require_memory(any != nullptr);
    X509_REVOKED* found = nullptr;
    X509_CRL_get0_by_serial(&list, &found, any.get());
}

void set_session_context(ParsedClientAuth& auth) {
    ContextHash hash;
    hash.add(static_cast<std::uint64_t>(auth.mode));
    hash.add(static_cast<std::uint64_t>(auth.depth));
    hash.add(auth.authorities.size());
    for (const CertificatePtr& authority : auth.authorities) hash.add(i2d_X509, *authority);
    for (const RevocationListPtr& list : auth.lists) hash.add(i2d_X509_CRL, *list);
    hash.finish(auth.session_context);
}

// A certificate whose issuer, which may be itself, is not among the authorities.
bool stands_alone(const std::vector<CertificatePtr>& authorities, const X509& certificate) {
    return std::none_of(authorities.begin(), authorities.end(), [&](const CertificatePtr& other) {
        return has_issued(*other, certificate);
    });
}

// Puts the authorities and lists into OpenSSL's store. Its partial chains end at the first
// certificate of the store: an intermediate beside its issuer would not be looked up in the
// issuer's list any more, so it does not go into such a store, and clients send it, as TLS wants
// it.
void trust_authorities(const ParsedClientAuth& auth, X509_STORE* store) {
    const bool is_partial = std::any_of(
        auth.authorities.begin(), auth.authorities.end(),
        [&](const CertificatePtr& one) { return stands_alone(auth.authorities, *one); });
    unsigned long flags = 0;
    if (is_partial) flags |= X509_V_FLAG_PARTIAL_CHAIN;
    if (!auth.lists.empty()) flags |= X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL;
    require_memory(X509_STORE_set_flags(store, flags) == 1);
    for (const CertificatePtr& one : auth.authorities) {
        const bool is_end = has_issued(*one, *one) || stands_alone(auth.authorities, *one);
        if (is_partial && !is_end) continue;
        // OpenSSL locks a key while it is used, so each worker has its own; not of the lists, which
        // can be large.
        const CertificatePtr own(X509_dup(one.get()));
        require_memory(own != nullptr && X509_STORE_add_cert(store, own.get()) == 1);
    }
    for (const RevocationListPtr& list : auth.lists) {
        require_memory(X509_STORE_add_crl(store, list.get()) == 1);
    }
}

void name_authorities(const ParsedClientAuth& auth, SSL_CTX* context) {
    std::vector<const X509_NAME*> names;
    int bytes = 0;
    for (const CertificatePtr& one : auth.authorities) {
        const X509_NAME* const name = X509_get_subject_name(one.get());
        const bool is_known = std::any_of(names.begin(), names.end(), [&](const X509_NAME* other) {
            return X509_NAME_cmp(name, other) == 0;
        });
        if (is_known) continue;
        names.push_back(name);
        bytes += i2d_X509_NAME(name, nullptr) + 2;
    }
    if (bytes > kAuthorityNamesBytesMax) return;
    STACK_OF(X509_NAME)* const list = sk_X509_NAME_new_null();
    require_memory(list != nullptr);
    SSL_CTX_set_client_CA_list(context, list);  // which owns it now
    for (const X509_NAME* name : names) {
        X509_NAME* const copy = X509_NAME_dup(name);
        require_memory(copy != nullptr && sk_X509_NAME_push(list, copy) > 0);
    }
}

bool is_about_lists(int error) {
    switch (error) {
        case X509_V_ERR_UNABLE_TO_GET_CRL:
        case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
        case X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE:
        case X509_V_ERR_CRL_SIGNATURE_FAILURE:
        case X509_V_ERR_CRL_NOT_YET_VALID:
        case X509_V_ERR_CRL_HAS_EXPIRED:
        case X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD:
        case X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD:
        case X509_V_ERR_KEYUSAGE_NO_CRL_SIGN:
        case X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION:
        case X509_V_ERR_DIFFERENT_CRL_SCOPE:
        case X509_V_ERR_CRL_PATH_VALIDATION_ERROR:
            return true;
        default:
            return false;
    }
}

// OpenSSL wants a list for the authority itself, too, which an intermediate that stands alone
// cannot have, nor a client's own certificate in client_ca. Lists are checked when the chain is
// built and trusted, so its last certificate is the authority.
int ignore_missing_list(int is_good, X509_STORE_CTX* chain) {
    if (is_good == 1) return 1;
    const int last = sk_X509_num(X509_STORE_CTX_get0_chain(chain)) - 1;
    if (X509_STORE_CTX_get_error_depth(chain) != last ||
        !is_about_lists(X509_STORE_CTX_get_error(chain))) {
        return 0;
    }
    X509_STORE_CTX_set_error(chain, X509_V_OK);
    return 1;
}

// A context owns the data of its callbacks: a connection may outlive all else.
void free_kept(void*, void* kept, CRYPTO_EX_DATA*, int, long, void*) {
    delete static_cast<std::shared_ptr<const ParsedClientAuth>*>(kept);
}

int kept_index() {
    static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, free_kept);
    return index;
}

// A ticket expires at a second of Unix time, in eight bytes.
using TicketExpiry = std::array<unsigned char, 8>;

TicketExpiry ticket_expiry_of(system_clock::time_point until) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(until.time_since_epoch()).count();
    TicketExpiry expiry{};
    for (std::size_t i = 0; i < expiry.size(); ++i) {
        expiry[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(seconds) >> (56 - 8 * i));
    }
    return expiry;
}

std::optional<std::chrono::seconds> read_expiry(const SSL_SESSION* session) {
    void* bytes = nullptr;
    std::size_t size = 0;
    // OpenSSL only reads the session.
    if (SSL_SESSION_get0_ticket_appdata(const_cast<SSL_SESSION*>(session), &bytes, &size) != 1 ||
        size != sizeof(TicketExpiry)) {
        return std::nullopt;
    }
    const auto seconds = big_endian<std::uint64_t>({static_cast<const char*>(bytes), size});
    return std::chrono::seconds(static_cast<std::int64_t>(seconds));
}

// OpenSSL calls this before it makes a ticket. The ticket of a resumed connection keeps the expiry
// of the one that it came with, as the chain is no longer known.
int write_ticket_expiry(SSL* tls, void* of_context) {
    const auto& auth = *static_cast<const ParsedClientAuth*>(of_context);
    const STACK_OF(X509)* const chain = SSL_get0_verified_chain(tls);
    if (SSL_session_reused(tls) == 1 || chain == nullptr) return 1;
    auto until = auth.lists_hold_until;
    for (int i = 0; i < sk_X509_num(chain); ++i) {
        until = std::min(until, validity_of(*sk_X509_value(chain, i)).until);
    }
    const TicketExpiry expiry = ticket_expiry_of(until);
    // If this fails for lack of memory, the ticket does not resume.
    SSL_SESSION_set1_ticket_appdata(SSL_get_session(tls), expiry.data(), expiry.size());
    return 1;
}

SSL_TICKET_RETURN read_ticket_expiry(SSL*, SSL_SESSION* session, const unsigned char*, std::size_t,
                                     SSL_TICKET_STATUS status, void* of_context) {
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) {
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    const auto& auth = *static_cast<const ParsedClientAuth*>(of_context);
    if (!may_resume(session, auth.mode, system_clock::now())) return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

}  // namespace

std::optional<ClientCertificate> client_certificate_of(const SSL* tls) {
    const X509* const certificate = SSL_get0_peer_certificate(tls);
    if (certificate == nullptr || SSL_get_verify_result(tls) != X509_V_OK) return std::nullopt;
    return read_client_certificate(*certificate);
}

ClientCertificate read_client_certificate(const X509& certificate) {
    ClientCertificate read;
    read.sha256 = sha256_of(certificate);
    read.subject = in_hex_escapes(ascii_name(*X509_get_subject_name(&certificate)));
    read_common_names(certificate, read.common_names);
    read_alternative_names(certificate, read);
    ERR_clear_error();  // of what could not be read
    return read;
}

Result<std::vector<RevocationListPtr>, std::string> parse_revocation_lists(std::string_view pem) {
    using boost::system::in_place_error;
    auto found = read_all<RevocationListPtr>(pem, PEM_read_bio_X509_CRL);
    if (!found) return {in_place_error, "holds a revocation list that cannot be read"};
    if (!found->empty()) return std::move(*found);
    return {in_place_error, "holds no revocation list (PEM: `-----BEGIN X509 CRL-----`)"};
}

RevocationListFacts facts_of(X509_CRL& list, std::span<const CertificatePtr> authorities) {
    return {.issuer = shown_name(*X509_CRL_get_issuer(&list)),
            .from = time_of(X509_CRL_get0_lastUpdate(&list)),
            .until = due_time(list),
            .signature = judge_signature(list, authorities)};
}

std::optional<system_clock::time_point> next_update(const std::vector<RevocationListPtr>& lists) {
    constexpr auto kNever = system_clock::time_point::max();
    auto first = kNever;
    for (const RevocationListPtr& list : lists) {
        auto latest = system_clock::time_point::min();
        for (const RevocationListPtr& other : lists) {
            if (!are_of_one_issuer(*list, *other)) continue;
            latest = std::max(latest, due_time(*other).value_or(kNever));
        }
        first = std::min(first, latest);
    }
    return first == kNever ? std::nullopt : std::optional(first);
}

Result<std::shared_ptr<const ParsedClientAuth>, std::string> parse_client_auth(
    const ClientAuthSettings& settings) {
    using boost::system::in_place_error;
    auto auth = std::make_shared<ParsedClientAuth>();
    auth->mode = settings.mode;
    if (settings.mode != ClientAuth::off) {
        auth->depth = settings.depth;
        auto authorities = parse_certificates(settings.ca);
        if (!authorities) return {in_place_error, "client_ca " + authorities.error()};
        auth->authorities = std::move(*authorities);
    }
    if (settings.mode != ClientAuth::off && !settings.crl.empty()) {
        auto lists = parse_revocation_lists(settings.crl);
        if (!lists) return {in_place_error, "client_crl " + lists.error()};
        auth->lists = std::move(*lists);
        for (const RevocationListPtr& list : auth->lists) sort_by_first_question(*list);
        if (const auto next = next_update(auth->lists)) auth->lists_hold_until = *next;
    }
    set_session_context(*auth);
    return std::shared_ptr<const ParsedClientAuth>(std::move(auth));
}

void prepare_client_auth(SSL_CTX* context, std::shared_ptr<const ParsedClientAuth> auth) {
    SSL_CTX_set_session_id_context(context, auth->session_context.data(),
                                   static_cast<unsigned>(auth->session_context.size()));
    if (auth->mode == ClientAuth::off) {
        SSL_CTX_set_verify(context, SSL_VERIFY_NONE, nullptr);
        return;
    }
    X509_STORE* const store = X509_STORE_new();
    require_memory(store != nullptr);
    // OpenSSL completes the server's own chain out of the context's other store, which is not for
    // clients.
    SSL_CTX_set0_verify_cert_store(context, store);
    trust_authorities(*auth, store);
    name_authorities(*auth, context);
    const int need = auth->mode == ClientAuth::require ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | need, ignore_missing_list);
    SSL_CTX_set_verify_depth(context, auth->depth);
    SSL_CTX_set_purpose(context, X509_PURPOSE_SSL_CLIENT);
    SSL_CTX_set_max_cert_list(context, kChainBytesMax);
    auto kept = std::make_unique<std::shared_ptr<const ParsedClientAuth>>(std::move(auth));
    // The callbacks take a pointer that is not const; they change nothing.
    void* const of_callbacks = const_cast<ParsedClientAuth*>(kept->get());
    require_memory(SSL_CTX_set_ex_data(context, kept_index(), kept.get()) == 1);
    static_cast<void>(kept.release());
    SSL_CTX_set_session_ticket_cb(context, write_ticket_expiry, read_ticket_expiry, of_callbacks);
}

bool may_resume(const SSL_SESSION* session, ClientAuth mode, system_clock::time_point now) {
    if (SSL_SESSION_get0_peer(const_cast<SSL_SESSION*>(session)) == nullptr) {
        return mode != ClientAuth::require;
    }
    const auto until = read_expiry(session);
    return until && now.time_since_epoch() <= *until;
}

std::string_view client_certificate_fault(const SSL* tls) {
    const long result = SSL_get_verify_result(tls);
    return result == X509_V_OK ? "" : X509_verify_cert_error_string(result);
}

}  // namespace tidegate
