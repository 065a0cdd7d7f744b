#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "cli/commands.hpp"
#include "config/config.hpp"
#include "tls/certificate.hpp"

namespace tidegate::cli::quickstart_certificate_test {
namespace {

namespace fs = std::filesystem;

const std::chrono::system_clock::time_point kNow{std::chrono::seconds{1'750'000'000}};

struct Folder {
    Folder() {
        std::string name = fs::temp_directory_path() / "tidegate-quickstart-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() {
        fs::permissions(path, fs::perms::owner_all);
        fs::remove_all(path);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    fs::path certificate() const { return path / config::kQuickstartCertificate; }
    fs::path key() const { return path / config::kQuickstartKey; }
    Result<QuickstartFiles, std::string> ensure() const {
        return ensure_quickstart_certificate(path, kNow);
    }

    fs::path path;
};

std::string content_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("quickstart: --tls makes a certificate and its key, which its owner alone may read") {
    const Folder folder;
    const auto made = folder.ensure();
    REQUIRE(made.has_value());
    CHECK(*made == QuickstartFiles::made);
    const auto chain = parse_certificates(content_of(folder.certificate()));
    const auto key = parse_private_key(content_of(folder.key()));
    REQUIRE(chain.has_value());
    REQUIRE(key.has_value());
    CHECK(matches_key(*chain->front(), **key));
    CHECK(fs::status(folder.key()).permissions() ==
          (fs::perms::owner_read | fs::perms::owner_write));
}

TEST_CASE("quickstart: --tls uses what it finds, and writes over nothing") {
    const Folder folder;
    REQUIRE(folder.ensure().has_value());
    const std::string certificate = content_of(folder.certificate());
    const std::string key = content_of(folder.key());
    const auto again = folder.ensure();
    REQUIRE(again.has_value());
    CHECK(*again == QuickstartFiles::found);
    CHECK(content_of(folder.certificate()) == certificate);
    CHECK(content_of(folder.key()) == key);
}

TEST_CASE("quickstart: --tls refuses to begin with one file of the two, and leaves it as it is") {
    for (const bool has_key : {true, false}) {
        CAPTURE(has_key);
        const Folder folder;
        const fs::path there = has_key ? folder.key() : folder.certificate();
        std::ofstream(there) << "mine";
        const auto refused = folder.ensure();
        REQUIRE_FALSE(refused.has_value());
        CHECK(refused.error().find("`" + there.filename().string() + "` is here without") !=
              std::string::npos);
        CHECK(content_of(there) == "mine");
        CHECK_FALSE(fs::exists(has_key ? folder.certificate() : folder.key()));
    }
}

TEST_CASE("quickstart: --tls does not write through a link") {
    const Folder folder;
    const fs::path elsewhere = folder.path / "elsewhere";
    fs::create_symlink(elsewhere, folder.key());
    CHECK_FALSE(folder.ensure().has_value());
    CHECK_FALSE(fs::exists(elsewhere));
}

TEST_CASE("quickstart: --tls says why a folder takes no files") {
    const auto refused = ensure_quickstart_certificate("/proc/self/fd", kNow);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().find("cannot write") != std::string::npos);
    CHECK(refused.error().find(config::kQuickstartKey) != std::string::npos);
}

}  // namespace
}  // namespace tidegate::cli::quickstart_certificate_test
