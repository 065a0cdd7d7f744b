#include "faces/rls_call.hpp"

#include <google/protobuf/arena.h>
#include <ratelimit.pb.h>

#include <algorithm>
#include <array>
#include <limits>

#include "limit/algorithm.hpp"

namespace tidegate::faces {

namespace {

// Of the package of the messages.
using Descriptor = envoy::RateLimitDescriptor;
using envoy::RateLimitRequest;
using envoy::RateLimitResponse;

struct WrongCall {
    std::string sentence;
};

RlsCall::Override override_of(const Descriptor::RateLimitOverride& limit) {
    constexpr int kUnitMax = static_cast<int>(rls::kUnits) - 1;
    if (limit.unit() < 1 || limit.unit() > kUnitMax) {
        throw WrongCall{"a descriptor's limit has the unit " + std::to_string(limit.unit()) +
                        "; known are 1 (second) to 7 (week)"};
    }
    return {limit.requests_per_unit(), static_cast<rls::Unit>(limit.unit())};
}

std::int64_t hits_of(const Descriptor& descriptor, std::uint32_t of_call) {
    if (descriptor.is_negative_hits()) {
        throw WrongCall{"hits that give units back (is_negative_hits) are not supported"};
    }
    if (!descriptor.has_hits_addend()) return std::max<std::int64_t>(of_call, 1);
    const std::uint64_t hits = descriptor.hits_addend().value();
    if (hits > std::uint64_t{limit::kQuotaMax}) {
        throw WrongCall{"hits_addend of a descriptor is above " + std::to_string(limit::kQuotaMax)};
    }
    return static_cast<std::int64_t>(hits);
}

RlsCall::Descriptor descriptor_of(Descriptor& from, std::uint32_t hits) {
    RlsCall::Descriptor descriptor;
    if (from.entries().empty()) throw WrongCall{"a descriptor has no entries"};
    if (static_cast<std::size_t>(from.entries_size()) > kRlsEntriesMax) {
        throw WrongCall{"a descriptor has more than " + std::to_string(kRlsEntriesMax) +
                        " entries"};
    }
    for (Descriptor::Entry& entry : *from.mutable_entries()) {
        if (entry.key().empty()) throw WrongCall{"an entry of a descriptor has no key"};
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
        throw WrongCall{"the message is no RateLimitRequest"};
    }
    if (request.domain().empty()) throw WrongCall{"the domain is empty"};
    if (request.descriptors().empty()) throw WrongCall{"the list of descriptors is empty"};
    if (static_cast<std::size_t>(request.descriptors_size()) > kRlsDescriptorsMax) {
        throw WrongCall{"there are more than " + std::to_string(kRlsDescriptorsMax) +
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
    try {
        return call_of(message);
    } catch (WrongCall& wrong) {
        return {boost::system::in_place_error, std::move(wrong.sentence)};
    }
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
