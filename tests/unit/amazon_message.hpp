// Messages of Amazon's event streams, made for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <boost/crc.hpp>

namespace tidegate::usage {

inline std::string big_endian(std::uint32_t number, int bytes = 4) {
    std::string text;
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
        text += static_cast<char>(number >> shift & 255);
    return text;
}

inline std::string with_checksum(std::string bytes) {
    boost::crc_32_type crc;
    crc.process_bytes(bytes.data(), bytes.size());
    return bytes + big_endian(crc.checksum());
}

inline std::string amazon_prelude(std::uint32_t total, std::uint32_t headers) {
    return with_checksum(big_endian(total) + big_endian(headers));
}

inline std::string amazon_header(std::string_view name, std::string_view value) {
    return static_cast<char>(name.size()) + std::string(name) + '\7' +
           big_endian(static_cast<std::uint32_t>(value.size()), 2) + std::string(value);
}

inline std::string amazon_message(std::string_view type, std::string_view data,
                                  std::string_view message_type = "event") {
    const std::string headers = amazon_header(":event-type", type) +
                                amazon_header(":content-type", "application/json") +
                                amazon_header(":message-type", message_type);
    const auto total = static_cast<std::uint32_t>(headers.size() + data.size() + 16);
    return with_checksum(amazon_prelude(total, static_cast<std::uint32_t>(headers.size())) +
                         headers + std::string(data));
}

}  // namespace tidegate::usage
