#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "config/files.hpp"

namespace tidegate::config::files_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMain =
    "include: [\"conf.d/*.yaml\"]\n"
    "upstreams: {main: {servers: [http://127.0.0.1:3000]}}\n"
    "policies: {main: {key: [ip], limits: [10/s]}}\n"
    "routes:\n"
    "  - {name: last, upstream: main, policies: [main]}\n";

std::optional<std::string> no_variable(std::string_view) {
    return std::nullopt;
}

struct Folder {
    Folder() {
        std::string name = (fs::temp_directory_path() / "include-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
        fs::create_directory(path / "conf.d");
        write("tidegate.yaml", kMain);
    }
    ~Folder() { fs::remove_all(path); }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path / name) << text;
    }
    std::string file(const std::string& name) const { return (path / name).string(); }
    Loaded load() const { return load_file(file("tidegate.yaml"), no_variable); }

    fs::path path;
};

std::string route(const std::string& name, const std::string& path) {
    return "  - {name: " + name + ", match: {path: " + path +
           "}, upstream: main, policies: [main]}\n";
}

TEST_CASE(
    "include: files are read in the order of their bytes, their routes before the main ones") {
    const Folder folder;
    folder.write("conf.d/b.yaml", "routes:\n" + route("b", "/b"));
    folder.write("conf.d/a.yaml", "routes:\n" + route("a1", "/a1") + route("a2", "/a2"));
    folder.write("conf.d/B.yaml", "routes:\n" + route("upper", "/upper"));
    folder.write("conf.d/.hidden.yaml", "nonsense");
    folder.write("conf.d/notes.txt", "nonsense");
    const Loaded loaded = folder.load();
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    std::vector<std::string> names;
    for (const Route& one : loaded.config->routes) names.push_back(one.name);
    CHECK(names == std::vector<std::string>{"upper", "a1", "a2", "b", "last"});
}

TEST_CASE("include: upstreams and policies of all files know each other") {
    const Folder folder;
    folder.write("conf.d/a.yaml",
                 "upstreams: {a: {servers: [http://127.0.0.1:3001]}}\n"
                 "policies: {a: {key: [ip], limits: [5/s]}}\n");
    folder.write("conf.d/b.yaml",
                 "routes: [{match: {path: /b}, upstream: a, policies: [a, main]}]\n");
    const Loaded loaded = folder.load();
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.config->upstreams.size() == 2);
    CHECK(loaded.config->routes.front().policies.size() == 2);
    CHECK(loaded.warnings.empty());
}

TEST_CASE("include: no file, an empty one and a file that two patterns name are right") {
    const Folder folder;
    CHECK(folder.load().config != nullptr);
    folder.write("conf.d/empty.yaml", "# nothing yet\n");
    CHECK(folder.load().config != nullptr);
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a"));
    std::string text = kMain;
    text.replace(0, text.find('\n'), "include: [\"conf.d/*.yaml\", conf.d/a.yaml]");
    folder.write("tidegate.yaml", text);
    const Loaded loaded = folder.load();
    REQUIRE(loaded.config != nullptr);
    CHECK(loaded.config->routes.size() == 2);
}

TEST_CASE("include: paths in an included file are relative to its folder") {
    const Folder folder;
    folder.write("conf.d/a.yaml",
                 "upstreams: {a: {servers: [https://127.0.0.1:3001], tls: {ca: none.pem}}}\n");
    const Loaded loaded = folder.load();
    REQUIRE(loaded.errors.size() == 1);
    CHECK(loaded.errors[0].message.find("`none.pem` cannot be read") != std::string::npos);
    const std::string wanted = folder.file("conf.d/none.pem");
    bool is_noted = false;
    for (const FileRead& one : loaded.files_read) is_noted = is_noted || one.path == wanted;
    CHECK(is_noted);
}

TEST_CASE("include: a renewal of certificates takes the files as they were read") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a"));
    const Loaded loaded = folder.load();
    REQUIRE(loaded.config != nullptr);
    folder.write("conf.d/a.yaml", "routes: wrong\n");
    const Loaded again = reread(*loaded.config, no_variable);
    REQUIRE(again.config != nullptr);
    CHECK(again.config->routes.size() == 2);
}

TEST_CASE("files read: a change of any of them is found, and a new file of a pattern") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a"));
    std::vector<FileRead> files = folder.load().files_read;
    CHECK(are_unchanged(files));
    folder.write("tidegate.yaml", kMain);  // the same
    CHECK(are_unchanged(files));
    folder.write("conf.d/a.yaml", "routes:\n" + route("b", "/b"));
    CHECK_FALSE(are_unchanged(files));
    files = folder.load().files_read;
    CHECK(are_unchanged(files));
    folder.write("conf.d/b.yaml", "");
    CHECK_FALSE(are_unchanged(files));
    files = folder.load().files_read;
    fs::remove(folder.path / "tidegate.yaml");
    CHECK_FALSE(are_unchanged(files));
    files = folder.load().files_read;  // a fault: there is none
    CHECK(are_unchanged(files));
    folder.write("tidegate.yaml", kMain);
    CHECK_FALSE(are_unchanged(files));
}

}  // namespace
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
}  // namespace tidegate::config::files_test
