// Calls of gRPC as bytes: messages in their frame, and fields of protocol buffers, written and read
// here without a library, so that two sides have to agree.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "integration/h2_client.hpp"

namespace tidegate::test {

inline std::string pb_varint(std::uint64_t number) {
    std::string out;
    for (; number >= 0x80; number >>= 7) out += static_cast<char>((number & 0x7f) | 0x80);
    return out += static_cast<char>(number);
}

// A field that holds a number, and one that holds text or a message.
inline std::string pb_number(unsigned field, std::uint64_t value) {
    return pb_varint(field << 3) + pb_varint(value);
}
inline std::string pb_bytes(unsigned field, std::string_view bytes) {
    return pb_varint(field << 3 | 2) + pb_varint(bytes.size()) + std::string(bytes);
}

// A message that was read. Throws std::runtime_error for what is none.
class PbMessage {
  public:
    explicit PbMessage(std::string_view bytes) {
        while (!bytes.empty()) {
            const std::uint64_t tag = take_varint(bytes);
            Field field{static_cast<unsigned>(tag >> 3), 0, {}};
            if ((tag & 7) == 0) {
                field.number = take_varint(bytes);
            } else if ((tag & 7) == 2) {
                const std::uint64_t size = take_varint(bytes);
                if (size > bytes.size()) throw std::runtime_error("a field is cut off");
                field.bytes = bytes.substr(0, size);
                bytes.remove_prefix(size);
            } else {
                throw std::runtime_error("a field of another kind");
            }
            fields_.push_back(std::move(field));
        }
    }

    std::uint64_t number(unsigned id) const {
        std::uint64_t found = 0;
        for (const Field& one : fields_) found = one.id == id ? one.number : found;
        return found;
    }
    std::string bytes(unsigned id) const {
        const auto found = all(id);
        return found.empty() ? "" : found.back();
    }
    std::vector<std::string> all(unsigned id) const {
        std::vector<std::string> found;
        for (const Field& one : fields_) {
            if (one.id == id) found.push_back(one.bytes);
        }
        return found;
    }
    PbMessage below(unsigned id) const { return PbMessage(bytes(id)); }

  private:
    struct Field {
        unsigned id;
        std::uint64_t number;
        std::string bytes;
    };

    static std::uint64_t take_varint(std::string_view& bytes) {
        std::uint64_t number = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (bytes.empty()) throw std::runtime_error("a number is cut off");
            const auto byte = static_cast<unsigned char>(bytes.front());
            bytes.remove_prefix(1);
            number |= std::uint64_t{byte & 0x7fU} << shift;
            if (byte < 0x80) return number;
        }
        throw std::runtime_error("a number is too long");
    }

    std::vector<Field> fields_;
};

inline std::string grpc_frame(std::string_view message, char flag = 0) {
    std::string out(1, flag);
    for (int shift = 24; shift >= 0; shift -= 8) {
        out += static_cast<char>(message.size() >> shift & 0xff);
    }
    return out.append(message);
}

inline H2Request grpc_call(const std::string& path, std::string_view message, FieldList more = {}) {
    FieldList fields{{"content-type", "application/grpc"}, {"te", "trailers"}};
    fields.insert(fields.end(), more.begin(), more.end());
    return {.method = "POST", .path = path, .fields = fields, .body = grpc_frame(message)};
}

// What a client of gRPC makes of an answer: -1 if it is none of gRPC.
inline int grpc_status(const H2Answer& answer) {
    if (answer.status() != 200 || !answer.is_whole) return -1;
    if (answer.field("content-type") != "application/grpc") return -1;
    for (const auto& [name, value] : answer.trailers) {
        if (name == "grpc-status") return std::stoi(value);
    }
    return answer.has("grpc-status") ? std::stoi(answer.field("grpc-status")) : -1;
}

// The one message of an answer.
inline std::string grpc_message(const H2Answer& answer) {
    if (answer.body.size() < 5 || grpc_frame(answer.body.substr(5)) != answer.body) {
        throw std::runtime_error("the answer does not hold one message");
    }
    return answer.body.substr(5);
}

}  // namespace tidegate::test
