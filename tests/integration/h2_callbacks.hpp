// What nghttp2 calls for an H2Client, all of it under the client's mutex.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <vector>

#include "integration/h2_client.hpp"

namespace tidegate::test {

// The fields as nghttp2 takes them; they look into `fields`.
std::vector<nghttp2_nv> entries_of(const FieldList& fields);

// `user` is the H2Client.
struct H2Callbacks {
    static void set(nghttp2_session_callbacks* callbacks);
    // The next of a request's body.
    static ssize_t read(nghttp2_session* session, std::int32_t id, std::uint8_t* into,
                        std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                        void* user);

  private:
    static H2Client& client(void* user) { return *static_cast<H2Client*>(user); }
    static H2Client::Stream* stream(void* user, std::int32_t id);
    static void take_head(H2Client::Stream& stream);
    static void note_end(H2Client::Stream& stream, const nghttp2_frame& frame);

    static int begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user);
    static int header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                      std::uint8_t flags, void* user);
    static int frame(nghttp2_session*, const nghttp2_frame* frame, void* user);
    static int data(nghttp2_session*, std::uint8_t flags, std::int32_t id,
                    const std::uint8_t* bytes, std::size_t size, void* user);
    static int close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user);
    static int not_sent(nghttp2_session*, const nghttp2_frame* frame, int error, void* user);
    static int invalid(nghttp2_session*, const nghttp2_frame* frame, int error, void* user);
    static int explain(nghttp2_session*, int error, const char* text, std::size_t size, void* user);
};

}  // namespace tidegate::test
