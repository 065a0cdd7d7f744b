#include "proxy/client_certificate_field.hpp"

#include <string_view>

namespace tidegate::proxy {

namespace {

void append_quoted(std::string_view value, std::string& out) {
    out.append("\"").append(value) += '"';
}

void append_pairs(std::string_view key, const ClientCertificate::Names& names, std::string& out) {
    for (const std::string& value : names.values) {
        out.append(";").append(key) += '=';
        if (value.find_first_of(",;=") == value.npos) {
            out += value;
        } else {
            append_quoted(value, out);
        }
    }
}

}  // namespace

void append_client_certificate(const ClientCertificate& certificate, std::string& out) {
    out.append("X-Forwarded-Client-Cert: Hash=").append(certificate.sha256) += ";Subject=";
    append_quoted(certificate.subject, out);
    append_pairs("URI", certificate.uris, out);
    append_pairs("DNS", certificate.dns_names, out);
    out += "\r\n";
}

}  // namespace tidegate::proxy
