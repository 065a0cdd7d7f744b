#include "h2/session.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "h2/client.hpp"
#include "h2/server.hpp"

namespace tidegate::h2 {

namespace {

// The frame buffer is the only block of this size that lives as long as its session: the largest
// payload, the head of a frame and one byte of padding. (Larger header blocks take more of them for
// a while.) A block of 16,384 bytes would be the table of streams, which is never to be dropped.
constexpr std::size_t kFrameBufferBytes = 16'384 + 9 + 1;
constexpr std::size_t kPage = 4'096;
constexpr std::size_t kFrameBufferPages = (kFrameBufferBytes + kPage - 1) / kPage * kPage;

constexpr std::size_t kRepliesUnsentMax = 10'000;  // to SETTINGS and PING
// The bound on a message to send. The head of the other side's message has bounds of its own.
constexpr std::size_t kSentHeadMax = 1'048'576;

using Callbacks =
    std::unique_ptr<nghttp2_session_callbacks, decltype(&nghttp2_session_callbacks_del)>;
using Options = std::unique_ptr<nghttp2_option, decltype(&nghttp2_option_del)>;

nghttp2_mem memory_functions(Memory& memory) {
    return {
        &memory,
        [](std::size_t bytes, void* self) { return static_cast<Memory*>(self)->allocate(bytes); },
        [](void* block, void* self) { static_cast<Memory*>(self)->release(block); },
        [](std::size_t count, std::size_t bytes, void*) { return std::calloc(count, bytes); },
        [](void* block, std::size_t bytes, void* self) {
            return static_cast<Memory*>(self)->resize(block, bytes);
        }};
}

}  // namespace

// What sessions of nghttp2 are made with, and the way back from its callbacks to the session of a
// role.
template <class Role>
struct SessionCallbacks {
    using Stream = typename Role::Stream;

    static const nghttp2_session_callbacks* all() {
        static const Callbacks made = [] {
            nghttp2_session_callbacks* callbacks = nullptr;
            if (nghttp2_session_callbacks_new(&callbacks) != 0) throw std::bad_alloc();
            nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
            nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
            nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
            nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
            nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
            nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
            nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
            nghttp2_session_callbacks_set_send_data_callback(callbacks, send_data);
            if constexpr (Role::kIsServer) {
                nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks,
                                                                             on_invalid_frame);
            } else {
                nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
            }
            return Callbacks(callbacks, nghttp2_session_callbacks_del);
        }();
        return made.get();
    }

    // What both roles leave to nghttp2, and what they do themselves: windows, and the rules of HTTP
    // about heads. Sessions copy their options.
    static const nghttp2_option* options() {
        static const Options made = [] {
            nghttp2_option* option = nullptr;
            if (nghttp2_option_new(&option) != 0) throw std::bad_alloc();
            nghttp2_option_set_no_auto_window_update(option, 1);
            // FieldBlock and the sessions hold messages to the rules, as strictly as in HTTP/1.
            nghttp2_option_set_no_http_messaging(option, 1);
            nghttp2_option_set_no_closed_streams(option, 1);
            nghttp2_option_set_max_outbound_ack(option, kRepliesUnsentMax);
            nghttp2_option_set_max_send_header_block_length(option, kSentHeadMax);
            Role::set_options(*option);
            return Options(option, nghttp2_option_del);
        }();
        return made.get();
    }

    static Role& role_of(void* role) { return *static_cast<Role*>(role); }

    static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* role) {
        return role_of(role).begin_block(*frame) ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }

    // A failure has nghttp2 reset the stream, unless that is on its way, and pass over the block. A
    // server's answer may still be needed for HPACK's table only.
    static int on_header(nghttp2_session*, const nghttp2_frame*, const std::uint8_t* name,
                         std::size_t name_bytes, const std::uint8_t* value, std::size_t value_bytes,
                         std::uint8_t, void* role) {
        const bool goes_on =
            role_of(role).add_field(text_of(name, name_bytes), text_of(value, value_bytes));
        return goes_on || !Role::kIsServer ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }

    static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* bytes,
                       std::size_t count, void* role) {
        role_of(role).add_body(static_cast<std::uint32_t>(id), text_of(bytes, count));
        return 0;
    }

    static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* role) {
        Role& self = role_of(role);
        switch (frame->hd.type) {
            case NGHTTP2_HEADERS:
                self.end_block(ends_stream(*frame));
                break;
            case NGHTTP2_DATA: {
                if constexpr (Role::kIsServer) self.charge_padding(*frame);
                Stream* const stream = self.find(id_of(*frame));
                if (stream != nullptr && ends_stream(*frame)) self.end_message(*stream);
                break;
            }
            default:
                self.note_received(*frame);
        }
        return 0;
    }

    static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* role) {
        role_of(role).close(static_cast<std::uint32_t>(id), error);
        return 0;
    }

    static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* role) {
        Role& self = role_of(role);
        const std::uint8_t type = frame->hd.type;
        if (type != NGHTTP2_DATA && type != NGHTTP2_HEADERS) {
            self.note_sent(*frame);
            return 0;
        }
        Stream* const stream = self.find(id_of(*frame));
        if (stream == nullptr) return 0;
        if constexpr (Role::kIsServer) {
            if (type == NGHTTP2_DATA) self.note_data(*stream, frame->hd.length);
        }
        if (!ends_stream(*frame)) return 0;
        stream->is_sent_ = true;
        if constexpr (Role::kIsServer) self.note_answered(*stream);
        return 0;
    }

    static int on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int, void* role) {
        if (frame->hd.type != NGHTTP2_HEADERS) return 0;
        Role& self = role_of(role);
        if (Stream* const stream = self.find(id_of(*frame))) self.note_unsent(*stream, *frame);
        return 0;
    }

    static ssize_t read_data(nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t max,
                             std::uint32_t* flags, nghttp2_data_source* source, void* role) {
        return role_of(role).take(*static_cast<Stream*>(source->ptr), max, *flags);
    }

    static int send_data(nghttp2_session*, nghttp2_frame*, const std::uint8_t* head,
                         std::size_t bytes, nghttp2_data_source* source, void* role) {
        role_of(role).write_data(*static_cast<Stream*>(source->ptr), text_of(head, kFrameHeadBytes),
                                 bytes);
        return 0;
    }

    static int on_invalid_frame(nghttp2_session*, const nghttp2_frame*, int error, void* role) {
        if (error == NGHTTP2_ERR_REFUSED_STREAM) role_of(role).note_refused();
        return 0;
    }

    static int on_begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* role) {
        const bool is_push = head->type == NGHTTP2_PUSH_PROMISE;
        return is_push && !role_of(role).may_push() ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
    }
};

void* Memory::allocate(std::size_t bytes) {
    if (bytes != kFrameBufferBytes || frame_buffer_ != nullptr) return std::malloc(bytes);
    frame_buffer_ = std::aligned_alloc(kPage, kFrameBufferPages);
    return frame_buffer_;
}

void Memory::release(void* block) {
    if (block == frame_buffer_) frame_buffer_ = nullptr;
    std::free(block);
}

// nghttp2 asks for the frame buffer by enlarging none.
void* Memory::resize(void* block, std::size_t bytes) {
    if (block == nullptr) return allocate(bytes);
    if (block == frame_buffer_) frame_buffer_ = nullptr;
    return std::realloc(block, bytes);
}

void Memory::drop_frame_buffer() {
    if (frame_buffer_ != nullptr) ::madvise(frame_buffer_, kFrameBufferPages, MADV_DONTNEED);
}

void SessionStream::forget() {
    owner = nullptr;
    id_ = 0;
    body_ = {};
    head_block_.clear();
    trailer_block_.clear();
    trailers_.clear();
    body_bytes_ = 0;
    unconsumed_ = 0;
    is_in_trailers_ = has_ended_ = is_sent_ = is_reset_ = is_closed_ = is_released_ = false;
}

template <class Role, class Stream>
Session<Role, Stream>::Session(StreamPool<Stream>& pool, const RequestRules& rules,
                               std::uint32_t preface, Time now)
    : rules_(rules),
      pool_(pool),
      output_(pool.outgoing_fields()),
      heads_(preface),
      now_(now),
      settings_due_(now + kSettingsTime) {
    constexpr auto make =
        Role::kIsServer ? nghttp2_session_server_new3 : nghttp2_session_client_new3;
    nghttp2_mem functions = memory_functions(memory_);
    if (make(&session_, SessionCallbacks<Role>::all(), &role(), SessionCallbacks<Role>::options(),
             &functions) != 0) {
        throw std::bad_alloc();
    }
}

template <class Role, class Stream>
Session<Role, Stream>::~Session() {
    nghttp2_session_del(session_);
    recycle();
    streams_.clear_and_dispose(
        [this](Stream* stream) { pool_.give_back(std::unique_ptr<Stream>(stream)); });
}

template <class Role, class Stream>
void Session<Role, Stream>::enter(Time now, EventList& events) {
    now_ = now;
    events_ = &events;
    recycle();
}

template <class Role, class Stream>
void Session<Role, Stream>::recycle() {
    gone_.clear_and_dispose(
        [this](Stream* stream) { pool_.give_back(std::unique_ptr<Stream>(stream)); });
}

template <class Role, class Stream>
void Session<Role, Stream>::feed(std::string_view bytes) {
    if (bytes.empty() || is_ending_ || has_failed_) return;
    const auto* const data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    // The bytes are not those that this side of HTTP/2 sends first, or there is no memory left.
    if (nghttp2_session_mem_recv(session_, data, bytes.size()) < 0) fail();
}

template <class Role, class Stream>
std::size_t Session<Role, Stream>::gather(std::span<char> into, Time now, EventList& events) {
    enter(now, events);
    if (has_failed_) return 0;
    const std::ptrdiff_t bytes = output_.gather(session_, into);
    if (bytes < 0) fail();
    return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

template <class Role, class Stream>
bool Session<Role, Stream>::wants_write() const {
    return !has_failed_ && (!output_.is_empty() || nghttp2_session_want_write(session_) != 0);
}

template <class Role, class Stream>
nghttp2_data_provider Session<Role, Stream>::body_of(Stream& stream) {
    return {{.ptr = &stream}, SessionCallbacks<Role>::read_data};
}

template <class Role, class Stream>
void Session<Role, Stream>::offer_body(Stream& stream, std::span<const std::string_view> pieces,
                                       bool is_last, const http::Fields* trailers) {
    if (!stream.body_.offer(pieces, is_last, trailers)) return;
    nghttp2_session_resume_data(session_, static_cast<std::int32_t>(stream.id_));
}

// The size of the next DATA frame, of at most `max` bytes.
template <class Role, class Stream>
std::ptrdiff_t Session<Role, Stream>::take(Stream& stream, std::size_t max, std::uint32_t& flags) {
    bool is_drained = false;
    const auto bytes = output_.take(session_, stream.id_, stream.body_, max, flags, is_drained);
    if (is_drained) tell({.kind = Event::Kind::drained, .stream = &stream});
    return bytes;
}

template <class Role, class Stream>
void Session<Role, Stream>::write_data(Stream& stream, std::string_view frame_head,
                                       std::size_t bytes) {
    bool is_drained = false;
    output_.write(stream.body_, frame_head, bytes, is_drained);
    if (is_drained) tell({.kind = Event::Kind::drained, .stream = &stream});
}

template <class Role, class Stream>
void Session<Role, Stream>::consume(Stream& stream, std::size_t bytes) {
    assert(bytes <= stream.unconsumed_);
    stream.unconsumed_ -= bytes;
    if (stream.is_closed() || stream.has_ended_) {
        nghttp2_session_consume_connection(session_, bytes);
    } else {
        nghttp2_session_consume(session_, static_cast<std::int32_t>(stream.id_), bytes);
    }
}

template <class Role, class Stream>
void Session<Role, Stream>::submit_reset(Stream& stream, std::uint32_t error) {
    role().note_reset();
    stream.is_reset_ = true;
    stream.body_.drop();
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, static_cast<std::int32_t>(stream.id_),
                              error);
}

template <class Role, class Stream>
void Session<Role, Stream>::release(Stream& stream) {
    assert(!stream.is_released_);
    if (stream.unconsumed_ > 0) {
        nghttp2_session_consume_connection(session_, std::exchange(stream.unconsumed_, 0));
    }
    stream.owner = nullptr;
    stream.is_released_ = true;
    --held_;
    if (stream.is_closed_) return finish_release(stream);
    if (!stream.is_reset_) role().end_released(stream);
}

template <class Role, class Stream>
void Session<Role, Stream>::finish_release(Stream& stream) {
    if constexpr (Role::kIsServer) role().leave_service(stream);
    streams_.erase(streams_.iterator_to(stream));
    gone_.push_back(stream);
}

template <class Role, class Stream>
bool Session<Role, Stream>::begin_trailers(Stream& stream, bool is_end) {
    if (!is_end || stream.is_in_trailers_) {
        role().reset_for(stream, Malformed::trailers);
        return false;
    }
    stream.is_in_trailers_ = true;
    block_of_ = &stream;
    block_ = &stream.trailer_block_;
    block_->begin_trailers(rules_);
    return true;
}

template <class Role, class Stream>
bool Session<Role, Stream>::add_field(std::string_view name, std::string_view value) {
    if (block_ == nullptr) return false;
    block_->add(name, value);
    if (block_->list_bytes() > kHeadBytesFactor * rules_.bounds.bytes) {
        block_ = nullptr;
        end_with(NGHTTP2_ENHANCE_YOUR_CALM);
        return false;
    }
    const Malformed malformed = block_->malformed();
    if (malformed == Malformed::none) return true;
    block_ = nullptr;
    role().refuse_block(malformed);
    return false;
}

template <class Role, class Stream>
void Session<Role, Stream>::end_block(bool is_end) {
    if (std::exchange(block_, nullptr) == nullptr) return;
    Stream& stream = *block_of_;
    if (!stream.is_in_trailers_) return role().end_head(stream, is_end);
    stream.trailer_block_.end_trailers(stream.trailers_);
    const Malformed malformed = stream.trailer_block_.malformed();
    if (malformed != Malformed::none) return role().reset_for(stream, malformed);
    role().end_message(stream);
}

template <class Role, class Stream>
void Session<Role, Stream>::add_body(std::uint32_t id, std::string_view bytes) {
    Stream* const stream = find(id);
    if (stream == nullptr || stream->is_closed() || stream->is_released_ || is_ending_) {
        nghttp2_session_consume_connection(session_, bytes.size());
        return;
    }
    stream->unconsumed_ += bytes.size();
    if constexpr (!Role::kIsServer) {
        if (!role().takes_body(*stream, bytes)) return;
    }
    const std::optional<std::uint64_t> length = stream->announced();
    const std::uint64_t left =
        length.value_or(std::numeric_limits<std::uint64_t>::max()) - stream->body_bytes_;
    const std::size_t taken = std::min<std::uint64_t>(left, bytes.size());
    stream->body_bytes_ += taken;
    if (taken > 0) {
        tell({.kind = Event::Kind::body, .stream = stream, .bytes = bytes.substr(0, taken)});
    }
    if (taken < bytes.size()) role().reset_for(*stream, Malformed::length);
}

template <class Role, class Stream>
void Session<Role, Stream>::close(std::uint32_t id, std::uint32_t error) {
    Stream* const stream = find(id);
    if (stream == nullptr || stream->is_closed_) return;
    if (stream == block_of_) {
        // nghttp2 reports no more of a block whose stream is gone.
        block_of_ = nullptr;
        block_ = nullptr;
    }
    stream->is_closed_ = true;
    stream->body_.drop();
    role().note_closed(*stream, error);
    const bool is_whole = stream->has_ended_ && stream->is_sent_;
    if (!is_whole && !stream->is_reset_) {
        tell({.kind = Event::Kind::reset, .error = error, .stream = stream});
    }
    if (stream->is_released_) finish_release(*stream);
}

template <class Role, class Stream>
void Session<Role, Stream>::end_with(std::uint32_t error) {
    if (is_ending_) return;
    is_ending_ = true;
    error_ = error;
    close_due_ = now_ + kLastWords;
    nghttp2_session_terminate_session(session_, error);
}

template <class Role, class Stream>
void Session<Role, Stream>::tick(Time now, EventList& events) {
    enter(now, events);
    // The other side takes no more bytes now.
    if (now >= close_due_) {
        close_due_ = Time::max();
        return fail();
    }
    if constexpr (Role::kIsServer) role().look_at_times();
    if (now >= settings_due_) {
        settings_due_ = Time::max();
        end_with(NGHTTP2_SETTINGS_TIMEOUT);
    }
    if (now >= block_due_) {
        block_due_ = Time::max();
        is_head_late_ = true;
        end_with(NGHTTP2_ENHANCE_YOUR_CALM);
    }
}

template <class Role, class Stream>
Time Session<Role, Stream>::deadline() const {
    if (is_ending_) return close_due_;
    const Time due = std::min(settings_due_, block_due_);
    if constexpr (Role::kIsServer) return std::min(due, role().next_due());
    return due;
}

template <class Role, class Stream>
bool Session<Role, Stream>::is_done() const {
    if (has_failed_) return true;
    return output_.is_empty() && nghttp2_session_want_read(session_) == 0 &&
           nghttp2_session_want_write(session_) == 0;
}

template <class Role, class Stream>
void Session<Role, Stream>::drop_memory() {
    assert(is_idle());
    recycle();
    memory_.drop_frame_buffer();
}

template class Session<ServerSession, ServerStream>;
template class Session<ClientSession, ClientStream>;

}  // namespace tidegate::h2
