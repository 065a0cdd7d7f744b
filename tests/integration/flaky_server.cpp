#include "integration/flaky_server.hpp"

#include <thread>

namespace tidegate::test {

FlakyServer::FlakyServer()
    : upstream_([this](Conversation& conversation) { serve(conversation); }),
      network_(upstream_.port()) {}

void FlakyServer::set(Fault fault) {
    if (fault == Fault::killed) {
        network_.cut();
    } else if (fault == Fault::stopped) {
        network_.swallow();
    } else {
        network_.heal();
    }
    fault_ = fault;
}

void FlakyServer::serve(Conversation& conversation) {
    Message request;
    while (conversation.read(request)) {
        const bool is_check = request.target() == "/healthz";
        switch (fault_) {
            case Fault::silent:
                return conversation.wait_for_end();
            case Fault::complains:
                if (!conversation.send("HTTP/1.1 500 Sorry\r\nContent-Length: 2\r\n\r\nno")) return;
                continue;
            case Fault::slow:
                std::this_thread::sleep_for(milliseconds{400});
                break;
            case Fault::closes:
                return;
            case Fault::garbage:
                conversation.send("rubbish\r\n\r\n");
                return;
            case Fault::cut_after_head:
                conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
                return;
            case Fault::cut_in_body:
                conversation.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\npart");
                std::this_thread::sleep_for(milliseconds{5});
                return conversation.reset();
            case Fault::none:
            case Fault::killed:
            case Fault::stopped:
                break;
        }
        if (!conversation.send(ok("ok", is_check ? "Connection: close\r\n" : ""))) return;
        if (is_check) return;
        ++answered_;
    }
}

}  // namespace tidegate::test
