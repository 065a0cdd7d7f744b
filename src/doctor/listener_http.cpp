#include "doctor/listener_http.hpp"

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/quote.hpp"

namespace tidegate::doctor {

namespace {

constexpr std::string_view kHttpCheck = "listen.http";
constexpr const char* kOtherHttp =
    "run `tidegate reload`, and restart Tidegate if it says so; or find out which program listens "
    "there";

}  // namespace

void judge_negotiated(const config::Listen& listen, const TlsAnswer& answer, Findings& findings) {
    if (answer.chain.empty()) return;  // the handshake did not get that far
    const bool is_http2 = answer.protocol == kAlpnHttp2;
    // A server that chooses nothing is spoken to in HTTP/1.1.
    const std::string chosen = answer.protocol.empty() ? std::string(kAlpnHttp1) : answer.protocol;
    const std::string what = fmt::format("clients that offer {} and {} by ALPN get {}", kAlpnHttp2,
                                         kAlpnHttp1, displayable(chosen));
    if (is_http2 == listen.takes_http2) return findings.ok(kHttpCheck, what);
    findings.fault(kHttpCheck,
                   what + (is_http2 ? ", but `http` of this listener does not have `h2`"
                                    : ", but `http` of this listener has `h2`"),
                   kOtherHttp);
}

void judge_prior_knowledge(const Http2Answer& answer, Findings& findings) {
    if (begins_with_settings(answer.bytes)) {
        return findings.ok(kHttpCheck,
                           "clients that begin with HTTP/2 (prior knowledge) get HTTP/2");
    }
    const std::string_view line =
        std::string_view(answer.bytes).substr(0, answer.bytes.find_first_of("\r\n"));
    findings.fault(kHttpCheck,
                   fmt::format("`http` of this listener has `h2`, but clients that begin with "
                               "HTTP/2 (prior knowledge) do not get it: {}",
                               answer.bytes.empty() ? answer.fault : "it answers " + quote(line)),
                   kOtherHttp);
}

}  // namespace tidegate::doctor
