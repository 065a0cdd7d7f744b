#include "integration/h2_upstream.hpp"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "integration/h2_callbacks.hpp"

namespace tidegate::test {

namespace {

// How long a connection waits for bytes before it looks for what the test wants sent.
constexpr milliseconds kGlance{5};

std::string text_of(const std::uint8_t* bytes, std::size_t size) {
    return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace

std::string H2Call::field(std::string_view name) const {
    for (const auto& [its_name, value] : fields) {
        if (its_name == name) return value;
    }
    return {};
}

struct H2ServerSession::Callbacks {
    static H2ServerSession& of(void* user) { return *static_cast<H2ServerSession*>(user); }

    static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                      std::uint8_t, void* user) {
        H2Call& call = of(user).calls_[frame->hd.stream_id];
        FieldList& list = frame->headers.cat == NGHTTP2_HCAT_REQUEST ? call.fields : call.trailers;
        list.emplace_back(text_of(name, name_size), text_of(value, value_size));
        return 0;
    }
    static int frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
        H2ServerSession& self = of(user);
        if (frame->hd.type == NGHTTP2_PING) ++self.pings_;
        const bool is_message = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
        if (!is_message) return 0;
        H2Call& call = self.calls_[frame->hd.stream_id];
        call.connection = self.number_;
        call.stream = frame->hd.stream_id;
        const bool is_head =
            frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
        call.is_whole = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        if (self.early_ ? is_head : call.is_whole) self.note_end(call.stream);
        return 0;
    }
    static int data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                    std::size_t size, void* user) {
        of(user).calls_[id].body += text_of(bytes, size);
        return 0;
    }
    static int close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
        const auto call = of(user).calls_.find(id);
        if (call != of(user).calls_.end() && error != NGHTTP2_NO_ERROR) {
            call->second.reset = error;
        }
        return 0;
    }
    static ssize_t read(nghttp2_session* session, std::int32_t id, std::uint8_t* into,
                        std::size_t size, std::uint32_t* flags, nghttp2_data_source*, void* user) {
        Outgoing& out = of(user).outgoing_[id];
        const std::size_t bytes = std::min(size, out.reply.body.size() - out.sent);
        std::memcpy(into, out.reply.body.data() + out.sent, bytes);
        out.sent += bytes;
        if (out.sent < out.reply.body.size()) return static_cast<ssize_t>(bytes);
        if (out.reply.stays_open && bytes == 0) return NGHTTP2_ERR_DEFERRED;
        if (out.reply.stays_open) return static_cast<ssize_t>(bytes);
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (!out.reply.trailers.empty()) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            const auto entries = entries_of(out.reply.trailers);
            nghttp2_submit_trailer(session, id, entries.data(), entries.size());
        }
        return static_cast<ssize_t>(bytes);
    }
};

H2ServerSession::H2ServerSession(int number, const H2Entries& settings, Answer answer, bool early)
    : answer_(std::move(answer)), early_(early), number_(number) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, Callbacks::header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, Callbacks::frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, Callbacks::data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, Callbacks::close);
    nghttp2_session_server_new(&session_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    std::vector<nghttp2_settings_entry> entries;
    for (const auto& [id, value] : settings) entries.push_back({id, value});
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, entries.data(), entries.size());
}

H2ServerSession::~H2ServerSession() {
    nghttp2_session_del(session_);
}

void H2ServerSession::note_end(int stream) {
    if (const auto reply = answer_(calls_[stream])) answer(stream, *reply);
}

bool H2ServerSession::feed(std::string_view bytes) {
    const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    return nghttp2_session_mem_recv(session_, data, bytes.size()) >= 0 &&
           (nghttp2_session_want_read(session_) != 0 || nghttp2_session_want_write(session_) != 0);
}

std::string H2ServerSession::output() {
    std::string all;
    const std::uint8_t* bytes = nullptr;
    while (true) {
        const auto size = nghttp2_session_mem_send(session_, &bytes);
        if (size <= 0) return all;
        all += text_of(bytes, static_cast<std::size_t>(size));
    }
}

void H2ServerSession::answer(int stream, const H2Reply& reply) {
    Outgoing& out = outgoing_[stream];
    out = {reply, 0};
    for (const int status : reply.interim) interim(stream, status);
    FieldList head{{":status", std::to_string(reply.status)}};
    head.insert(head.end(), reply.fields.begin(), reply.fields.end());
    const auto entries = entries_of(head);
    const nghttp2_data_provider body{{.ptr = nullptr}, Callbacks::read};
    const bool has_body = !reply.body.empty() || !reply.trailers.empty() || reply.stays_open;
    nghttp2_submit_response(session_, stream, entries.data(), entries.size(),
                            has_body ? &body : nullptr);
}

void H2ServerSession::interim(int stream, int status) {
    const FieldList head{{":status", std::to_string(status)}};
    const auto entries = entries_of(head);
    nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream, nullptr, entries.data(),
                           entries.size(), nullptr);
}

void H2ServerSession::go_on(int stream, std::string_view bytes, bool ends,
                            const FieldList& trailers) {
    H2Reply& reply = outgoing_[stream].reply;
    reply.body += bytes;
    reply.trailers = trailers;
    reply.stays_open = !ends;
    nghttp2_session_resume_data(session_, stream);
}

void H2ServerSession::reset(int stream, std::uint32_t error) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream, error);
}

void H2ServerSession::goaway(int last, std::uint32_t error) {
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, last, error, nullptr, 0);
}

H2Upstream::H2Upstream(H2ServerSession::Answer answer, const H2UpstreamOptions& options)
    : options_(options), answer_(std::move(answer)), listener_(Socket::listen(options.port)) {
    acceptor_ = std::thread([this] { accept_all(); });
}

H2Upstream::~H2Upstream() {
    stopping_ = true;
    listener_.shutdown();
    acceptor_.join();
    for (Live& live : live_) live.socket.shutdown();
    for (Live& live : live_) live.thread.join();
}

void H2Upstream::accept_all() {
    while (!stopping_) {
        auto socket = listener_.accept(kPatience);
        if (!socket) continue;
        const std::lock_guard lock(mutex_);
        Live& made = live_.emplace_back(connections_ + 1, std::move(*socket), options_, answer_);
        ++connections_;
        made.thread = std::thread([this, &made] { serve(made); });
    }
}

void H2Upstream::serve(Live& live) {
    bool goes_on = true;
    bool may_speak = !options_.is_silent && !options_.is_second;
    while (goes_on && !stopping_) {
        std::string out;
        {
            const std::lock_guard lock(mutex_);
            if (may_speak) out = live.session.output();
        }
        if (!out.empty() && !live.socket.send(out)) break;
        try {
            const std::string in = live.socket.receive(Clock::now() + kGlance);
            if (in.empty()) break;
            const std::lock_guard lock(mutex_);
            may_speak = !options_.is_silent;
            goes_on = live.session.feed(in);
        } catch (const std::runtime_error&) {
            // Nothing has come.
        }
    }
    {
        const std::lock_guard lock(mutex_);
        if (!options_.is_silent) live.socket.send(live.session.output());
    }
    live.socket.shutdown();
    live.is_open = false;
}

std::string H2Upstream::url() const {
    return "h2c://127.0.0.1:" + std::to_string(port());
}

int H2Upstream::open() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(live_.begin(), live_.end(),
                                          [](const Live& one) { return one.is_open.load(); }));
}

std::vector<H2Call> H2Upstream::calls() const {
    const std::lock_guard lock(mutex_);
    std::vector<H2Call> all;
    for (const Live& live : live_) {
        for (const auto& [id, call] : live.session.calls()) all.push_back(call);
    }
    return all;
}

std::size_t H2Upstream::whole_calls() const {
    const std::vector<H2Call> all = calls();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const H2Call& call) { return call.is_whole; }));
}

H2Call H2Upstream::call(const std::string& path) const {
    for (H2Call& call : calls()) {
        if (call.path() == path) return std::move(call);
    }
    throw std::runtime_error("the upstream saw no request for " + path);
}

int H2Upstream::pings() const {
    const std::lock_guard lock(mutex_);
    int sum = 0;
    for (const Live& live : live_) sum += live.session.pings();
    return sum;
}

H2Upstream::Live& H2Upstream::live(int connection) {
    return *std::next(live_.begin(), connection - 1);
}

void H2Upstream::answer(const H2Call& call, const H2Reply& reply) {
    const std::lock_guard lock(mutex_);
    live(call.connection).session.answer(call.stream, reply);
}

void H2Upstream::interim(const H2Call& call, int status) {
    const std::lock_guard lock(mutex_);
    live(call.connection).session.interim(call.stream, status);
}

void H2Upstream::go_on(const H2Call& call, std::string_view bytes, bool ends,
                       const FieldList& trailers) {
    const std::lock_guard lock(mutex_);
    live(call.connection).session.go_on(call.stream, bytes, ends, trailers);
}

void H2Upstream::reset(const H2Call& call, std::uint32_t error) {
    const std::lock_guard lock(mutex_);
    live(call.connection).session.reset(call.stream, error);
}

void H2Upstream::goaway(int connection, int last, std::uint32_t error) {
    const std::lock_guard lock(mutex_);
    live(connection).session.goaway(last, error);
}

void H2Upstream::close(int connection) {
    const std::lock_guard lock(mutex_);
    live(connection).socket.shutdown();
}

H2ServerSession::Answer always(const H2Reply& reply) {
    return [reply](const H2Call&) { return reply; };
}

}  // namespace tidegate::test
