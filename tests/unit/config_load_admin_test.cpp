#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "config/load_admin.hpp"

namespace tidegate::config::load_admin_test {
namespace {

class Written {
  public:
    Written() {
        std::string name = std::filesystem::temp_directory_path() / "tidegate-admin-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        folder_ = name;
    }
    ~Written() { std::filesystem::remove_all(folder_); }
    Written(const Written&) = delete;
    Written& operator=(const Written&) = delete;

    LoadedAdmin load(const std::string& text) const {
        std::ofstream(folder_ + "/t.yaml", std::ios::binary) << text;
        std::ofstream(folder_ + "/token", std::ios::binary) << "s3cret\n";
        return load_admin(folder_ + "/t.yaml");
    }
    std::string path() const { return folder_ + "/t.yaml"; }

  private:
    std::string folder_;
};

std::string place_of(const LoadedAdmin& loaded) {
    REQUIRE(loaded.errors.empty());
    return loaded.admin ? loaded.admin->address.to_string() : "off";
}

TEST_CASE("load admin: the address is that of `admin`, or the default") {
    const Written file;
    CHECK(place_of(file.load("")) == "127.0.0.1:9901");
    CHECK(place_of(file.load("upstream: http://a\n")) == "127.0.0.1:9901");
    CHECK(place_of(file.load("admin: 9902\n")) == "[::]:9902");
    CHECK(place_of(file.load("admin: off\n")) == "off");
    CHECK(place_of(file.load("admin: \"off\"\n")) == "off");
    const LoadedAdmin loaded = file.load("admin: {address: 127.0.0.1:1, token: \"file:token\"}\n");
    CHECK(place_of(loaded) == "127.0.0.1:1");
    CHECK(loaded.admin->token == "s3cret");
}

TEST_CASE("load admin: faults elsewhere in the file do not matter") {
    const Written file;
    CHECK(place_of(file.load("nonsense: [1]\nlisten: x\nlimits: 3\nadmin: 127.0.0.1:7\n")) ==
          "127.0.0.1:7");
    CHECK(place_of(file.load("admin: 127.0.0.1:7\nlisten: 127.0.0.1:7\n")) == "127.0.0.1:7");
}

TEST_CASE("load admin: a fault of `admin`, no YAML and no file are errors with their place") {
    const Written file;
    LoadedAdmin loaded = file.load("admin: nowhere\n");
    REQUIRE(loaded.errors.size() == 1);
    CHECK(loaded.errors[0].to_string().starts_with(file.path() + ":1:8: admin: "));
    CHECK_FALSE(loaded.admin);
    loaded = file.load("admin: [\n");
    REQUIRE(loaded.errors.size() == 1);
    CHECK(loaded.errors[0].line == 1);
    loaded = load_admin(file.path() + ".none");
    REQUIRE(loaded.errors.size() == 1);
    CHECK(loaded.errors[0].message == "there is no such file");
}

}  // namespace
}  // namespace tidegate::config::load_admin_test
