// The ways into Redis as they are configured: TLS and its files, secrets.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "certificates.hpp"
#include "config/config.hpp"
#include "places.hpp"

namespace tidegate::config_redis_test {

using config::Loaded;
using test::Authority;
using test::Certificate;

namespace {

struct Folder {
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "config-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    void write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
        std::ofstream(path / name, std::ios::binary) << text;
        ::chmod((path / name).c_str(), mode);
    }
    // The configuration with this `redis` section.
    Loaded load(const std::string& redis) const {
        write("tidegate.yaml",
              "upstream: http://127.0.0.1:3000\nstore: {redis: {" + redis + "}}\n");
        return config::load_file((path / "tidegate.yaml").string());
    }

    std::filesystem::path path;
};

config::RedisSettings settings_of(const Loaded& loaded) {
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return std::get<config::RedisSettings>(loaded.config->store);
}

std::string only_warning(const Loaded& loaded) {
    settings_of(loaded);
    REQUIRE(loaded.warnings.size() == 1);
    return loaded.warnings.front().message;
}

std::string only_error(const Loaded& loaded) {
    CHECK(loaded.config == nullptr);
    REQUIRE(loaded.errors.size() == 1);
    return loaded.errors.front().to_string();
}

bool says(const std::string& message, const std::string& part) {
    INFO(message);
    CHECK_MESSAGE(message.find(part) != std::string::npos, part);
    return true;
}

}  // namespace

TEST_CASE("config: rediss is encrypted, and trusts the system's authorities by default") {
    const Folder folder;
    CHECK_FALSE(settings_of(folder.load("url: \"redis://h\"")).tls.has_value());
    const auto plain = settings_of(folder.load("url: \"rediss://h\"")).tls;
    CHECK(plain == TlsSettings{});
    const auto empty = settings_of(folder.load("url: \"rediss://h\", tls: {}")).tls;
    CHECK(empty == TlsSettings{});
}

TEST_CASE("config: files of TLS are found beside the configuration and taken as they are") {
    const Folder folder;
    const Authority authority;
    const Certificate own = authority.issue("DNS:tidegate");
    folder.write("ca.pem", authority.pem(), 0644);
    folder.write("own.pem", own.pem() + authority.pem(), 0644);
    folder.write("own.key", own.key_pem());
    const Loaded loaded = folder.load(
        "url: \"rediss://u:p@h:7000/3\", tls: {ca: ca.pem, certificate: own.pem, key: own.key, "
        "server_name: redis.internal}");
    const auto redis = settings_of(loaded);
    CHECK(loaded.warnings.empty());
    CHECK(redis.address.to_string() == "h:7000");
    CHECK(redis.database == 3);
    REQUIRE(redis.tls.has_value());
    CHECK(redis.tls->ca == authority.pem());
    CHECK(redis.tls->certificate == own.pem() + authority.pem());
    CHECK(redis.tls->key == own.key_pem());
    CHECK(redis.tls->server_name == "redis.internal");
}

TEST_CASE("config: a key that is not the certificate's is refused, and so is one that is locked") {
    const Folder folder;
    const Authority authority;
    const Certificate own = authority.issue("DNS:tidegate");
    folder.write("own.pem", own.pem());
    folder.write("other.key", authority.issue("DNS:tidegate").key_pem());
    folder.write("locked.key", own.key_pem("s3cret"));
    folder.write("empty", "");
    folder.write("broken.pem", own.pem().substr(0, 200));
    const auto error_of = [&](const std::string& certificate, const std::string& key) {
        return only_error(folder.load("url: \"rediss://h\", tls: {certificate: " + certificate +
                                      ", key: " + key + "}"));
    };
    says(error_of("own.pem", "other.key"), "tls.key: this key does not belong to the certificate");
    says(error_of("own.pem", "locked.key"), "locked by a password");
    says(error_of("own.pem", "own.pem"), "holds no private key");
    says(error_of("own.pem", "nowhere"), "tls.key: the file `nowhere` cannot be read");
    folder.write("own.key", own.key_pem());
    says(error_of("empty", "own.key"), "holds no certificate");
    says(error_of("broken.pem", "own.key"), "holds a certificate that cannot be read");
    says(error_of(".", "own.key"), "cannot be read");
}

TEST_CASE("config: certificates out of their time, and a key that all may read, are warned about") {
    const Folder folder;
    const Authority authority;
    const Authority former({-7200, -3600});
    const Certificate late = authority.issue("DNS:tidegate", {-7200, -3600});
    const Certificate early = authority.issue("DNS:tidegate", {3600, 7200});
    folder.write("late.pem", late.pem());
    folder.write("late.key", late.key_pem());
    folder.write("early.pem", early.pem());
    folder.write("early.key", early.key_pem());
    folder.write("ca.pem", authority.pem() + former.pem());
    folder.write("open.key", late.key_pem(), 0644);
    const auto load = [&](const std::string& tls) {
        return folder.load("url: \"rediss://h\", tls: {" + tls + "}");
    };
    says(only_warning(load("certificate: late.pem, key: late.key")), "has expired, on 20");
    says(only_warning(load("certificate: early.pem, key: early.key")), "is not valid before 20");
    says(only_warning(load("ca: ca.pem")), "has expired, on 20");
    const Loaded open = load("certificate: late.pem, key: open.key");
    settings_of(open);
    REQUIRE(open.warnings.size() == 2);
    says(open.warnings[1].message, "every user of this machine may read the private key");
}

TEST_CASE("config: a password may come from the environment or a file, and a name may go with it") {
    const Folder folder;
    folder.write("redis.password", "s3cret\n");
    const auto from_file = settings_of(
        folder.load("url: \"rediss://h\", username: proxy, password: file:redis.password"));
    CHECK(from_file.username == "proxy");
    CHECK(from_file.password == "s3cret");
    ::setenv("TIDEGATE_TEST_SECRET", "p: #{x}", 1);
    CHECK(settings_of(folder.load("url: \"redis://h\", password: \"${TIDEGATE_TEST_SECRET}\""))
              .password == "p: #{x}");
    ::unsetenv("TIDEGATE_TEST_SECRET");
}

TEST_CASE("config: config/redis-tls.yaml has nothing to warn about") {
    const Loaded example = config::load_file(test::source_folder() + "/config/redis-tls.yaml");
    settings_of(example);
    CHECK(example.warnings.empty());
}

}  // namespace tidegate::config_redis_test
