#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "config/files_read.hpp"

namespace tidegate::config::include_test {
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
    // Of a configuration with one fault: what is wrong.
    std::string fault() const {
        const Loaded loaded = load();
        CHECK(loaded.config == nullptr);
        REQUIRE(loaded.errors.size() == 1);
        return loaded.errors.front().to_string();
    }

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

TEST_CASE("include: a fault names the included file, and the number of the route in it") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a"));
    folder.write("conf.d/b.yaml", "\nroutes:\n  - {policies: [main], nmae: b}\n");
    CHECK(
        folder.fault().starts_with(folder.file("conf.d/b.yaml") +
                                   ":3:24: unknown key `nmae` in routes[0]; did you mean `name`?"));
    folder.write("conf.d/b.yaml", "routes: [\n");
    CHECK(folder.fault().starts_with(folder.file("conf.d/b.yaml") + ":"));
}

TEST_CASE("include: the main file's faults keep their places and names") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a") + route("b", "/b"));
    folder.write("tidegate.yaml", std::string(kMain) + "  - {policies: [main], nmae: b}\n");
    CHECK(folder.fault().starts_with(folder.file("tidegate.yaml") +
                                     ":6:24: unknown key `nmae` in routes[1];"));
}

TEST_CASE("include: a name that is there twice is refused with both places") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "policies:\n  main: {key: [ip], limits: [5/s]}\n");
    CHECK(folder.fault() == folder.file("conf.d/a.yaml") + ":2:3: policies.main: `" +
                                folder.file("tidegate.yaml") +
                                ":3:12` has this name already: choose another");
    folder.write("conf.d/a.yaml", "upstreams:\n  a: {servers: [http://127.0.0.1:3001]}\n");
    folder.write("conf.d/b.yaml", "upstreams:\n  a: {servers: [http://127.0.0.1:3002]}\n");
    CHECK(folder.fault() == folder.file("conf.d/b.yaml") + ":2:3: upstreams.a: `" +
                                folder.file("conf.d/a.yaml") +
                                ":2:3` has this name already: choose another");
}

TEST_CASE("include: a route whose name is there twice is refused with both places") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "routes:\n" + route("a", "/a"));
    folder.write("conf.d/b.yaml", "\nroutes:\n" + route("a", "/b"));
    const auto at = [&](const std::string& file, const char* place) {
        return folder.file(file) + place;
    };
    CHECK(folder.fault() == at("conf.d/b.yaml", ":3:12: routes[0].name: the route at `") +
                                at("conf.d/a.yaml",
                                   ":2:12` has the name `a` already: choose "
                                   "another"));
}

TEST_CASE("include: other keys belong into the main file, and no file includes another") {
    const Folder folder;
    folder.write("conf.d/a.yaml", "listen: 8081\n");
    CHECK(folder.fault() == folder.file("conf.d/a.yaml") +
                                ":1:1: `listen` cannot be in an included file: write it in `" +
                                folder.file("tidegate.yaml") +
                                "`. Allowed here: `upstreams`, `policies` and `routes`");
    folder.write("conf.d/a.yaml", "include: more.yaml\n");
    CHECK(folder.fault() == folder.file("conf.d/a.yaml") +
                                ":1:1: an included file includes no other: list the file in `" +
                                folder.file("tidegate.yaml") + "`");
    folder.write("conf.d/a.yaml", "[routes]\n");
    CHECK(folder.fault().starts_with(folder.file("conf.d/a.yaml") +
                                     ":1:1: found a list; expected a map of `upstreams`"));
    folder.write("conf.d/a.yaml", "routes: {}\n");
    CHECK(folder.fault().starts_with(folder.file("conf.d/a.yaml") +
                                     ":1:9: routes: found a map; expected a list of routes"));
}

TEST_CASE("include: paths in an included file are relative to its folder") {
    const Folder folder;
    folder.write("conf.d/a.yaml",
                 "upstreams: {a: {servers: [https://127.0.0.1:3001], tls: {ca: none.pem}}}\n");
    CHECK(folder.fault().find("`none.pem` cannot be read") != std::string::npos);
    const Loaded loaded = folder.load();
    const std::string wanted = folder.file("conf.d/none.pem");
    bool is_noted = false;
    for (const FileRead& one : loaded.files_read) is_noted = is_noted || one.path == wanted;
    CHECK(is_noted);
}

TEST_CASE("include: a file or folder that is not there is reported") {
    const Folder folder;
    const auto include = [&](const std::string& what) {
        std::string text = kMain;
        text.replace(0, text.find('\n'), "include: " + what);
        folder.write("tidegate.yaml", text);
        return folder.fault();
    };
    const std::string begin = folder.file("tidegate.yaml") + ":1:10: include: ";
    CHECK(include("none.yaml") == begin + "there is no file `none.yaml`");
    CHECK(include("\"none.d/*.yaml\"") ==
          begin + "there is no folder `none.d`: create it, or correct the path");
    CHECK(include("\"*.yaml\"").starts_with(begin + "this names `" + folder.file("tidegate.yaml")));
    CHECK(include("conf.d").starts_with(begin + "the file `" + folder.file("conf.d")));
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
}  // namespace tidegate::config::include_test
