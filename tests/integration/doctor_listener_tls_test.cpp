// `tidegate doctor` on listeners with TLS. Where Tidegate would have to be in a bad state, a server
// of the test takes its place.
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "certificates.hpp"
#include "free_port.hpp"
#include "integration/process.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"
#include "tls_server.hpp"

namespace tidegate::test::doctor_listener_tls_test {

using nlohmann::json;

namespace {

constexpr Validity kForMonths{-3'600, 90 * 86'400};

Certificate issued(const Authority& authority) {
    return authority.issue("DNS:localhost", kForMonths);
}

// The files that `tls` of a listener names.
class CertificateFiles {
  public:
    explicit CertificateFiles(const Certificate& certificate) { write(certificate); }

    void write(const Certificate& certificate) const {
        folder_.write("a.pem", certificate.pem());
        folder_.write("a.key", certificate.key_pem());
    }
    std::string configuration(std::uint16_t port, const Upstream& upstream) const {
        const std::string folder = folder_.path().string();
        return "listen: {address: \"127.0.0.1:" + std::to_string(port) +
               "\", tls: {certificates: [{certificate: \"" + folder + "/a.pem\", key: \"" + folder +
               "/a.key\"}]}}\n" + simple(upstream.url());
    }
    json doctor(const std::string& yaml) const {
        const auto finished =
            run_tidegate({"doctor", "--json", "-c", folder_.write("doctor.yaml", yaml)});
        INFO(finished.errors);
        REQUIRE(json::accept(finished.output));
        return json::parse(finished.output);
    }

  private:
    TemporaryFolder folder_;
};

bool has(const json& report, const std::string& check, const std::string& severity,
         const std::string& part = "") {
    for (const json& one : report.at("findings")) {
        if (one.at("check") == check && one.at("severity") == severity &&
            one.at("what").get<std::string>().find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

}  // namespace

TEST_CASE("doctor: the running Tidegate shows the certificate of its file") {
    const Authority authority;
    const CertificateFiles files(issued(authority));
    const Upstream upstream(ok());
    const std::uint16_t port = free_port();
    const std::string yaml = files.configuration(port, upstream);
    const Tidegate tidegate(yaml);
    const json report = files.doctor(yaml);
    CHECK_MESSAGE(has(report, "listen.tls", "ok", "localhost: TLS 1.3"), report.dump());
    CHECK(has(report, "listen.certificate", "ok"));
    CHECK(has(report, "listen.chain", "note", "no authority of this system"));
    CHECK_FALSE(has(report, "listen.stale", "warning"));
    CHECK(has(report, "listen.http", "ok", "by ALPN get h2"));
    CHECK(report.at("faults") == 0);
    CHECK(tidegate.metric("tidegate_certificate_expiry_timestamp_seconds{name=\"localhost\"}") >
          1e9);
}

TEST_CASE("doctor: it speaks HTTP/2 to a listener in the clear that has h2") {
    const Authority authority;
    const CertificateFiles files(issued(authority));
    const Upstream upstream(ok());
    const auto listening = [&](std::uint16_t port, const std::string& versions) {
        return "listen: {address: \"127.0.0.1:" + std::to_string(port) + "\", http: " + versions +
               "}\n" + simple(upstream.url());
    };
    const std::uint16_t port = free_port();
    const Tidegate both(listening(port, "[h2, http1]"));
    const json known = files.doctor(listening(port, "[h2, http1]"));
    CHECK_MESSAGE(has(known, "listen.http", "ok", "(prior knowledge) get HTTP/2"), known.dump());
    CHECK(known.at("faults") == 0);

    const std::uint16_t other = free_port();
    const Tidegate old(listening(other, "[http1]"));
    const json unknown = files.doctor(listening(other, "[h2, http1]"));
    CHECK_MESSAGE(has(unknown, "listen.http", "fault", "it answers `HTTP/1.1"), unknown.dump());
}

TEST_CASE("doctor: a certificate other than the file's, plain HTTP and no server are reported") {
    const Authority authority;
    const CertificateFiles files(issued(authority));
    const Upstream upstream(ok());
    const TlsServer stale(issued(authority), "");
    const json other = files.doctor(files.configuration(stale.port(), upstream));
    CHECK_MESSAGE(has(other, "listen.stale", "warning", "another certificate"), other.dump());

    const Tidegate plain(simple(upstream.url()));
    const json clear = files.doctor(files.configuration(plain.port(), upstream));
    CHECK_MESSAGE(has(clear, "listen.tls", "fault", "does not speak TLS"), clear.dump());

    const json away = files.doctor(files.configuration(free_port(), upstream));
    CHECK_MESSAGE(has(away, "listen.reachable", "note", "not looked at"), away.dump());
    CHECK(away.at("faults") == 0);
}

}  // namespace tidegate::test::doctor_listener_tls_test
