#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "app/listener.hpp"

namespace tidegate::app::listener_test {

namespace {

config::Listen listen_at(std::string host) {
    config::Listen listen;
    listen.address = {std::move(host), 8443, {}};
    return listen;
}

std::string text_of(const config::Listen& listen) {
    return ListenerGroup{listen, {}, {}}.to_string();
}

}  // namespace

TEST_CASE("listener: the log has the address and its unusual settings") {
    CHECK(text_of(listen_at("127.0.0.1")) == "127.0.0.1:8443");
    config::Listen listen = listen_at(config::kEveryAddress);
    CHECK(text_of(listen) == "[::]:8443 (IPv6 and IPv4)");
    listen.ipv6_only = true;
    listen.proxy_protocol.emplace();
    CHECK(text_of(listen) == "[::]:8443 (PROXY protocol)");
}

TEST_CASE("listener: the log has the versions of HTTP beside TLS, and in the clear with HTTP/2") {
    config::Listen listen = listen_at("127.0.0.1");
    listen.takes_http2 = true;
    CHECK(text_of(listen) == "127.0.0.1:8443 (h2 and http1)");
    listen.takes_http1 = false;
    CHECK(text_of(listen) == "127.0.0.1:8443 (h2)");
    listen.tls.emplace();
    CHECK(text_of(listen) == "127.0.0.1:8443 (TLS, h2)");
    listen.takes_http1 = true;
    CHECK(text_of(listen) == "127.0.0.1:8443 (TLS, h2 and http1)");
    listen.takes_http2 = false;
    CHECK(text_of(listen) == "127.0.0.1:8443 (TLS, http1)");
}

namespace {

struct Folder {
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "socket-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path = name;
    }
    ~Folder() { std::filesystem::remove_all(path); }

    config::Listen listen(config::SocketFile file) const {
        config::Listen settings;
        settings.address.unix_path = (path / "s.sock").string();
        settings.socket_file = std::move(file);
        return settings;
    }

    std::filesystem::path path;
};

unsigned mode_of(const config::Listen& listen) {
    struct stat info {};
    REQUIRE(::lstat(listen.address.unix_path.c_str(), &info) == 0);
    return info.st_mode & 07777U;
}

void close_all(const ListenerGroup& group) {
    for (const int descriptor : group.descriptors) ::close(descriptor);
}

TEST_CASE("socket_file: a Unix socket has its mode whatever the umask is, wider or narrower") {
    const Folder folder;
    const mode_t before = ::umask(0077);
    for (const unsigned mode : {0660U, 0600U, 0777U, 0640U}) {
        CAPTURE(mode);
        const config::Listen listen = folder.listen({mode, ""});
        const auto group = open_listeners(listen, 1);
        REQUIRE(group.has_value());
        CHECK(mode_of(listen) == mode);
        CHECK(::umask(0077) == 0077);
        close_all(*group);
    }
    const config::Listen plain = folder.listen({});
    const auto group = open_listeners(plain, 1);
    REQUIRE(group.has_value());
    CHECK(mode_of(plain) == 0700);
    close_all(*group);
    ::umask(before);
}

TEST_CASE("socket_file: a group is a name or a number, and one that is not there is named") {
    const Folder folder;
    const std::string own = std::to_string(::getgid());
    const auto group = open_listeners(folder.listen({0660, own}), 1);
    REQUIRE(group.has_value());
    close_all(*group);
    for (const char* none : {"no-such-group", "4294967295", "99999999999"}) {
        const config::Listen listen = folder.listen({0660, none});
        const auto refused = open_listeners(listen, 1);
        REQUIRE_FALSE(refused.has_value());
        CHECK(refused.error() == "cannot listen on " + listen.address.to_string() +
                                     ": there is no group `" + none + "` on this system");
        // No socket is left behind.
        CHECK_FALSE(std::filesystem::exists(listen.address.unix_path));
    }
}

TEST_CASE("socket_file: what is no socket, or a link to one, is left alone") {
    const Folder folder;
    const config::Listen listen = folder.listen({});
    const auto group = open_listeners(listen, 1);
    REQUIRE(group.has_value());
    const unsigned mode = mode_of(listen);
    const std::string link = (folder.path / "link").string();
    std::filesystem::create_symlink(listen.address.unix_path, link);
    CHECK(set_socket_file(link, {0666, ""}) == "another file has taken its place");
    CHECK(mode_of(listen) == mode);
    CHECK(set_socket_file(folder.path.string(), {0666, ""}) == "another file has taken its place");
    CHECK(set_socket_file((folder.path / "none").string(), {0666, ""}) ==
          "its file cannot be opened: No such file or directory");
    close_all(*group);
}

}  // namespace

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

}  // namespace tidegate::app::listener_test
