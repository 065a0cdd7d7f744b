// Every file of tests/config_bad is one mistake; its first lines have Tidegate's messages.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "places.hpp"

namespace tidegate::config_bad_test {

namespace {

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// `# expect: 3:5: the beginning of a message`
std::vector<std::string> expectations(const std::string& text) {
    constexpr std::string_view kMark = "# expect: ";
    std::vector<std::string> out;
    std::string_view rest = text;
    while (rest.starts_with(kMark)) {
        const std::size_t end = rest.find('\n');
        out.emplace_back(rest.substr(kMark.size(), end - kMark.size()));
        rest.remove_prefix(end + 1);
    }
    return out;
}

std::vector<std::filesystem::path> bad_files() {
    std::vector<std::filesystem::path> files;
    for (const auto& entry :
         std::filesystem::directory_iterator(test::source_folder() + "/tests/config_bad")) {
        if (entry.path().extension() == ".yaml") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

std::optional<std::string> no_environment(std::string_view) {
    return std::nullopt;
}

}  // namespace

TEST_CASE("config: each mistake is reported with its place and what to write") {
    const auto files = bad_files();
    REQUIRE(files.size() >= 60);
    for (const auto& path : files) {
        CAPTURE(path.filename().string());
        const std::vector<std::string> expected = expectations(content_of(path));
        REQUIRE_FALSE(expected.empty());

        const auto loaded = config::load_file(path.string(), no_environment);
        CHECK(loaded.config == nullptr);
        CHECK(loaded.errors.size() == expected.size());
        for (std::size_t i = 0; i < std::min(expected.size(), loaded.errors.size()); ++i) {
            const std::string said = loaded.errors[i].to_string();
            const std::string wanted = path.string() + ":" + expected[i];
            CHECK_MESSAGE(said.starts_with(wanted), said, " does not begin with ", wanted);
        }
    }
}

}  // namespace tidegate::config_bad_test
