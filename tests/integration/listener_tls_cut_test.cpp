// Bodies over TLS that were cut on the way are never whole, in either direction.
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "integration/soon.hpp"
#include "integration/tls_wire.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test::listener_tls_cut_test {

TEST_CASE("listener tls cut: an upload that was cut is not whole, whatever TCP says") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (conversation.read(request)) conversation.send(ok());
    });
    const TlsWorld world;
    const TlsProxy proxy(world, certificates({world.keep("own")}),
                         unlimited({upstream.url()}, "request_buffer: off"));
    for (const std::string& part :
         {std::string("POST /cut HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf "),
          "POST /cut HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("half "),
          std::string("POST /cut HTTP/1.1\r\nHost: a\r\nTransfer-Enc")}) {
        for (const bool says_end : {true, false}) {
            CAPTURE(part);
            CAPTURE(says_end);
            Wire wire(world, proxy.port());
            REQUIRE(wire.shake());
            wire.ask(part);
            std::this_thread::sleep_for(milliseconds{20});
            if (says_end) wire.socket.send(wire.tls.ending());
            wire.socket.finish_sending();
            const std::string answer = wire.heard();
            CHECK((answer.empty() || answer.starts_with("HTTP/1.1 4")));
        }
    }
    CHECK_SOON(proxy.tidegate().metric("tidegate_client_connections") == 0);
    for (const Message& request : upstream.seen()) CHECK(request.broken);
}

TEST_CASE("listener tls cut: an answer that was cut is not whole for a client that trusts TLS") {
    const Upstream upstream([](Conversation& conversation) {
        Message request;
        if (!conversation.read(request)) return;
        conversation.send("HTTP/1.1 200 OK\r\n\r\nall there is");
        if (request.target() == "/reset") {
            std::this_thread::sleep_for(milliseconds{50});
            conversation.reset();
        }
    });
    const TlsWorld world;
    const TlsProxy proxy(world, certificates({world.keep("own")}), simple(upstream.url()));
    for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
        for (const std::string path : {"/ends", "/reset"}) {
            CAPTURE(version);
            CAPTURE(path);
            Speaking how;
            how.oldest = how.newest = version;
            RawClient client = proxy.client(how);
            client.send("GET " + path + " HTTP/1.0\r\n\r\n");
            const std::string answer = client.rest();
            // A reset may overtake what was sent before it.
            CHECK((path == "/reset" || answer.ends_with("all there is")));
            CHECK(client.was_truncated() == (path == "/reset"));
        }
    }
}

}  // namespace tidegate::test::listener_tls_cut_test
