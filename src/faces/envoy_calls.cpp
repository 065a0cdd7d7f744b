#include "faces/envoy_calls.hpp"

#include <external_auth.pb.h>
#include <google/protobuf/arena.h>
#include <ratelimit.pb.h>

#include <algorithm>
#include <array>
#include <limits>

#include "http/field.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "limit/algorithm.hpp"

namespace tidegate::faces {

namespace {

using envoy::AttributeContext;
using envoy::CheckRequest;
using envoy::CheckResponse;
using HttpRequest = AttributeContext::HttpRequest;

struct WrongEnvoyCall {
    std::string sentence;
};

template <class Call>
Result<Call, std::string> read_or_fault(Call (*read)(std::string_view), std::string_view message) {
    try {
        return read(message);
    } catch (WrongEnvoyCall& wrong) {
        return {boost::system::in_place_error, std::move(wrong.sentence)};
    }
}

// Whether a field is about the connection that the request came on, or about its body, which does
// not come here.
bool is_of_framing(std::string_view name) {
    switch (http::field_name(name)) {
        case http::FieldName::connection:
        case http::FieldName::content_length:
        case http::FieldName::expect:
        case http::FieldName::host:
        case http::FieldName::keep_alive:
        case http::FieldName::proxy_connection:
        case http::FieldName::te:
        case http::FieldName::trailer:
        case http::FieldName::transfer_encoding:
        case http::FieldName::upgrade:
            return true;
        default:
            return false;
    }
}

// Whether a field of the request announces a body: any Transfer-Encoding, and any Content-Length
// but a number of zeros.
bool announces_body(std::string_view name, std::string_view value) {
    const http::FieldName id = http::field_name(name);
    if (id == http::FieldName::transfer_encoding) return true;
    return id == http::FieldName::content_length &&
           (value.empty() || value.find_first_not_of('0') != value.npos);
}

void append_client_field(std::string_view name, std::string_view value, AuthzCall& call) {
    call.has_body = call.has_body || announces_body(name, value);
    if (name.starts_with(':') || is_of_framing(name)) return;
    if (!http::is_token(name)) throw WrongEnvoyCall{"the name of a header is none"};
    if (!http::is_field_value(value)) {
        throw WrongEnvoyCall{"the value of a header has bytes that no value has"};
    }
    http::append_field(name, value, call.head);
}

// A word of the request line: a character that would end it ends the call.
std::string_view word_of(std::string_view text, const char* what) {
    const bool is_word = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) > ' ' && c != '\x7f';
    });
    if (!is_word) throw WrongEnvoyCall{std::string(what) + " of the request is missing or broken"};
    return text;
}

// Sets the head, and whether there is a body. The target of a CONNECT is its host (RFC 9112 section
// 3.2.3).
void read_request(const HttpRequest& request, AuthzCall& call) {
    if (!http::is_token(request.method())) {
        throw WrongEnvoyCall{"the method of the request is missing or broken"};
    }
    const std::string_view host = word_of(request.host(), "the host");
    const std::string_view target =
        request.method() == "CONNECT" ? host : word_of(request.path(), "the path");
    call.head = request.method() + " ";
    call.head.append(target).append(" HTTP/1.1\r\n");
    http::append_field("Host", host, call.head);
    call.has_body = request.size() > 0 || !request.body().empty() || !request.raw_body().empty();
    for (const auto& [name, value] : request.headers()) append_client_field(name, value, call);
    for (const auto& one : request.header_map().headers()) {
        append_client_field(one.key(), one.raw_value().empty() ? one.value() : one.raw_value(),
                            call);
    }
    call.head += "\r\n";
}

AuthzCall authz_call_of(std::string_view message) {
    CheckRequest request;
    if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
        throw WrongEnvoyCall{"the message is no CheckRequest"};
    }
    const AttributeContext& attributes = request.attributes();
    if (!attributes.request().has_http()) {
        throw WrongEnvoyCall{"the call is about no request of HTTP (attributes.request.http)"};
    }
    const HttpRequest& http = attributes.request().http();
    AuthzCall call;
    call.scheme = http.scheme();
    call.source = parse_ip(attributes.source().address().socket_address().address());
    read_request(http, call);
    return call;
}

template <class List>
void add_fields(const EnvoyFields& fields, List& list) {
    for (const auto& [name, value] : fields) {
        envoy::HeaderValueOption& option = *list.Add();
        option.mutable_header()->set_key(name);
        option.mutable_header()->set_value(value);
        option.mutable_append()->set_value(false);
        option.set_append_action(envoy::HeaderValueOption::OVERWRITE_IF_EXISTS_OR_ADD);
    }
}

}  // namespace

void add_lines(std::string_view lines, EnvoyFields& fields) {
    constexpr std::string_view kEnd = "\r\n";
    while (!lines.empty()) {
        const std::size_t end = std::min(lines.find(kEnd), lines.size());
        const std::string_view line = lines.substr(0, end);
        const std::size_t colon = line.find(": ");
        if (colon != std::string_view::npos) {
            fields.emplace_back(line.substr(0, colon), line.substr(colon + 2));
        }
        lines.remove_prefix(std::min(end + kEnd.size(), lines.size()));
    }
}

Result<AuthzCall, std::string> read_authz_call(std::string_view message) {
    return read_or_fault(authz_call_of, message);
}

void append_authz_answer(const AuthzAnswer& answer, std::string& out) {
    CheckResponse response;
    response.mutable_status()->set_code(answer.is_admitted ? 0 : answer.grpc_status);
    if (answer.is_admitted) {
        auto& ok = *response.mutable_ok_response();
        add_fields(answer.request_fields, *ok.mutable_headers());
        for (const std::string& name : answer.removed_fields) ok.add_headers_to_remove(name);
        add_fields(answer.answer_fields, *ok.mutable_response_headers_to_add());
    } else {
        auto& denied = *response.mutable_denied_response();
        denied.mutable_status()->set_code(answer.status);
        add_fields(answer.answer_fields, *denied.mutable_headers());
        denied.set_body(answer.body);
    }
    response.AppendToString(&out);
}

namespace {

// The message of a descriptor, not tidegate::Descriptor.
using Descriptor = envoy::RateLimitDescriptor;
using envoy::RateLimitRequest;
using envoy::RateLimitResponse;

RlsCall::Override override_of(const Descriptor::RateLimitOverride& limit) {
    constexpr int kUnitMax = static_cast<int>(rls::kUnits) - 1;
    if (limit.unit() < 1 || limit.unit() > kUnitMax) {
        throw WrongEnvoyCall{"a descriptor's limit has the unit " + std::to_string(limit.unit()) +
                             "; known are 1 (second) to 7 (week)"};
    }
    return {limit.requests_per_unit(), static_cast<rls::Unit>(limit.unit())};
}

std::int64_t hits_of(const Descriptor& descriptor, std::uint32_t of_call) {
    if (descriptor.is_negative_hits()) {
        throw WrongEnvoyCall{"hits that give units back (is_negative_hits) are not supported"};
    }
    if (!descriptor.has_hits_addend()) return std::max<std::int64_t>(of_call, 1);
    const std::uint64_t hits = descriptor.hits_addend().value();
    if (hits > std::uint64_t{limit::kQuotaMax}) {
        throw WrongEnvoyCall{"hits_addend of a descriptor is above " +
                             std::to_string(limit::kQuotaMax)};
    }
    return static_cast<std::int64_t>(hits);
}

RlsCall::Descriptor descriptor_of(Descriptor& from, std::uint32_t hits) {
    RlsCall::Descriptor descriptor;
    if (from.entries().empty()) throw WrongEnvoyCall{"a descriptor has no entries"};
    if (static_cast<std::size_t>(from.entries_size()) > kRlsEntriesMax) {
        throw WrongEnvoyCall{"a descriptor has more than " + std::to_string(kRlsEntriesMax) +
                             " entries"};
    }
    for (Descriptor::Entry& entry : *from.mutable_entries()) {
        if (entry.key().empty()) throw WrongEnvoyCall{"an entry of a descriptor has no key"};
        descriptor.entries.emplace_back(std::move(*entry.mutable_key()),
                                        std::move(*entry.mutable_value()));
    }
    if (from.has_limit()) descriptor.limit = override_of(from.limit());
    descriptor.hits = hits_of(from, hits);
    return descriptor;
}

// Has the parts of a message of the usual size, without an allocation for each.
class MessageRoom {
  public:
    template <class Message>
    Message& make() {
        return *google::protobuf::Arena::CreateMessage<Message>(&arena_);
    }

  private:
    alignas(8) std::array<char, 1'024> bytes_;
    google::protobuf::Arena arena_{bytes_.data(), bytes_.size()};
};

RlsCall call_of(std::string_view message) {
    MessageRoom room;
    auto& request = room.make<RateLimitRequest>();
    if (!request.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
        throw WrongEnvoyCall{"the message is no RateLimitRequest"};
    }
    if (request.domain().empty()) throw WrongEnvoyCall{"the domain is empty"};
    if (request.descriptors().empty()) throw WrongEnvoyCall{"the list of descriptors is empty"};
    if (static_cast<std::size_t>(request.descriptors_size()) > kRlsDescriptorsMax) {
        throw WrongEnvoyCall{"there are more than " + std::to_string(kRlsDescriptorsMax) +
                             " descriptors"};
    }
    RlsCall call;
    call.domain = std::move(*request.mutable_domain());
    call.descriptors.reserve(static_cast<std::size_t>(request.descriptors_size()));
    for (Descriptor& one : *request.mutable_descriptors()) {
        call.descriptors.push_back(descriptor_of(one, request.hits_addend()));
    }
    return call;
}

std::uint32_t bounded(std::int64_t number) {
    return static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(number, 0, std::numeric_limits<std::uint32_t>::max()));
}

void fill(const RlsAnswer::Status& from, RateLimitResponse::DescriptorStatus& to) {
    constexpr std::int64_t kSecond = 1'000'000;
    constexpr std::int64_t kNanosOfMicro = 1'000;
    to.set_code(from.is_over ? RateLimitResponse::OVER_LIMIT : RateLimitResponse::OK);
    to.set_limit_remaining(bounded(from.remaining));
    if (from.limit) {
        auto& limit = *to.mutable_current_limit();
        limit.set_requests_per_unit(bounded(from.limit->quota));
        limit.set_unit(static_cast<std::int32_t>(from.limit->unit));
        limit.set_name(std::string(from.limit->name));
    }
    if (from.until_reset) {
        const std::int64_t micros = std::max<std::int64_t>(from.until_reset->count(), 0);
        auto& duration = *to.mutable_duration_until_reset();
        duration.set_seconds(micros / kSecond);
        duration.set_nanos(static_cast<std::int32_t>(micros % kSecond * kNanosOfMicro));
    }
}

}  // namespace

Result<RlsCall, std::string> read_rls_call(std::string_view message) {
    return read_or_fault(call_of, message);
}

void append_rls_answer(const RlsAnswer& answer, std::string& out) {
    MessageRoom room;
    auto& response = room.make<RateLimitResponse>();
    response.set_overall_code(answer.is_over ? RateLimitResponse::OVER_LIMIT
                                             : RateLimitResponse::OK);
    for (const RlsAnswer::Status& status : answer.statuses) fill(status, *response.add_statuses());
    for (const auto& [name, value] : answer.fields) {
        auto& field = *response.add_response_headers_to_add();
        field.set_key(name);
        field.set_value(value);
    }
    if (answer.is_over) response.set_raw_body(answer.body);
    response.AppendToString(&out);
}

}  // namespace tidegate::faces
