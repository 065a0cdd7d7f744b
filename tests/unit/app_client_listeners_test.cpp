#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "app/client_listeners.hpp"

namespace tidegate::app::client_listeners_test {

namespace {

std::optional<std::string> of_another_process(std::string_view name) {
    if (name == "LISTEN_PID") return "1";
    if (name == "LISTEN_FDS") return "2";
    return std::nullopt;
}

std::optional<std::string> malformed(std::string_view name) {
    if (name == "LISTEN_PID") return "17";
    if (name == "LISTEN_FDS") return "two";
    return std::nullopt;
}

std::optional<std::string> none(std::string_view) {
    return std::nullopt;
}

struct Given {
    // A socket of the name `web`, at a port that the system chooses.
    Given(int type, bool listens) {
        const int descriptor = ::socket(AF_INET, type | SOCK_CLOEXEC, 0);
        if (listens) ::listen(descriptor, 16);
        sockets.push_back({"web", Descriptor(descriptor)});
        settings.address.inherited = "web";
    }

    std::string fault() {
        const auto groups = adopt_inherited(settings, sockets, 3);
        return groups ? "" : groups.error();
    }

    InheritedSockets sockets;
    config::Listen settings;
};

bool says(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("inherited sockets: none, where the variables are for another process or malformed") {
    CHECK(take_inherited_sockets(of_another_process, 17).empty());
    CHECK(take_inherited_sockets(malformed, 17).empty());
    CHECK(take_inherited_sockets(none, 17).empty());
}

TEST_CASE("inherited sockets: all workers get a descriptor of one queue, which no child gets") {
    Given given(SOCK_STREAM, true);
    const auto groups = adopt_inherited(given.settings, given.sockets, 3);
    REQUIRE(groups.has_value());
    REQUIRE(groups->size() == 1);
    const ListenerGroup& group = groups->front();
    CHECK(group.descriptors.size() == 3);
    CHECK(group.settings.address.host == "0.0.0.0");
    CHECK(group.settings.address.port != 0);
    CHECK(group.to_string() == group.settings.address.to_string() + " (systemd:web)");
    for (const int descriptor : group.descriptors) {
        if (descriptor != group.descriptors.front()) {
            CHECK((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
        }
        ::close(descriptor);
    }
}

TEST_CASE("inherited sockets: several may have one name") {
    Given given(SOCK_STREAM, true);
    given.sockets.push_back(std::move(Given(SOCK_STREAM, true).sockets.front()));
    const auto groups = adopt_inherited(given.settings, given.sockets, 1);
    REQUIRE(groups.has_value());
    CHECK(groups->size() == 2);
    for (const ListenerGroup& group : *groups) ::close(group.descriptors.front());
}

TEST_CASE(
    "inherited sockets: a socket that does not listen, or does not fit its item, is refused") {
    CHECK(says(Given(SOCK_STREAM, false).fault(), "does not listen for connections"));
    CHECK(says(Given(SOCK_DGRAM, false).fault(), "needs `ListenStream=` and `Accept=no`"));
    Given trusted(SOCK_STREAM, true);
    trusted.settings.trusted = true;
    CHECK(says(trusted.fault(), "`trusted` is for a Unix socket"));
}

TEST_CASE("inherited sockets: a name that is not there is refused with those that are") {
    Given given(SOCK_STREAM, true);
    given.settings.address.inherited = "internal";
    CHECK(given.fault() ==
          "cannot listen on systemd:internal: the sockets passed to this process are `web`");
    given.sockets.clear();
    CHECK(says(given.fault(), "has passed no socket to this process"));
}

}  // namespace tidegate::app::client_listeners_test
