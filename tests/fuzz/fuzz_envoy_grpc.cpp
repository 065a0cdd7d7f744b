// What Envoy asks by gRPC: whatever comes, the reader says a call within its bounds or a sentence,
// and the head of a request is one that no value has broken out of.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "faces/envoy_calls.hpp"
#include "fuzz_check.hpp"
#include "http/grpc.hpp"
#include "limit/algorithm.hpp"

namespace {

using namespace tidegate;
using namespace tidegate::faces;

void check_rls(std::string_view message) {
    const auto call = read_rls_call(message);
    if (!call) {
        FUZZ_CHECK(!call.error().empty());
        return;
    }
    FUZZ_CHECK(!call->domain.empty());
    FUZZ_CHECK(!call->descriptors.empty() && call->descriptors.size() <= kRlsDescriptorsMax);
    for (const RlsCall::Descriptor& one : call->descriptors) {
        FUZZ_CHECK(!one.entries.empty() && one.entries.size() <= kRlsEntriesMax);
        FUZZ_CHECK(one.hits >= 0 && one.hits <= limit::kQuotaMax);
        FUZZ_CHECK(!one.limit || one.limit->unit != rls::Unit::unknown);
        for (const auto& [key, value] : one.entries) FUZZ_CHECK(!key.empty());
    }
}

void check_authz(std::string_view message) {
    const auto call = read_authz_call(message);
    if (!call) {
        FUZZ_CHECK(!call.error().empty());
        return;
    }
    // One empty line, at the end, and no line break but CRLF.
    FUZZ_CHECK(call->head.find("\r\n\r\n") == call->head.size() - 4);
    const auto count = [&](char c) { return std::count(call->head.begin(), call->head.end(), c); };
    FUZZ_CHECK(count('\r') == count('\n'));
    FUZZ_CHECK(count('\0') == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    const auto framed = http::read_grpc_message(body);
    FUZZ_CHECK(framed.fault != http::GrpcMessage::Fault::none ||
               framed.bytes.size() + http::kGrpcMessageHeadBytes == size);
    check_rls(body);
    check_authz(body);
    return 0;
}
