// Reads what Envoy asks, and writes what Envoy is answered, as bytes of protocol buffers: Check of
// external authorization (envoy.service.auth.v3), and ShouldRateLimit of the rate limit service
// (envoy.service.ratelimit.v3). Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ip.hpp"
#include "base/result.hpp"
#include "rls/rules.hpp"

namespace tidegate::faces {

// Fields for the caller's answer, or for the request.
using EnvoyFields = std::vector<std::pair<std::string, std::string>>;

// Adds the fields that `lines`, whole ones, write.
void add_lines(std::string_view lines, EnvoyFields& fields);

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
    bool is_admitted = false;
    // Admitted: fields that the request gets in place of its own of these names, fields that it
    // loses, and fields of the answer to the client.
    EnvoyFields request_fields;
    std::vector<std::string> removed_fields;
    EnvoyFields answer_fields;
    // Refused: the answer to the client, with answer_fields.
    int status = 0;
    int grpc_status = 0;
    std::string body;
};

// Appends the message.
void append_authz_answer(const AuthzAnswer& answer, std::string& out);

struct RlsCall {
    struct Override {
        std::int64_t requests = 0;
        rls::Unit unit = rls::Unit::second;  // never unknown
    };
    struct Descriptor {
        std::vector<std::pair<std::string, std::string>> entries;  // key and value; at least one
        std::optional<Override> limit;  // that the caller wants in place of the configured one
        std::int64_t hits = 1;          // 0: only asks
    };
    std::string domain;
    std::vector<Descriptor> descriptors;
};

inline constexpr std::size_t kRlsDescriptorsMax = 64;
inline constexpr std::size_t kRlsEntriesMax = 16;

// The call, or a sentence about what is wrong with it.
Result<RlsCall, std::string> read_rls_call(std::string_view message);

struct RlsAnswer {
    struct Limit {
        std::string_view name;
        std::int64_t quota = 0;
        rls::Unit unit = rls::Unit::unknown;
    };
    struct Status {
        bool is_over = false;
        std::optional<Limit> limit;  // of several, the one with least left
        std::int64_t remaining = 0;  // more than fits counts as all that fits
        std::optional<std::chrono::microseconds> until_reset;
    };
    bool is_over = false;
    std::vector<Status> statuses;  // one a descriptor, in order
    EnvoyFields fields;            // for the answer to the client
    std::string body;              // of a refusal
};

// Appends the message.
void append_rls_answer(const RlsAnswer& answer, std::string& out);

}  // namespace tidegate::faces
