// `run --watch`: changed files of the configuration take effect without a signal.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "integration/client.hpp"
#include "integration/soon.hpp"
#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::watch_test {

namespace {

namespace fs = std::filesystem;

double watched_generation(const Tidegate& proxy) {
    return proxy.metric("tidegate_config_generation");
}

fs::path path_in(const Tidegate& proxy, const std::string& name) {
    return fs::path(proxy.file()).parent_path() / name;
}

// Writes under another name and renames, so that the proxy never reads half a file.
void write_file(const fs::path& path, const std::string& text) {
    const fs::path complete = path.string() + ".complete";
    std::ofstream(complete) << text;
    fs::rename(complete, path);
}

std::string content_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Clients reach `path` and nothing else, but for what files named `*.part.yaml` add.
std::string one_route(const Upstream& upstream, const std::string& path) {
    return "upstreams: {api: {servers: [" + upstream.url() +
           "]}}\n"
           "include: [\"*.part.yaml\"]\n"
           "routes: [{match: {path: " +
           path + "}, policies: []}]\n";
}

}  // namespace

TEST_CASE("watch: a file that is written, or renamed over the old one, takes effect") {
    const Upstream upstream(ok());
    const Tidegate proxy(one_route(upstream, "/a"), "", {.options = {"--watch"}});
    CHECK(proxy.get("/a").status() == 200);
    proxy.write_configuration(one_route(upstream, "/b"));
    CHECK_SOON(watched_generation(proxy) == 2);
    CHECK(proxy.get("/b").status() == 200);
    CHECK(proxy.get("/a").status() == 404);

    // As editors save a file.
    const std::string text = content_of(proxy.file());
    proxy.write_configuration(one_route(upstream, "/c"));
    CHECK_SOON(watched_generation(proxy) == 3);
    write_file(path_in(proxy, "new"), text);
    fs::rename(path_in(proxy, "new"), proxy.file());
    CHECK_SOON(watched_generation(proxy) == 4);
    CHECK(proxy.get("/b").status() == 200);
}

TEST_CASE("watch: a fault is logged, and the old configuration stays until the file is valid") {
    const Upstream upstream(ok());
    const Tidegate proxy(one_route(upstream, "/a"), "", {.options = {"--watch"}});
    proxy.write_configuration("nonsense: 1\n" + one_route(upstream, "/b"));
    CHECK_SOON(proxy.metric("tidegate_reloads_total{result=\"refused\"}") == 1);
    CHECK(proxy.get("/a").status() == 200);
    CHECK_SOON(proxy.errors().find("unknown key `nonsense`") != std::string::npos);
    proxy.write_configuration(one_route(upstream, "/b"));
    CHECK_SOON(watched_generation(proxy) == 2);
    CHECK(proxy.get("/b").status() == 200);
}

TEST_CASE("watch: included files are watched, also new and removed ones") {
    const Upstream upstream(ok());
    const Tidegate proxy(one_route(upstream, "/a"), "", {.options = {"--watch"}});
    const fs::path part = path_in(proxy, "b.part.yaml");
    write_file(part, "routes: [{match: {path: /b}, policies: []}]\n");
    CHECK_SOON(watched_generation(proxy) == 2);
    CHECK(proxy.get("/b").status() == 200);
    // A fault in the file is logged with its name, and the mended file takes effect.
    write_file(part, "routes: [{match: {path: /b}}]\n");
    CHECK_SOON(proxy.metric("tidegate_reloads_total{result=\"refused\"}") == 1);
    CHECK_SOON(proxy.errors().find("b.part.yaml:1:10: ") != std::string::npos);
    write_file(part, "routes: [{match: {path: /c}, policies: []}]\n");
    CHECK_SOON(watched_generation(proxy) == 3);
    CHECK(proxy.get("/c").status() == 200);
    fs::remove(part);
    CHECK_SOON(watched_generation(proxy) == 4);
    CHECK(proxy.get("/c").status() == 404);
}

TEST_CASE("watch: files that the configuration names are watched; the same content is no change") {
    const Upstream upstream(ok());
    const fs::path folder = fs::temp_directory_path() / ("watch-" + std::to_string(::getpid()));
    fs::create_directory(folder);
    write_file(folder / "users.yaml", "alice: {tier: pro}\n");
    const Tidegate proxy("identity: {users: " + (folder / "users.yaml").string() +
                             ", user: [{cookie: {name: session}}]}\n"
                             "policies: {p: {key: [user], on_missing: skip, limits: [10/s], "
                             "tiers: {pro: [20/s]}}}\n" +
                             one_route(upstream, "/a"),
                         "", {.options = {"--watch"}});
    // Written anew with the same content: no reload.
    write_file(folder / "users.yaml", "alice: {tier: pro}\n");
    write_file(proxy.file(), content_of(proxy.file()));
    write_file(folder / "users.yaml", "alice: {tier: pro}\nbob: {tier: pro}\n");
    CHECK_SOON(watched_generation(proxy) == 2);
    fs::remove_all(folder);
    CHECK_SOON(proxy.metric("tidegate_reloads_total{result=\"refused\"}") == 1);
    CHECK(watched_generation(proxy) == 2);
}

TEST_CASE("watch: the link that Kubernetes swaps is a change") {
    const Upstream upstream(ok());
    const Tidegate proxy(one_route(upstream, "/a"), "", {.options = {"--watch"}});
    const std::string text = content_of(proxy.file());
    const auto mount = [&](const std::string& version, const std::string& path) {
        fs::create_directory(path_in(proxy, version));
        std::string changed = text;
        changed.replace(changed.find("path: /a"), 8, "path: " + path);
        write_file(path_in(proxy, version) / "tidegate.yaml", changed);
        fs::create_directory_symlink(version, path_in(proxy, "..new"));
        fs::rename(path_in(proxy, "..new"), path_in(proxy, "..data"));
    };
    mount("..1", "/b");
    fs::create_symlink("..data/tidegate.yaml", path_in(proxy, "link"));
    fs::rename(path_in(proxy, "link"), proxy.file());
    CHECK_SOON(watched_generation(proxy) == 2);
    CHECK(proxy.get("/b").status() == 200);
    mount("..2", "/c");
    CHECK_SOON(watched_generation(proxy) == 3);
    CHECK(proxy.get("/c").status() == 200);
}

}  // namespace tidegate::test::watch_test
