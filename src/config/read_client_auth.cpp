// Reads `client_auth`, `client_ca`, `client_crl` and `client_depth` of a listener's `tls`.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/quote.hpp"
#include "config/listener_tls.hpp"
#include "config/pem_files.hpp"
#include "config/read_sections.hpp"
#include "config/referenced_file.hpp"
#include "tls/certificate_facts.hpp"
#include "tls/revocation_list.hpp"

namespace tidegate::config {

namespace {

using std::chrono::system_clock;

constexpr std::chrono::hours kNextListIsNear{24};

void judge_list(const Value& value, const std::string& path, const RevocationListFacts& list,
                system_clock::time_point now) {
    const std::string which = "the list of " + quote(list.issuer) + " in " + quote(path);
    if (list.signature == RevocationListFacts::Signature::bad) {
        value.fault(which + " is not signed by the authority of this name in `client_ca`");
    } else if (list.signature == RevocationListFacts::Signature::of_stranger) {
        value.warn(which + " has no effect: `client_ca` does not have this authority");
    } else if (list.from > now) {
        value.warn(which + " is not valid before " + shown_moment(list.from) +
                   ": Tidegate refuses the clients of this authority until then");
    } else if (list.until && *list.until < now) {
        value.warn(which + " has expired, on " + shown_moment(*list.until) +
                   ": Tidegate refuses the clients of this authority until the file has its next "
                   "list");
    } else if (list.until && *list.until - now < kNextListIsNear) {
        value.warn(which + " expires on " + shown_moment(*list.until) +
                   ", and then Tidegate refuses the clients of this authority: get its next list");
    }
}

// With `client_crl`, Tidegate refuses clients of an authority that has no list.
void warn_about_uncovered(const Value& value, const std::string& path,
                          std::span<const RevocationListFacts> lists,
                          std::span<const CertificatePtr> authorities) {
    for (const CertificatePtr& authority : authorities) {
        const CertificateFacts facts = facts_of(*authority);
        const auto is_of_it = [&](const RevocationListFacts& list) {
            return list.issuer == facts.subject;
        };
        if (!facts.is_authority || std::any_of(lists.begin(), lists.end(), is_of_it)) continue;
        value.warn("there is no list of " + quote(facts.subject) + " in " + quote(path) +
                   ": Tidegate refuses the clients of this authority; append its list");
    }
}

std::string read_lists(const Value& value, std::span<const CertificatePtr> authorities) {
    auto file = read_referenced_file(value, "clients.crl", kListBytesMax);
    if (!file) return {};
    value.context().files.push_back(file->path);
    const auto lists = parse_revocation_lists(file->text);
    if (!lists) {
        value.fault("the file " + quote(file->path) + " " + lists.error());
        return {};
    }
    // If `client_ca` has a fault, no list could be matched with its authority.
    if (authorities.empty()) return {};
    std::vector<RevocationListFacts> all;
    for (const RevocationListPtr& list : *lists) {
        all.push_back(facts_of(*list, authorities));
        judge_list(value, file->path, all.back(), system_clock::now());
    }
    warn_about_uncovered(value, file->path, all, authorities);
    return std::move(file->text);
}

std::vector<CertificatePtr> read_client_ca(const Value& value, std::string& pem) {
    auto file = read_certificate_file(value, "clients-ca.pem");
    if (!file) return {};
    for (const CertificatePtr& one : file->certificates) {
        warn_about_time(value, file->path, *one);
        const CertificateFacts facts = facts_of(*one);
        if (facts.is_authority) continue;
        value.warn("the certificate of " + quote(facts.subject) + " in " + quote(file->path) +
                   " is not that of an authority, so it admits no client but the one that has this "
                   "certificate: name the authority that signs your clients' certificates");
    }
    pem = std::move(file->pem);
    return std::move(file->certificates);
}

// Judges a setting of client certificates beside `client_auth: off`. Without `client_auth` it is a
// fault, as the operator may believe that the listener asks for certificates.
void report_idle(const std::optional<Value>& mode, const Value& idle) {
    if (mode) return idle.warn("has no effect with `client_auth: off`");
    idle.fault(
        "`client_auth` is missing: write `client_auth: require` to admit only clients with a "
        "certificate, or `client_auth: optional`");
}

}  // namespace

ClientAuthSettings read_client_auth(Section& tls) {
    ClientAuthSettings settings;
    const auto mode = tls.find("client_auth");
    const auto ca = tls.find("client_ca");
    const auto crl = tls.find("client_crl");
    const auto depth = tls.find("client_depth");
    if (mode && !mode->is_off()) {
        const auto chosen = mode->choice<ClientAuth>({{"off", ClientAuth::off},
                                                      {"optional", ClientAuth::optional},
                                                      {"require", ClientAuth::require}});
        if (!chosen) return settings;
        settings.mode = *chosen;
    }
    constexpr std::int64_t kClientDepthMax = 16;
    tls.integer("client_depth", settings.depth, {0, kClientDepthMax});
    if (settings.mode == ClientAuth::off) {
        for (const auto& idle : {ca, crl, depth}) {
            if (idle) report_idle(mode, *idle);
        }
        return settings;
    }
    std::vector<CertificatePtr> authorities;
    if (ca) {
        authorities = read_client_ca(*ca, settings.ca);
    } else {
        mode->fault(
            "`client_ca` is missing: write the file with the authorities that sign the "
            "certificates "
            "of your clients, `client_ca: clients-ca.pem`");
    }
    if (crl) settings.crl = read_lists(*crl, authorities);
    return settings;
}

bool Config::asks_for_certificates() const {
    return std::any_of(listen.begin(), listen.end(), [](const Listen& one) {
        return one.tls && one.tls->client_auth.mode != ClientAuth::off;
    });
}

}  // namespace tidegate::config
