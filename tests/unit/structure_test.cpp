// Which room may include which: the source and the build are held to one table, so that no circle
// of rooms can form unnoticed.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "places.hpp"

namespace tidegate::structure_test {

namespace {

namespace fs = std::filesystem;
using Rooms = std::set<std::string>;

struct Rule {
    std::string room;
    Rooms may_include;  // besides itself
};

// In an order in which each room sees only earlier ones.
const std::vector<Rule>& rules() {
    static const std::vector<Rule> table = [] {
        std::vector<Rule> rows{
            {"base", {}},
            {"limit", {"base"}},
            {"usage", {"base"}},
            {"rls", {"limit", "base"}},
            {"balance", {"base"}},
            {"http", {"base"}},
            {"h2", {"http", "base"}},
            {"tls", {"base"}},
            {"identity", {"tls", "http", "base"}},
            {"routing", {"http", "base"}},
            {"config", {"usage", "limit", "rls", "http", "identity", "routing", "tls", "base"}},
            {"telemetry", {"base"}},
            {"net", {"http", "tls", "telemetry", "base"}},
            {"redis", {"net", "tls", "telemetry", "base"}},
            {"store", {"limit", "redis", "config", "net", "telemetry", "base"}},
            {"ask",
             {"usage", "store", "config", "identity", "routing", "http", "limit", "net", "tls",
              "telemetry", "base"}},
            {"simulate",
             {"ask", "usage", "store", "config", "identity", "routing", "http", "limit", "net",
              "tls", "telemetry", "base"}},
            {"client", {"config", "identity", "h2", "http", "net", "tls", "telemetry", "base"}},
            {"upstream", {"balance", "config", "h2", "http", "net", "tls", "telemetry", "base"}},
        };
        const Rooms doctor{"app",   "upstream", "store", "redis", "config",
                           "limit", "identity", "net",   "tls",   "base"};
        for (const std::string room : {"proxy", "faces", "admin", "app", "doctor", "cli"}) {
            Rooms everything_above;
            for (const auto& row : rows) everything_above.insert(row.room);
            rows.push_back({room, room == "doctor" ? doctor : everything_above});
        }
        return rows;
    }();
    return table;
}

const Rule* rule_of(const std::string& room) {
    const auto found = std::find_if(rules().begin(), rules().end(),
                                    [&](const Rule& rule) { return rule.room == room; });
    return found == rules().end() ? nullptr : &*found;
}

fs::path source_folder() {
    return fs::path(tidegate::test::source_folder()) / "src";
}

std::string read(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

std::vector<fs::path> source_files(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        const auto extension = entry.path().extension();
        if (extension == ".hpp" || extension == ".cpp") files.push_back(entry.path());
    }
    return files;
}

// The paths that `text` includes in quotes.
std::vector<std::string> quoted_includes(const std::string& text) {
    static const std::regex include(R"re((?:^|\n)[ \t]*#[ \t]*include[ \t]*"([^"\n]*)")re");
    std::vector<std::string> paths;
    for (std::sregex_iterator it(text.begin(), text.end(), include), end; it != end; ++it)
        paths.push_back((*it)[1]);
    return paths;
}

// The names between backquotes in `text`.
std::vector<std::string> quoted_names(const std::string& text) {
    static const std::regex name("`([^`\n]+)`");
    std::vector<std::string> names;
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it)
        names.push_back((*it)[1]);
    return names;
}

std::string architecture_page() {
    return read(fs::path(tidegate::test::source_folder()) / "docs" / "architecture.md");
}

// What is wrong with `file` of `room` including `path`; empty when nothing is.
std::string fault(const std::string& room, const std::string& path) {
    const auto other = path.substr(0, path.find('/'));
    if (path.find('/') == std::string::npos || rule_of(other) == nullptr)
        return "is not written as \"room/file\"";
    if (!fs::exists(source_folder() / path)) return "does not exist";
    const auto* rule = rule_of(room);
    if (rule == nullptr || (other != room && rule->may_include.count(other) == 0))
        return "is in a room that `" + room + "` may not see";
    return {};
}

}  // namespace

TEST_CASE("structure: the table of rooms has no circle") {
    Rooms earlier;
    for (const auto& [room, may_include] : rules()) {
        CHECK_MESSAGE(
            std::includes(earlier.begin(), earlier.end(), may_include.begin(), may_include.end()),
            room << " sees a room that is not above it");
        earlier.insert(room);
    }
}

TEST_CASE("structure: every folder of src is a room of the table") {
    for (const auto& entry : fs::directory_iterator(source_folder())) {
        if (entry.is_directory()) CHECK_MESSAGE(rule_of(entry.path().filename()), entry.path());
    }
}

TEST_CASE("structure: each file includes only what its room may see") {
    std::size_t includes = 0;
    for (const auto& [room, may_include] : rules()) {
        for (const auto& file : source_files(source_folder() / room)) {
            for (const auto& path : quoted_includes(read(file))) {
                ++includes;
                const auto wrong = fault(room, path);
                CHECK_MESSAGE(wrong.empty(), file << ": \"" << path << "\" " << wrong);
            }
        }
    }
    CHECK(includes > 0);
}

TEST_CASE("structure: a forbidden, a relative and a missing include are distinguished") {
    CHECK(fault("limit", "store/memory_store.hpp") == "is in a room that `limit` may not see");
    CHECK(fault("store", "limit/limit.hpp").empty());
    CHECK(fault("limit", "../store/memory_store.hpp") == "is not written as \"room/file\"");
    CHECK(fault("limit", "limit.hpp") == "is not written as \"room/file\"");
    CHECK(fault("limit", "limit/nothing.hpp") == "does not exist");
    CHECK(quoted_includes("#include <a>\n#include \"b/c.hpp\"\n  #  include \"d.hpp\"\n") ==
          std::vector<std::string>{"b/c.hpp", "d.hpp"});
}

TEST_CASE("structure: the build links no room to one it may not see") {
    const auto text = read(source_folder() / "CMakeLists.txt");
    static const std::regex call(R"(tidegate_room\(([a-z0-9]+)([^)]*)\))");
    static const std::regex rooms(R"(ROOMS([a-z0-9\s]+))");
    Rooms built;
    for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it) {
        const std::string room = (*it)[1];
        const std::string arguments = (*it)[2];
        const auto* rule = rule_of(room);
        REQUIRE_MESSAGE(rule, room);
        built.insert(room);
        std::smatch found;
        if (!std::regex_search(arguments, found, rooms)) continue;
        std::istringstream names(found[1]);
        for (std::string name; names >> name;)
            CHECK_MESSAGE(rule->may_include.count(name) == 1, room << " links " << name);
    }
    CHECK(built.size() == rules().size());
}

TEST_CASE("structure: docs/architecture.md has the same table of rooms, and draws each room") {
    const auto page = architecture_page();
    static const std::regex row(R"(\n\| `([a-z0-9]+)` \|[^\n]*\| ([^|\n]*) \|)");
    Rooms documented;
    for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) {
        const std::string room = (*it)[1];
        const auto names = quoted_names((*it)[2]);
        const auto may_include =
            (*it)[2] == "all above" ? documented : Rooms(names.begin(), names.end());
        const auto* rule = rule_of(room);
        REQUIRE_MESSAGE(rule, room);
        const bool is_same = rule->may_include == may_include;
        CHECK_MESSAGE(is_same, room);
        documented.insert(room);
    }
    CHECK(documented.size() == rules().size());
    const auto begin = page.find("```\n", page.find("## Rooms"));
    const auto picture = page.substr(begin, page.find("```\n", begin + 1) - begin);
    for (const auto& rule : rules()) {
        const bool is_drawn = std::regex_search(picture, std::regex("\\b" + rule.room + "\\b"));
        CHECK_MESSAGE(is_drawn, rule.room);
    }
}

TEST_CASE("structure: the files that docs/architecture.md names are there") {
    const auto exists_in = [](const fs::path& folder, const std::string& name) {
        return fs::exists(folder / name) || fs::exists(folder / (name + ".cpp")) ||
               fs::exists(folder / (name + ".hpp"));
    };
    const auto root = fs::path(tidegate::test::source_folder());
    static const std::regex file("[a-z0-9]+/[a-z0-9_./]+");
    std::size_t files = 0;
    for (const auto& name : quoted_names(architecture_page())) {
        if (!std::regex_match(name, file)) continue;
        ++files;
        const bool exists = exists_in(source_folder(), name) || exists_in(root, name);
        CHECK_MESSAGE(exists, name);
    }
    CHECK(files > 50);
}

TEST_CASE("structure: every header guards itself") {
    for (const auto& file : source_files(source_folder())) {
        if (file.extension() == ".hpp")
            CHECK_MESSAGE(read(file).find("\n#pragma once\n") != std::string::npos, file);
    }
}

TEST_CASE("structure: each file of tests has a namespace of its own, named after the file") {
    static const std::regex named(R"(\nnamespace tidegate::(?:[a-z0-9_]+::)*([a-z0-9_]+) \{\n)");
    std::set<std::string> names;
    for (const auto& file : source_files(fs::path(tidegate::test::source_folder()) / "tests")) {
        const auto stem = file.stem().string();
        if (!stem.ends_with("_test")) continue;
        const auto text = read(file);
        std::smatch found;
        REQUIRE_MESSAGE(std::regex_search(text, found, named),
                        file << " has no namespace: put it into tidegate::...::" << stem);
        const auto name = found[1].str();
        const bool is_of_file = name == stem || (name != "test" && stem.ends_with('_' + name));
        CHECK_MESSAGE(is_of_file, file << " has the namespace " << name << ": name it " << stem);
        // The files of a folder that share a namespace are of one program.
        const bool is_new = names.insert(file.parent_path().string() + found[0].str()).second;
        CHECK_MESSAGE(is_new, file << " has the namespace of another file");
    }
    CHECK(names.size() > 100);
}

TEST_CASE("structure: the tests that docs/security.md names are there") {
    const auto tests = fs::path(tidegate::test::source_folder()) / "tests";
    std::string all;
    for (const auto& file : source_files(tests)) all += read(file);
    const auto text = read(tests.parent_path() / "docs" / "security.md");
    static const std::regex named(R"(`((?:unit|integration|store)/[a-z0-9_.]*)`|"([^"\n]+)\")");
    std::size_t files = 0;
    std::size_t names = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), named), end; it != end; ++it) {
        if ((*it)[1].matched) {
            ++files;
            CHECK_MESSAGE(fs::exists(tests / (*it)[1].str()), (*it)[1]);
            continue;
        }
        ++names;
        // `...` is the rest of a name.
        static const std::regex rest(R"(^\.\.\. | \.\.\.$)");
        const auto name = std::regex_replace((*it)[2].str(), rest, "");
        CHECK_MESSAGE(all.find(name) != std::string::npos, name);
    }
    CHECK(files > 10);
    CHECK(names > 10);
}

}  // namespace tidegate::structure_test
