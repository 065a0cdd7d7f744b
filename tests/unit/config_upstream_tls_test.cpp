// `https://` servers and `tls` of an upstream.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "config/config.hpp"

namespace tidegate::config_upstream_tls_test {

namespace {

// A folder with the files that a configuration names.
class UpstreamFiles {
  public:
    UpstreamFiles() {
        std::string name = (std::filesystem::temp_directory_path() / "tidegate-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        folder_ = name;
    }
    ~UpstreamFiles() { std::filesystem::remove_all(folder_); }
    UpstreamFiles(const UpstreamFiles&) = delete;
    UpstreamFiles& operator=(const UpstreamFiles&) = delete;

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(folder_ / name) << text;
        std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_read);
    }
    config::Loaded load(const std::string& settings,
                        const std::string& servers = "[https://api.internal]") const {
        write_configuration("upstreams: {api: {servers: " + servers + settings + "}}\n" +
                            "routes: [{policies: []}]\n");
        return config::load_file((folder_ / "t.yaml").string());
    }

  private:
    void write_configuration(const std::string& text) const {
        std::ofstream(folder_ / "t.yaml") << text;
    }
    std::filesystem::path folder_;
};

config::Upstream upstream_of(const config::Loaded& loaded) {
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded.config->upstreams.at(0);
}

bool says(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE(
    "upstream tls: `https` alone is verified with the system's authorities, from TLS 1.2 on") {
    const UpstreamFiles files;
    const auto loaded = files.load("");
    const auto upstream = upstream_of(loaded);
    CHECK(loaded.warnings.empty());
    CHECK(upstream.servers.at(0).is_tls);
    CHECK(upstream.servers.at(0).address.port == 443);
    CHECK(upstream.servers.at(0).authority == "api.internal");
    CHECK(upstream.tls == TlsSettings{});
    CHECK(upstream.tls.verify);
    CHECK_FALSE(upstream_of(files.load("", "[http://api.internal]")).servers.at(0).is_tls);
}

TEST_CASE("upstream tls: all keys are read, and files with them") {
    const UpstreamFiles files;
    const test::Authority authority;
    const test::Certificate own = authority.issue();
    files.write("ca.pem", authority.pem());
    files.write("own.pem", own.pem());
    files.write("own.key", own.key_pem());
    const std::string settings =
        ", tls: {ca: ca.pem, certificate: own.pem, key: own.key, server_name: other.internal, "
        "verify: on, min_version: 1.3}";
    const auto upstream = upstream_of(files.load(settings));
    CHECK(upstream.tls.ca == authority.pem());
    CHECK(upstream.tls.certificate == own.pem());
    CHECK(upstream.tls.key == own.key_pem());
    CHECK(upstream.tls.server_name == "other.internal");
    CHECK(upstream.tls.min_version == TlsVersion::tls_1_3);
    // A reload compares these: other files are another upstream.
    CHECK(upstream_of(files.load(settings)) == upstream);
    files.write("other.pem", test::Authority().pem());
    CHECK_FALSE(upstream_of(files.load(", tls: {ca: other.pem}")) ==
                upstream_of(files.load(", tls: {ca: ca.pem}")));
}

TEST_CASE("upstream tls: `verify: off` is warned of, and that `ca` then means nothing") {
    const UpstreamFiles files;
    files.write("ca.pem", test::Authority().pem());
    const auto alone = files.load(", tls: {verify: off}");
    CHECK_FALSE(upstream_of(alone).tls.verify);
    REQUIRE(alone.warnings.size() == 1);
    CHECK(says(alone.warnings[0].message, "tls.verify: Tidegate takes any certificate"));
    const auto with_ca = files.load(", tls: {verify: off, ca: ca.pem}");
    REQUIRE(with_ca.warnings.size() == 2);
    CHECK(says(with_ca.warnings[0].message + with_ca.warnings[1].message,
               "tls.ca: has no effect with `verify: off`"));
}

TEST_CASE("upstream tls: one encrypted server is enough for `tls`") {
    const UpstreamFiles files;
    const auto upstream =
        upstream_of(files.load(", tls: {server_name: a}", "[http://a:80, https://b:443]"));
    CHECK_FALSE(upstream.servers.at(0).is_tls);
    CHECK(upstream.servers.at(1).is_tls);
}

}  // namespace tidegate::config_upstream_tls_test
