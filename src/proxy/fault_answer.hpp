// Answers that the proxy makes itself, for a request that goes no further.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "http/grpc.hpp"
#include "http/problem.hpp"
#include "proxy/exchange.hpp"

namespace tidegate::proxy {

struct FaultAnswer {
    int status = 500;
    // A text of the configuration, or a constant. Empty: the answer has no body.
    std::string_view content_type = http::kProblemContentType;
    std::string body;
    std::string more_fields;       // whole lines
    bool is_to_head = false;       // the client gets the length of the body, but no body
    std::int64_t retry_after = 0;  // seconds; 0: not said
    // Set: what a gRPC client gets. `status` is for log and metrics, and there is no body.
    std::optional<http::GrpcStatus> grpc{};

    std::string_view content() const { return is_to_head ? std::string_view() : body; }
};

// The answer for exchange.decision.fault, whose traits have a status.
FaultAnswer make_fault_answer(const Exchange& exchange);
// The same for a client that speaks gRPC: trailers without messages before them.
FaultAnswer make_grpc_fault_answer(const Exchange& exchange);
// The same without a body, for a face that sends none.
FaultAnswer make_bare_fault_answer(const Exchange& exchange);

// Appends the lines of all fields of `answer` but those that describe its body.
void append_fault_fields(const Exchange& exchange, const FaultAnswer& answer, std::string& out);

// Writes the head of `answer` to exchange.client, with `date_line`. Returns the text.
const std::string& write_fault_head(Exchange& exchange, const FaultAnswer& answer,
                                    std::string_view date_line);

}  // namespace tidegate::proxy
