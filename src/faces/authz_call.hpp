// Check of Envoy's external authorization (envoy.service.auth.v3): what is asked and what is
// answered, to and from the bytes of protocol buffers. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ip.hpp"
#include "base/result.hpp"

namespace tidegate::faces {

struct AuthzCall {
    std::string scheme;               // as Envoy names it, or empty
    bool has_body = false;            // as far as Envoy tells
    std::string head;                 // of the client's request, as HTTP/1.1 has it
    std::optional<IpAddress> source;  // the client, as Envoy sees it
};

// The call, or a sentence about what is wrong with it. Fields that frame the request, and those of
// HTTP/2 that begin with `:`, are left out of the head; the former may tell that it has a body.
// Names and values cannot break out of their lines: such a call is wrong.
Result<AuthzCall, std::string> read_authz_call(std::string_view message);

struct AuthzAnswer {
    using Fields = std::vector<std::pair<std::string, std::string>>;

    bool is_admitted = false;
    // Admitted: fields that the request gets in place of its own of these names, fields that it
    // loses, and fields of the answer to the client.
    Fields request_fields;
    std::vector<std::string> removed_fields;
    Fields answer_fields;
    // Refused: the answer to the client, with answer_fields.
    int status = 0;
    int grpc_status = 0;
    std::string body;
};

// Appends the message.
void append_authz_answer(const AuthzAnswer& answer, std::string& out);

}  // namespace tidegate::faces
