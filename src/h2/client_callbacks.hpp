// The session of nghttp2 that a Client drives, and the way back from its callbacks.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>

namespace tidegate::h2 {

class Client;
class Memory;

class ClientCallbacks {
  public:
    // Never null: without memory the program ends.
    static nghttp2_session* open(Client& client, Memory& memory);

    // Of DATA frames: asks the Client for the stream in `source`.
    static ssize_t read_data(nghttp2_session* session, std::int32_t id, std::uint8_t* buffer,
                             std::size_t max, std::uint32_t* flags, nghttp2_data_source* source,
                             void* client);

  private:
    static nghttp2_session_callbacks* all();
    static nghttp2_option* options();

    static int on_begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* client);
    static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* client);
    static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                         std::size_t name_bytes, const std::uint8_t* value, std::size_t value_bytes,
                         std::uint8_t flags, void* client);
    static int on_data(nghttp2_session*, std::uint8_t flags, std::int32_t id,
                       const std::uint8_t* bytes, std::size_t count, void* client);
    static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* client);
    static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* client);
    static int on_sent(nghttp2_session*, const nghttp2_frame* frame, void* client);
    static int on_not_sent(nghttp2_session*, const nghttp2_frame* frame, int error, void* client);
    static int send_data(nghttp2_session*, nghttp2_frame* frame, const std::uint8_t* head,
                         std::size_t bytes, nghttp2_data_source* source, void* client);
};

}  // namespace tidegate::h2
