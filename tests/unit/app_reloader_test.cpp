// The main thread's part of a reload: there are no workers here, so no socket is opened.
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "app/reloader.hpp"
#include "certificates.hpp"
#include "tls/certificate.hpp"

namespace tidegate::app::reloader_test {
namespace {

std::string yaml(const std::string& more = "") {
    return "upstream: http://127.0.0.1:1\nlog: {access: off}\n" + more;
}

struct Rig {
    explicit Rig(const std::string& text = yaml(), bool built_in = false,
                 const std::string& ca = "") {
        std::string name = (std::filesystem::temp_directory_path() / "reload-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        folder = name;
        file = (folder / "t.yaml").string();
        write(text);
        write_beside("ca.pem", ca);
        auto loaded = config::load_file(file);
        for (const auto& error : loaded.errors) FAIL(error.to_string());
        shared.emplace(*loaded.config, 2, "test");
        reloader.emplace(io.get_executor(), *shared, workers, std::move(loaded.config),
                         ConfigOrigin{built_in ? "" : file, std::move(loaded.files_read)});
        first = reloader->snapshot().config;
    }
    ~Rig() { std::filesystem::remove_all(folder); }

    void write(const std::string& text) const { std::ofstream(file) << text; }
    void write_beside(const std::string& name, const std::string& text) const {
        std::ofstream(folder / name) << text;
    }

    admin::ReloadReport reload() { return report_of(reloader->reload()); }
    admin::ReloadReport rollback() { return report_of(reloader->rollback()); }
    admin::ReloadReport report_of(Task<admin::ReloadReport> task) {
        std::optional<admin::ReloadReport> report;
        spawn(io.get_executor(), std::move(task),
              [&](const std::exception_ptr& failed, admin::ReloadReport result) {
                  CHECK_FALSE(failed);
                  report = std::move(result);
              });
        io.restart();
        // It does not run until all work is done: former configurations are watched as long as they
        // live.
        while (!report) io.run_one();
        return *report;
    }
    bool renew_certificates() {
        std::optional<bool> outcome;
        spawn(io.get_executor(), reloader->renew_certificates(),
              [&](const std::exception_ptr& failed, bool is_renewed) {
                  CHECK_FALSE(failed);
                  outcome = is_renewed;
              });
        io.restart();
        while (!outcome) io.run_one();
        return *outcome;
    }
    const TlsSettings& upstream_tls() const {
        return reloader->snapshot().upstreams.at(0)->settings().tls;
    }
    Gauges gauges() {
        Gauges filled;
        reloader->fill_in(filled);
        return filled;
    }

    std::filesystem::path folder;
    std::string file;
    asio::io_context io{1};
    std::weak_ptr<const config::Config> first;
    std::optional<SharedState> shared;
    Workers workers;
    std::optional<Reloader> reloader;
};

std::string only_error(const admin::ReloadReport& report) {
    CHECK_FALSE(report.ok);
    REQUIRE(report.errors.size() == 1);
    return report.errors[0].message;
}

TEST_CASE("reloader: a good file is the next generation, and the one before is let go") {
    Rig rig;
    rig.write(yaml("limits: [5/min]\n"));
    const auto report = rig.reload();
    CHECK(report.ok);
    CHECK(report.generation == 2);
    CHECK(rig.reloader->config().policies.size() == 1);
    CHECK(rig.first.expired());
    CHECK(rig.gauges().process.config_generation.value == 2);
    CHECK(rig.gauges().process.configs_in_use.value == 1);
    CHECK(rig.gauges().process.reloads[ReloadResult::ok].value == 1);
    CHECK(rig.gauges().process.config_read_at.value > 0);
}

TEST_CASE("reloader: a configuration in use is counted until its last request ends") {
    Rig rig;
    auto used = rig.first.lock();
    REQUIRE(rig.reload().ok);
    REQUIRE(rig.reload().ok);
    CHECK(rig.gauges().process.configs_in_use.value == 2);
    used.reset();
    CHECK(rig.gauges().process.configs_in_use.value == 1);
}

TEST_CASE("reloader: a pipe without a reader as access log refuses the reload, with its name") {
    Rig rig;
    const std::string pipe = (rig.folder / "pipe").string();
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    rig.write("upstream: http://127.0.0.1:1\nlog: {access: {path: " + pipe + "}}\n");
    CHECK(only_error(rig.reload()) ==
          "cannot open access log " + pipe + ": no program reads this pipe");
    CHECK(rig.gauges().process.config_generation.value == 1);
}

TEST_CASE("reloader: the loop goes on while a reload waits for a pipe that nothing writes to") {
    Rig rig;
    const std::string pipe = (rig.folder / "pipe").string();
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    rig.write(yaml("identity: {user: [api_key: {keys: pipe}]}\n"));
    // Each turn of the loop is one that a signal or an admin request could have had.
    std::size_t turns = 0;
    Timer turn(rig.io.get_executor());
    std::function<void()> next = [&] {
        turn.expires_after(std::chrono::milliseconds{1});
        turn.async_wait([&](const error_code& ec) {
            ++turns;
            if (!ec) next();
        });
    };
    next();
    CHECK(only_error(rig.reload()).find("the file `pipe` cannot be read: no program has written") !=
          std::string::npos);
    CHECK(turns > 100);
    turn.cancel();
}

TEST_CASE("reloader: a file with faults, or none at all, changes nothing") {
    Rig rig;
    rig.write(yaml("limts: [5/min]\nthreads: x\n"));
    const auto report = rig.reload();
    CHECK_FALSE(report.ok);
    CHECK(report.generation == 1);
    REQUIRE(report.errors.size() == 2);
    CHECK(report.errors[0].line == 3);
    CHECK(report.errors[1].line == 4);
    std::filesystem::remove(rig.file);
    CHECK_FALSE(rig.reload().ok);
    CHECK(rig.gauges().process.config_generation.value == 1);
    CHECK(rig.gauges().process.reloads[ReloadResult::refused].value == 2);
    CHECK_FALSE(rig.first.expired());
    rig.write(yaml());
    CHECK(rig.reload().generation == 2);
}

TEST_CASE("reloader: a setting that needs a restart refuses the whole configuration") {
    Rig rig;
    rig.write(yaml("listen: 127.0.0.1:7\nlimits: [5/min]\n"));
    CHECK(only_error(rig.reload()) == "`listen` cannot change while Tidegate runs: restart it");
    CHECK(rig.reloader->config().policies.empty());
}

TEST_CASE("reloader: a configuration that is built in, and one of a program that stops") {
    Rig built_in(yaml(), true);
    CHECK(only_error(built_in.reload()).find("no file to reload") != std::string::npos);
    Rig stopping;
    stopping.reloader->stop();
    CHECK(only_error(stopping.reload()).starts_with("Tidegate is stopping"));
}

TEST_CASE("reloader: bounds of the store in process change") {
    Rig rig(yaml("store: {memory: {max_keys: 1000}}\nlimits: [5/min]\n"));
    const auto full = [&] {
        const auto& policy = *rig.reloader->config().policies[0];
        limit::Verdict verdict;
        for (int i = 0; i < 2'000; ++i) {
            const std::string name = "ip:" + std::to_string(i);
            const limit::ChargeItem item{&policy, name};
            if (rig.shared->memory_store.charge({{&item, 1}, 1}, limit::Micros{1}, verdict) ==
                store::MemoryStore::Outcome::full) {
                return true;
            }
        }
        return false;
    };
    CHECK_FALSE(full());
    rig.write(yaml("store: {memory: {max_keys: 1000, on_full: deny}}\nlimits: [5/min]\n"));
    REQUIRE(rig.reload().ok);
    CHECK(full());
    rig.write(yaml("store: {memory: {max_keys: 100000, on_full: deny}}\nlimits: [5/min]\n"));
    REQUIRE(rig.reload().ok);
    CHECK_FALSE(full());
}

TEST_CASE("reloader: an unknown number of proxies is no reason to refuse limits") {
    const std::string redis = "store: {redis: {url: \"redis://127.0.0.1:1\"}}\n";
    Rig rig(yaml(redis));
    rig.write(yaml(redis + "limits: [5/min]\n"));
    CHECK(rig.reload().ok);
    rig.write(yaml(redis + "replicas: 2\nlimits: [5/min]\n"));
    CHECK(rig.reload().ok);
}

TEST_CASE("reloader: an upstream whose name means nothing is no fault") {
    Rig rig;
    rig.write("upstream: http://no-such-host.invalid:1\nlog: {access: off}\n");
    CHECK(rig.reload().ok);
    CHECK(rig.reloader->snapshot().upstreams.at(0)->servers().empty());
    rig.write("upstream: http://localhost:7\nlog: {access: off}\n");
    CHECK(rig.reload().ok);
    CHECK_FALSE(rig.reloader->snapshot().upstreams.at(0)->servers().empty());
}

TEST_CASE("reloader: more names than metrics are kept of are refused") {
    Rig rig;
    const auto with_routes = [](const std::string& begin) {
        std::string text =
            "upstreams: {api: {servers: [http://127.0.0.1:1]}}\nlog: {access: off}\nroutes:\n";
        for (int i = 0; i < 5'001; ++i) {
            const std::string name = begin + std::to_string(i);
            text += "  - {name: " + name + ", match: {path: /" + name + "}, policies: []}\n";
        }
        return text;
    };
    rig.write(with_routes("a"));
    REQUIRE(rig.reload().ok);
    // The fault shows late, when keys were fetched already: they are dropped with the rest.
    rig.write(with_routes("b") +
              "identity: {user: [{jwt: {jwks: 'https://127.0.0.1:1/k', algorithms: [ES256]}}]}\n");
    CHECK(only_error(rig.reload()).find("10000 at most") != std::string::npos);
    CHECK(rig.reloader->config().routes[0].name == "a0");
    CHECK(rig.gauges().jwks_fetches_failed == 1);
    CHECK(rig.gauges().jwks.empty());
}

const std::string kEncrypted =
    "upstreams: {api: {servers: [https://127.0.0.1:1], tls: {ca: ca.pem}}}\n"
    "routes: [{policies: []}]\nlog: {access: off}\n";

TEST_CASE("reloader: changed certificates are put in force, and nothing else is") {
    const test::Authority first;
    const test::Authority second;
    Rig rig(kEncrypted, false, first.pem());
    const auto group = rig.reloader->snapshot().upstreams.at(0);
    CHECK(rig.renew_certificates());
    CHECK(rig.reloader->snapshot().upstreams.at(0) == group);  // nothing has changed

    rig.write_beside("ca.pem", second.pem());
    rig.write(kEncrypted + "timeouts: {drain: 7s}\n");
    rig.renew_certificates();
    CHECK(rig.upstream_tls().ca == second.pem());
    CHECK(rig.reloader->config().timeouts.drain == std::chrono::seconds{30});
    CHECK(rig.gauges().process.config_generation.value == 1);
    CHECK(rig.gauges().process.configs_in_use.value == 1);
    const auto renewed = rig.reloader->snapshot().upstreams.at(0);

    // A reload has them already.
    REQUIRE(rig.reload().ok);
    CHECK(rig.reloader->snapshot().upstreams.at(0) == renewed);
    CHECK(rig.reloader->config().timeouts.drain == std::chrono::seconds{7});
}

TEST_CASE("reloader: the metric says when the certificates in force expire, renewed ones too") {
    constexpr long kDay = 86'400;
    const test::Authority authority;
    const test::Certificate old = authority.issue("DNS:a.example", {-60, 10 * kDay});
    const test::Certificate renewed = authority.issue("DNS:a.example", {-60, 20 * kDay});
    Rig rig(yaml());
    const auto show = [&](const test::Certificate& one) {
        rig.write_beside("own.pem", one.pem());
        rig.write_beside("own.key", one.key_pem());
    };
    const auto days_left = [&] {
        const auto metrics = rig.gauges().certificate_expiry;
        REQUIRE(metrics.size() == 1);
        return tidegate::days_left(metrics[0].until, std::chrono::system_clock::now());
    };
    show(old);
    rig.write(
        "upstreams:\n"
        "  api: {servers: [https://127.0.0.1:1], tls: {certificate: own.pem, key: own.key}}\n"
        "routes: [{policies: []}]\nlog: {access: off}\n");
    REQUIRE(rig.reload().ok);
    CHECK(days_left() == 9);
    show(renewed);
    rig.renew_certificates();
    CHECK(days_left() == 19);
}

TEST_CASE("reloader: certificates that cannot be used leave the former ones in force") {
    const test::Authority authority;
    Rig rig(kEncrypted, false, authority.pem());
    const auto group = rig.reloader->snapshot().upstreams.at(0);
    rig.write_beside("ca.pem", "-----BEGIN CERTIFICATE-----\nhalf of");
    CHECK_FALSE(rig.renew_certificates());
    CHECK(rig.reloader->snapshot().upstreams.at(0) == group);
    std::filesystem::remove(rig.folder / "ca.pem");
    CHECK_FALSE(rig.renew_certificates());
    CHECK(rig.reloader->snapshot().upstreams.at(0) == group);
    rig.write_beside("ca.pem", authority.pem());
    CHECK(rig.renew_certificates());
    rig.reloader->stop();
    rig.write_beside("ca.pem", test::Authority().pem());
    rig.renew_certificates();
    CHECK(rig.reloader->snapshot().upstreams.at(0) == group);
}

TEST_CASE("reloader: a rollback puts the former configuration in force, once") {
    Rig rig(yaml("limits: [5/min]\n"));
    const std::string first = rig.reloader->config().shown.hash;
    CHECK(only_error(rig.rollback()) ==
          "there is nothing to go back to: this process has put no other configuration in force "
          "since its start");
    rig.write(yaml("limits: [7/min]\n"));
    CHECK(rig.reload().hash != first);
    CHECK(rig.reloader->in_force().has_former);
    CHECK(rig.gauges().process.config_info.value != first);

    const auto report = rig.rollback();
    CHECK(report.ok);
    CHECK(report.generation == 3);
    CHECK(report.hash == first);
    CHECK(rig.reloader->config().policies.front()->limits.front().quota == 5);
    CHECK(rig.reloader->in_force().is_rolled_back);
    CHECK_FALSE(rig.reloader->in_force().has_former);
    const Gauges gauges = rig.gauges();
    CHECK(gauges.process.config_info.value == first);
    CHECK(gauges.process.config_rolled_back.value == 1);
    CHECK(gauges.process.config_generation.value == 3);
    CHECK(gauges.process.configs_in_use.value == 1);
    CHECK(gauges.process.rollbacks[ReloadResult::ok].value == 1);
    CHECK(gauges.process.rollbacks[ReloadResult::refused].value == 1);
    CHECK(gauges.process.reloads[ReloadResult::ok].value == 1);

    CHECK(only_error(rig.rollback())
              .starts_with("there is nothing to go back to: the configuration in force was put "
                           "there by a rollback"));
    CHECK(rig.reloader->snapshot().number == 3);
    // A reload reads the file, and the configuration of the rollback is the one before.
    REQUIRE(rig.reload().ok);
    CHECK(rig.reloader->config().policies.front()->limits.front().quota == 7);
    CHECK(rig.gauges().process.config_rolled_back.value == 0);
    CHECK(rig.rollback().hash == first);
}

TEST_CASE("reloader: reloads that are refused or change nothing leave what to go back to") {
    Rig rig(yaml("limits: [5/min]\n"));
    const std::string first = rig.reloader->config().shown.hash;
    rig.write(yaml("limits: [7/min]\n"));
    REQUIRE(rig.reload().ok);
    REQUIRE(rig.reload().ok);
    rig.write("limits: [\n");
    CHECK_FALSE(rig.reload().ok);
    const auto report = rig.rollback();
    CHECK(report.ok);
    CHECK(report.hash == first);
}

TEST_CASE("reloader: a rollback brings users and secrets as they were, whatever the files have") {
    Rig rig;
    rig.write(
        "upstreams: {api: {servers: ['http://127.0.0.1:1']}}\nlog: {access: off}\n"
        "identity: {user: [cookie: {name: s}], users: users.yaml}\n"
        "policies: {p: {key: [user], limits: [1/s], tiers: {pro: [2/s]}}}\n"
        "routes: [{upstream: api, policies: [p]}]\n");
    const auto has_alice = [&] {
        return !identity::tier_of(std::string_view("alice"), rig.reloader->config().user_tiers)
                    .empty();
    };
    rig.write_beside("users.yaml", "alice: {tier: pro}\n");
    REQUIRE(rig.reload().ok);
    REQUIRE(has_alice());
    // The text of the configuration stays, and the change is one all the same.
    rig.write_beside("users.yaml", "bob: {tier: pro}\n");
    REQUIRE(rig.reload().ok);
    REQUIRE_FALSE(has_alice());
    std::filesystem::remove(rig.folder / "users.yaml");
    const auto report = rig.rollback();
    CHECK(report.ok);
    CHECK(has_alice());
    // Certificates could not be read again, as a file of the configuration is missing.
    REQUIRE_FALSE(report.warnings.empty());
    CHECK(report.warnings[0].message.ends_with(
        "; the certificates are those that Tidegate has read before"));
}

TEST_CASE("reloader: a rollback takes certificates that were renewed since") {
    const test::Authority first;
    const test::Authority second;
    Rig rig(kEncrypted, false, first.pem());
    rig.write(kEncrypted + "timeouts: {drain: 7s}\n");
    REQUIRE(rig.reload().ok);
    rig.write_beside("ca.pem", second.pem());
    REQUIRE(rig.renew_certificates());
    REQUIRE(rig.rollback().ok);
    CHECK(rig.reloader->config().timeouts.drain == std::chrono::seconds{30});
    CHECK(rig.upstream_tls().ca == second.pem());
    CHECK(rig.renew_certificates());
    CHECK(rig.upstream_tls().ca == second.pem());
}

TEST_CASE("reloader: a rollback without the files keeps the newest certificates in force") {
    const test::Authority first;
    const test::Authority second;
    Rig rig(kEncrypted, false, first.pem());
    rig.write(kEncrypted + "timeouts: {drain: 7s}\n");
    REQUIRE(rig.reload().ok);
    rig.write_beside("ca.pem", second.pem());
    SUBCASE("that a reload has read") {
        rig.write(kEncrypted + "timeouts: {drain: 8s}\n");
        REQUIRE(rig.reload().ok);
    }
    SUBCASE("that a renewal has read, before a reload that found them there") {
        REQUIRE(rig.renew_certificates());
        rig.write(kEncrypted + "timeouts: {drain: 8s}\n");
        REQUIRE(rig.reload().ok);
    }
    SUBCASE("that a renewal has read") {
        REQUIRE(rig.renew_certificates());
    }
    std::filesystem::remove(rig.folder / "ca.pem");
    const auto report = rig.rollback();
    REQUIRE(report.ok);
    CHECK_FALSE(report.warnings.empty());
    CHECK(rig.reloader->config().timeouts.drain < std::chrono::seconds{31});
    CHECK(rig.reloader->config().timeouts.drain != std::chrono::seconds{8});
    CHECK(rig.upstream_tls().ca == second.pem());
}

TEST_CASE("reloader: a rollback without the files never joins a certificate and another's key") {
    const test::Authority authority;
    const test::Certificate old = authority.issue("DNS:a.example");
    const test::Certificate renewed = authority.issue("DNS:a.example");
    const auto text = [](const std::string& key) {
        return "upstreams:\n"
               "  api: {servers: [https://127.0.0.1:1], tls: {certificate: own.pem, key: " +
               key + "}}\nroutes: [{policies: []}]\nlog: {access: off}\n";
    };
    Rig rig;
    rig.write_beside("own.pem", old.pem());
    rig.write_beside("own.key", old.key_pem());
    rig.write(text("own.key"));
    REQUIRE(rig.reload().ok);
    rig.write_beside("own.pem", renewed.pem());
    bool is_newer = true;
    SUBCASE("the same files") {
        rig.write_beside("own.key", renewed.key_pem());
        rig.write(text("own.key") + "timeouts: {drain: 7s}\n");
    }
    SUBCASE("another file for the key") {
        is_newer = false;
        rig.write_beside("other.key", renewed.key_pem());
        rig.write(text("other.key"));
    }
    REQUIRE(rig.reload().ok);
    CHECK(rig.upstream_tls().certificate == renewed.pem());
    std::filesystem::remove(rig.folder / "own.pem");
    REQUIRE(rig.rollback().ok);
    CHECK(rig.upstream_tls().certificate == (is_newer ? renewed : old).pem());
    CHECK(rig.upstream_tls().key == (is_newer ? renewed : old).key_pem());
}

TEST_CASE("reloader: a reload that finds renewed certificates leaves what to go back to") {
    const test::Authority first;
    const test::Authority second;
    Rig rig(kEncrypted, false, first.pem());
    rig.write(kEncrypted + "timeouts: {drain: 7s}\n");
    REQUIRE(rig.reload().ok);
    rig.write_beside("ca.pem", second.pem());
    REQUIRE(rig.renew_certificates());
    REQUIRE(rig.reload().ok);
    REQUIRE(rig.rollback().ok);
    CHECK(rig.reloader->config().timeouts.drain == std::chrono::seconds{30});
}

TEST_CASE("reloader: a rollback is refused while reloads are, and with a reason to restart") {
    Rig rig(yaml("limits: [5/min]\n"));
    rig.write(yaml("limits: [7/min]\n"));
    REQUIRE(rig.reload().ok);
    rig.reloader->refuse("another process takes over");
    CHECK(only_error(rig.rollback()) == "another process takes over");
    rig.reloader->refuse("");
    rig.reloader->stop();
    CHECK(only_error(rig.rollback()) == "Tidegate is stopping and does not roll back");
}

}  // namespace
}  // namespace tidegate::app::reloader_test
