#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "app/shared_state.hpp"
#include "certificates.hpp"

namespace tidegate::app::config_snapshot_test {

namespace {

const SteadyTime kNow{};

struct Rig {
    TlsServerSettings issue() const {
        const test::Certificate own = authority.issue();
        TlsServerSettings settings;
        settings.certificates.push_back({own.pem(), own.key_pem(), {}, "own.pem"});
        return settings;
    }
    // Listeners at port 1, 2 ...; a null one speaks in the clear.
    static config::Config with(const std::vector<const TlsServerSettings*>& listeners) {
        config::Config config;
        for (const TlsServerSettings* settings : listeners) {
            config::Listen& listen = config.listen.emplace_back();
            listen.address.host = "127.0.0.1";
            listen.address.port = static_cast<std::uint16_t>(config.listen.size());
            if (settings != nullptr) listen.tls = *settings;
        }
        return config;
    }
    static config::Address at(std::uint16_t port) { return {"127.0.0.1", port, ""}; }

    test::Authority authority;
};

TEST_CASE("listener_tls: listeners that speak TLS have credentials, others have none") {
    const Rig rig;
    const TlsServerSettings settings = rig.issue();
    const auto all = make_listener_tls(Rig::with({nullptr, &settings}), {}, kNow);
    REQUIRE(all.has_value());
    CHECK(all->size() == 1);
    CHECK(find_listener_tls(*all, Rig::at(1)) == nullptr);
    const ListenerTls* const one = find_listener_tls(*all, Rig::at(2));
    REQUIRE(one != nullptr);
    CHECK(one->credentials != nullptr);
    CHECK(one->tickets != nullptr);
}

TEST_CASE("listener_tls: what stays is not made anew, and ticket keys outlive a certificate") {
    const Rig rig;
    const TlsServerSettings first = rig.issue();
    const TlsServerSettings second = rig.issue();
    const auto before = make_listener_tls(Rig::with({&first, &first}), {}, kNow);
    REQUIRE(before.has_value());
    const auto after = make_listener_tls(Rig::with({&first, &second}), *before, kNow);
    REQUIRE(after.has_value());
    CHECK((*after)[0] == (*before)[0]);
    CHECK((*after)[1].credentials != (*before)[1].credentials);
    CHECK((*after)[1].tickets == (*before)[1].tickets);
    CHECK((*after)[0].tickets != (*after)[1].tickets);
}

TEST_CASE("listener_tls: other versions of HTTP make credentials anew, with the same ticket keys") {
    const Rig rig;
    const TlsServerSettings first = rig.issue();
    TlsServerSettings second = first;
    second.http = HttpVersions::http1;
    const auto before = make_listener_tls(Rig::with({&first}), {}, kNow);
    REQUIRE(before.has_value());
    const auto after = make_listener_tls(Rig::with({&second}), *before, kNow);
    REQUIRE(after.has_value());
    CHECK((*after)[0].credentials != (*before)[0].credentials);
    CHECK((*after)[0].tickets == (*before)[0].tickets);
}

TEST_CASE("listener_tls: an error names the listener") {
    const Rig rig;
    TlsServerSettings settings = rig.issue();
    settings.certificates[0].key = rig.issue().certificates[0].key;
    const auto all = make_listener_tls(Rig::with({&settings}), {}, kNow);
    REQUIRE_FALSE(all.has_value());
    CHECK(all.error().starts_with("the listener on 127.0.0.1:1: "));
}

}  // namespace

namespace {

// Tells which thread has destroyed it.
struct Destroyed {
    std::optional<std::thread::id> by;
};

Disposer::ConfigPtr config_that_tells(Destroyed& destroyed) {
    return {new config::Config, [&destroyed](const config::Config* config) {
                delete config;
                destroyed.by = std::this_thread::get_id();
            }};
}

TEST_CASE("disposer: the last owner lets go, and another thread destroys the configuration") {
    Destroyed destroyed;
    {
        Disposer disposer;
        Disposer::ConfigPtr config = disposer.adopt(config_that_tells(destroyed));
        const std::weak_ptr<const config::Config> used = config;
        const Disposer::ConfigPtr request = config;
        config.reset();
        CHECK_FALSE(used.expired());
    }
    // Its end waits for what it still has.
    REQUIRE(destroyed.by);
    CHECK(*destroyed.by != std::this_thread::get_id());
}

TEST_CASE("disposer: a configuration that outlives it is destroyed where it ends") {
    Destroyed destroyed;
    auto disposer = std::make_unique<Disposer>();
    Disposer::ConfigPtr config = disposer->adopt(config_that_tells(destroyed));
    disposer.reset();
    CHECK_FALSE(destroyed.by);
    config.reset();
    REQUIRE(destroyed.by);
    CHECK(*destroyed.by == std::this_thread::get_id());
}

TEST_CASE("disposer: none stays none") {
    CHECK(Disposer().adopt(nullptr) == nullptr);
}

}  // namespace

}  // namespace tidegate::app::config_snapshot_test
