#include "integration/h2_client.hpp"

#include <algorithm>
#include <stdexcept>

#include "integration/h2_callbacks.hpp"

namespace tidegate::test {
namespace {

std::vector<nghttp2_settings_entry> settings_of(const H2Entries& settings) {
    std::vector<nghttp2_settings_entry> entries;
    for (const auto& [id, value] : settings) entries.push_back({id, value});
    return entries;
}

FieldList fields_of(const H2Request& request, const std::string& scheme) {
    FieldList fields{{":method", request.method}};
    if (!request.protocol.empty()) fields.emplace_back(":protocol", request.protocol);
    const bool is_plain_connect = request.method == "CONNECT" && request.protocol.empty();
    if (!is_plain_connect) {
        fields.emplace_back(":scheme", request.scheme.empty() ? scheme : request.scheme);
        fields.emplace_back(":path", request.path);
    }
    if (!request.authority.empty()) fields.emplace_back(":authority", request.authority);
    fields.insert(fields.end(), request.fields.begin(), request.fields.end());
    return fields;
}

void require(int result, const char* what) {
    if (result < 0) throw std::runtime_error(std::string(what) + ": " + nghttp2_strerror(result));
}

}  // namespace

void H2Client::Release::operator()(nghttp2_session* session) const {
    nghttp2_session_del(session);
}

H2Client::H2Client(std::uint16_t port, const H2Options& options, const std::string& from)
    : H2Client(connect_h2(port, from), options) {}

H2Client::H2Client(Socket connected, const H2Options& options) : socket_(std::move(connected)) {
    start(options);
}

H2Client::~H2Client() {
    socket_.reset();
}

void H2Client::start(const H2Options& options) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_option* how = nullptr;
    nghttp2_session* session = nullptr;
    require(nghttp2_session_callbacks_new(&callbacks), "callbacks");
    require(nghttp2_option_new(&how), "options");
    H2Callbacks::set(callbacks);
    if (!options.is_reading) nghttp2_option_set_no_auto_window_update(how, 1);
    const int made = nghttp2_session_client_new2(&session, callbacks, this, how);
    nghttp2_option_del(how);
    nghttp2_session_callbacks_del(callbacks);
    require(made, "session");
    session_.reset(session);

    H2Entries settings{{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
                       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options.stream_window}};
    settings.insert(settings.end(), options.settings.begin(), options.settings.end());
    change_settings(settings);
    const auto window = static_cast<std::int32_t>(options.connection_window);
    require(nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, window), "window");
    Lock lock(mutex_);
    write(lock);
}

int H2Client::begin(const H2Request& request) {
    Lock lock(mutex_);
    const bool is_tls = socket_.tls() != nullptr;
    const FieldList fields = fields_of(request, is_tls ? "https" : "http");
    const auto entries = entries_of(fields);
    const bool is_open = request.stays_open || !request.protocol.empty();
    const bool has_body = is_open || !request.body.empty() || !request.trailers.empty();
    nghttp2_data_provider source{};
    source.read_callback = H2Callbacks::read;
    const int id = nghttp2_submit_request(session_.get(), nullptr, entries.data(), entries.size(),
                                          has_body ? &source : nullptr, nullptr);
    require(id, "request");
    Stream& made = streams_[id];
    made.unsent = request.body;
    made.trailers = request.trailers;
    made.is_finished = !is_open;
    if (has_ended_) {
        made.is_closed = true;
        made.answer.broken = true;
    }
    write(lock);
    return id;
}

void H2Client::queue(int id, std::string_view bytes) {
    Lock lock(mutex_);
    stream(id).unsent += bytes;
    nghttp2_session_resume_data(session_.get(), id);
    write(lock);
}

bool H2Client::send(int id, std::string_view bytes) {
    queue(id, bytes);
    await(id, Clock::now() + kPatience,
          [](const Stream& its) { return its.is_closed || its.unsent_size() == 0; });
    return unsent(id) == 0 && !progress(id).is_closed;
}

void H2Client::finish(int id, const FieldList& trailers) {
    Lock lock(mutex_);
    stream(id).is_finished = true;
    stream(id).trailers = trailers;
    nghttp2_session_resume_data(session_.get(), id);
    write(lock);
}

void H2Client::reset(int id, std::uint32_t error) {
    Lock lock(mutex_);
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, error);
    write(lock);
}

std::size_t H2Client::unsent(int id) const {
    const Lock lock(mutex_);
    return stream(id).unsent_size();
}

H2Answer H2Client::answer(int id, milliseconds patience) {
    await(id, Clock::now() + patience,
          [](const Stream& its) { return its.is_closed || its.answer.is_whole; });
    return so_far(id);
}

H2Answer H2Client::ask(const H2Request& request) {
    return answer(begin(request));
}

H2Answer H2Client::get(const std::string& path, const FieldList& fields) {
    return ask({.path = path, .fields = fields});
}

H2Answer H2Client::await_head(int id, milliseconds patience) {
    await(id, Clock::now() + patience,
          [](const Stream& its) { return its.is_closed || its.answer.has_head(); });
    return so_far(id);
}

std::string H2Client::some(int id, milliseconds patience) {
    await(id, Clock::now() + patience, [](const Stream& its) {
        return its.is_closed || its.answer.is_whole || its.answer.body.size() > its.told;
    });
    const Lock lock(mutex_);
    Stream& its = stream(id);
    std::string more = its.answer.body.substr(its.told);
    its.told = its.answer.body.size();
    return more;
}

H2Answer H2Client::so_far(int id) const {
    const Lock lock(mutex_);
    return stream(id).answer;
}

H2Progress H2Client::progress(int id) const {
    const Lock lock(mutex_);
    const Stream& its = stream(id);
    return {its.answer.interim.size(), its.answer.has_head(), its.answer.body.size(),
            its.answer.is_whole, its.is_closed};
}

void H2Client::consume(int id, std::size_t bytes) {
    Lock lock(mutex_);
    require(nghttp2_session_consume(session_.get(), id, bytes), "consume");
    write(lock);
}

void H2Client::run_for(milliseconds time) {
    const auto end = Clock::now() + time;
    while (run_once(std::chrono::ceil<milliseconds>(end - Clock::now()))) {
    }
}

bool H2Client::run_once(milliseconds time) {
    try {
        return time >= milliseconds{0} && turn(Clock::now() + time);
    } catch (const TooLate&) {
        return false;
    }
}

void H2Client::ping() {
    Lock lock(mutex_);
    nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, nullptr);
    write(lock);
}

int H2Client::pongs() const {
    const Lock lock(mutex_);
    return pongs_;
}

void H2Client::change_settings(const H2Entries& settings) {
    Lock lock(mutex_);
    const auto entries = settings_of(settings);
    require(
        nghttp2_submit_settings(session_.get(), NGHTTP2_FLAG_NONE, entries.data(), entries.size()),
        "settings");
    write(lock);
}

std::uint32_t H2Client::server_setting(nghttp2_settings_id id) const {
    const Lock lock(mutex_);
    return nghttp2_session_get_remote_settings(session_.get(), id);
}

bool H2Client::has_settings() const {
    const Lock lock(mutex_);
    return has_settings_;
}

std::optional<H2GoAway> H2Client::goaway() const {
    const Lock lock(mutex_);
    if (goaways_.empty()) return std::nullopt;
    return goaways_.back();
}

std::vector<H2GoAway> H2Client::goaways() const {
    const Lock lock(mutex_);
    return goaways_;
}

std::vector<H2Frame> H2Client::frames() const {
    const Lock lock(mutex_);
    return frames_;
}

std::size_t H2Client::count(std::uint8_t type) const {
    const Lock lock(mutex_);
    return static_cast<std::size_t>(std::count_if(
        frames_.begin(), frames_.end(), [&](const H2Frame& frame) { return frame.is(type); }));
}

std::string H2Client::fault() const {
    const Lock lock(mutex_);
    return fault_;
}

bool H2Client::send_raw(std::string_view bytes) {
    Lock lock(mutex_);
    write(lock);
    can_send_ = can_send_ && socket_.send(bytes);
    return can_send_;
}

bool H2Client::closed(milliseconds patience) {
    run_for(patience);
    return !is_connected();
}

bool H2Client::is_connected() const {
    const Lock lock(mutex_);
    return !has_ended_;
}

void H2Client::leave() {
    const Lock lock(mutex_);
    can_send_ = false;
    if (is_being_read_) {
        socket_.shutdown();
    } else {
        socket_.reset();
    }
    end();
}

bool H2Client::turn(Clock::time_point deadline) {
    Lock lock(mutex_);
    write(lock);
    if (has_ended_) return false;
    if (!fault_.empty() && nghttp2_session_want_read(session_.get()) == 0) {
        throw std::runtime_error("the server breaks HTTP/2: " + fault_);
    }
    if (is_being_read_) {
        if (was_read_.wait_until(lock, deadline) == std::cv_status::timeout) throw TooLate();
        return !has_ended_;
    }
    is_being_read_ = true;
    lock.unlock();
    std::optional<std::string> bytes;
    try {
        bytes = socket_.receive(deadline);
    } catch (const std::runtime_error&) {
        // Nothing came: the caller judges that.
    }
    lock.lock();
    is_being_read_ = false;
    was_read_.notify_all();
    if (!bytes) throw TooLate();
    if (bytes->empty()) {
        end();
    } else {
        feed(*bytes);
        write(lock);
    }
    return !has_ended_;
}

void H2Client::write(Lock&) {
    constexpr std::size_t kPiece = 65'536;
    for (ssize_t size = 1; size > 0;) {
        const std::uint8_t* bytes = nullptr;
        size = nghttp2_session_mem_send(session_.get(), &bytes);
        require(static_cast<int>(size), "what is to be sent");
        gathered_.append(bytes, bytes + size);
        if (gathered_.empty() || (size > 0 && gathered_.size() < kPiece)) continue;
        can_send_ = can_send_ && socket_.send(gathered_);
        gathered_.clear();
    }
}

void H2Client::feed(std::string_view bytes) {
    const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
    const ssize_t used = nghttp2_session_mem_recv(session_.get(), first, bytes.size());
    if (used < 0) fault_ += std::string(nghttp2_strerror(static_cast<int>(used))) + "; ";
}

void H2Client::end() {
    has_ended_ = true;
    for (auto& [id, its] : streams_) {
        if (its.is_closed) continue;
        its.is_closed = true;
        its.answer.broken = !its.answer.is_whole;
    }
}

void H2Client::await(int id, Clock::time_point deadline, bool (*holds)(const Stream&)) {
    for (;;) {
        {
            const Lock lock(mutex_);
            if (holds(stream(id))) return;
        }
        if (!turn(deadline) && !is_connected()) return;
    }
}

}  // namespace tidegate::test
