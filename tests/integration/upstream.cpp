#include "integration/upstream.hpp"

#include <stdexcept>
#include <utility>

#include "integration/soon.hpp"

namespace tidegate::test {

bool Conversation::read(Message& request) {
    if (!reader_.request(request)) return false;
    owner_.record(request);
    return true;
}

bool Conversation::read_head(Message& request) {
    if (!reader_.request_head(request)) return false;
    owner_.record(request);
    return true;
}

void Conversation::hold_until(const std::function<bool()>& may_go) {
    for (Pause pause; !may_go() && !owner_.stopping_; pause.take()) {
    }
}

void Conversation::reset() {
    // Not while the owner shuts everything down: the descriptor goes.
    const std::lock_guard lock(owner_.mutex_);
    socket_.reset();
}

Upstream::Upstream(Handler handler, std::uint16_t port, const std::string& on)
    : handler_(std::move(handler)), listener_(Socket::listen(port, on)) {
    acceptor_ = std::thread([this] { accept_all(); });
}

Upstream::Upstream(std::string response, std::uint16_t port)
    : Upstream(answering([response = std::move(response)](const Message&) { return response; }),
               port) {}

Upstream::~Upstream() {
    stopping_ = true;
    listener_.shutdown();
    acceptor_.join();
    {
        const std::lock_guard lock(mutex_);
        for (auto& live : live_) live.conversation->socket_.shutdown();
    }
    for (auto& live : live_) live.thread.join();
}

Upstream::Handler Upstream::answering(Answer answer) {
    return [answer = std::move(answer)](Conversation& conversation) {
        Message request;
        while (conversation.read(request)) {
            if (!conversation.send(answer(request))) return;
        }
    };
}

std::string Upstream::url() const {
    return "http://127.0.0.1:" + std::to_string(port());
}

int Upstream::requests() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(seen_.size());
}

std::vector<Message> Upstream::seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
}

Message Upstream::last() const {
    const std::lock_guard lock(mutex_);
    if (seen_.empty()) throw std::runtime_error("the upstream saw no request");
    return seen_.back();
}

void Upstream::accept_all() {
    while (!stopping_) {
        auto socket = listener_.accept(kPatience);
        if (!socket) continue;
        const int number = ++connections_;
        live_.push_back(
            {std::unique_ptr<Conversation>(new Conversation(*this, std::move(*socket), number)),
             {}});
        live_.back().thread = std::thread([this, conversation = live_.back().conversation.get()] {
            try {
                handler_(*conversation);
            } catch (const std::exception&) {
                // What the proxy sent, or did not, shows in what the client sees.
            }
            conversation->close();
        });
    }
}

void Upstream::record(const Message& request) {
    const std::lock_guard lock(mutex_);
    seen_.push_back(request);
}

std::string ok(std::string_view body, const std::string& more_fields) {
    std::string response = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) +
                           "\r\n" + more_fields + "\r\n";
    response += body;
    return response;
}

}  // namespace tidegate::test
