// What Tidegate says about configurations: the cases in tests/config_bad. docs/testing.md says how
// a case is written.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "places.hpp"

namespace tidegate::config_bad_test {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCase = "=== ";
constexpr std::string_view kError = "error: ";
constexpr std::string_view kWarning = "warning: ";
constexpr std::string_view kNone = "warning: none";
constexpr std::string_view kOpen = "...";
constexpr std::string_view kFile = "-- ";
constexpr std::string_view kFileEnd = " --";

const fs::path& folder_of_tables() {
    static const fs::path folder = fs::path(test::source_folder()) / "tests/config_bad";
    return folder;
}

// `PLACE: MESSAGE`, and the line of the table that says so. `...` at the end: how the message goes
// on does not matter.
struct Expected {
    std::string text;
    int line = 0;

    bool fits(std::string_view said) const {
        if (!text.ends_with(kOpen)) return said == text;
        return said.starts_with(std::string_view(text).substr(0, text.size() - kOpen.size()));
    }
};

struct Case {
    std::string table;
    int line = 0;
    std::string name;
    std::vector<Expected> errors;
    std::vector<Expected> warnings;
    bool has_expectation = false;              // `warning: none` is one, too
    std::map<std::string, std::string> files;  // what each holds; the configuration is one of them

    std::string configuration() const { return name + ".yaml"; }
};

// Reads a table, one line after the other.
class TableReader {
  public:
    explicit TableReader(const fs::path& table) : table_(table.string()) {
        std::ifstream file(table, std::ios::binary);
        REQUIRE(file.is_open());
        std::string line;
        for (line_ = 1; std::getline(file, line); ++line_) read(line);
    }

    const std::vector<Case>& cases() const { return cases_; }

  private:
    void read(const std::string& line) {
        if (line.starts_with(kCase)) {
            end_case();
            begin_case(line.substr(kCase.size()));
            return;
        }
        if (cases_.empty()) return;  // what the table is about
        if (in_head_ && read_expectation(line)) return;
        in_head_ = false;
        if (line.starts_with(kFile) && line.ends_with(kFileEnd)) {
            file_ = line.substr(kFile.size(), line.size() - kFile.size() - kFileEnd.size());
            text() = "";
        } else {
            text() += line + '\n';
        }
    }

    // The empty line before the next case belongs to no file.
    void end_case() {
        if (cases_.empty()) return;
        if (text() == "\n" || text().ends_with("\n\n")) {
            text().pop_back();
        } else {
            ADD_FAIL_CHECK_AT(table_.c_str(), line_, "an empty line is missing before this case");
        }
    }

    void begin_case(const std::string& name) {
        Case& one = cases_.emplace_back();
        one.table = table_;
        one.line = line_;
        one.name = name;
        file_ = one.configuration();
        text() = "";
        in_head_ = true;
    }

    bool read_expectation(const std::string& line) {
        Case& one = cases_.back();
        if (line.starts_with(kError)) {
            one.errors.push_back({line.substr(kError.size()), line_});
        } else if (line.starts_with(kWarning)) {
            if (line != kNone) one.warnings.push_back({line.substr(kWarning.size()), line_});
        } else {
            return false;
        }
        one.has_expectation = true;
        return true;
    }

    std::string& text() { return cases_.back().files[file_]; }

    std::string table_;
    int line_ = 0;
    std::vector<Case> cases_;
    std::string file_;  // whose lines follow
    bool in_head_ = false;
};

std::vector<Case> all_cases() {
    std::vector<Case> all;
    for (const auto& entry : fs::directory_iterator(folder_of_tables())) {
        if (entry.is_directory()) continue;
        CHECK_MESSAGE(entry.path().extension() == ".txt", entry.path(), " is no table");
        const TableReader table(entry.path());
        all.insert(all.end(), table.cases().begin(), table.cases().end());
    }
    return all;
}

// A copy of tests/config_bad/files with the files of one case. Removed with all that is in it.
class Folder {
  public:
    explicit Folder(const Case& one) {
        std::string name = (fs::temp_directory_path() / "tidegate-bad-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
        fs::copy(folder_of_tables() / "files", path_, fs::copy_options::recursive);
        for (const auto& [file, text] : one.files) {
            fs::create_directories((path_ / file).parent_path());
            std::ofstream(path_ / file, std::ios::binary) << text;
        }
    }
    ~Folder() { fs::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::string path(const std::string& file) const { return (path_ / file).string(); }

    // What is said, in the words of the tables: the configuration is not named, other files without
    // this folder.
    std::vector<std::string> shown(const std::vector<config::Diagnostic>& all,
                                   const Case& one) const {
        std::vector<std::string> out;
        for (const auto& diagnostic : all) {
            std::string text = diagnostic.to_string();
            const std::string folder = path_.string() + "/";
            for (std::size_t at = 0; (at = text.find(folder, at)) != std::string::npos;) {
                text.erase(at, folder.size());
            }
            const std::string itself = one.configuration() + ":";
            if (text.starts_with(itself)) text.erase(0, itself.size());
            out.push_back(std::move(text));
        }
        return out;
    }

  private:
    fs::path path_;
};

// `kind`: error or warning. Each difference fails at its line of the table.
void compare(const Case& one, std::string_view kind, const std::vector<Expected>& wanted,
             const std::vector<std::string>& said) {
    const auto fail = [&](int line, const auto& what, const std::string& text) {
        ADD_FAIL_CHECK_AT(one.table.c_str(), line, one.name, ": ", what, "\n", kind, ": ", text);
    };
    for (std::size_t i = 0; i < std::max(wanted.size(), said.size()); ++i) {
        if (i >= wanted.size()) {
            fail(one.line, "Tidegate also says", said[i]);
        } else if (i >= said.size()) {
            fail(wanted[i].line, "Tidegate does not say", wanted[i].text);
        } else if (!wanted[i].fits(said[i])) {
            fail(wanted[i].line, "Tidegate says instead", said[i]);
        }
    }
}

std::optional<std::string> no_environment(std::string_view) {
    return std::nullopt;
}

}  // namespace

TEST_CASE("config: each mistake is reported with its place and what to write") {
    const std::vector<Case> cases = all_cases();
    REQUIRE(cases.size() >= 590);
    for (const Case& one : cases) {
        const Folder folder(one);
        const auto loaded = config::load_file(folder.path(one.configuration()), no_environment);
        CHECK((loaded.config == nullptr) == !loaded.errors.empty());
        compare(one, "error", one.errors, folder.shown(loaded.errors, one));
        compare(one, "warning", one.warnings, folder.shown(loaded.warnings, one));
    }
}

TEST_CASE("config: each case of a mistake has a name of its own and says what it expects") {
    std::set<std::string> names;
    for (const Case& one : all_cases()) {
        const auto fail = [&](const std::string& what) {
            ADD_FAIL_CHECK_AT(one.table.c_str(), one.line, one.name, ": ", what);
        };
        if (!names.insert(one.name).second) fail("another case has this name");
        if (!one.has_expectation) fail("write `error: `, `warning: ` or `warning: none`");
    }
}

}  // namespace tidegate::config_bad_test
