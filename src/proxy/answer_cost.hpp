// What a request has cost, where its answer says that: reads the answer as it passes, and settles
// what policies have reserved.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/container/small_vector.hpp>

#include "ask/policy_cost.hpp"
#include "base/units.hpp"
#include "config/policy_cost.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "net/deadline.hpp"
#include "telemetry/access_log_fields.hpp"
#include "usage/answer.hpp"
#include "usage/cost.hpp"
#include "usage/event_stream.hpp"

namespace tidegate::proxy {

struct Exchange;
struct WorkerContext;

// One admitted request of a route whose policies settle costs, from its upload to its record. One
// thread.
class AnswerCost {
  public:
    // Changes the request for its upstream, before it is sent: drops Accept-Encoding where usage is
    // read from the answer, and writes what `ask_usage` and `write_cap` say into a body that is
    // held whole, and that no field signs.
    explicit AnswerCost(Exchange& x);
    AnswerCost(const AnswerCost&) = delete;
    AnswerCost& operator=(const AnswerCost&) = delete;

    // Whether the answer's body has to pass through read().
    bool reads_body() const { return !readings_.empty(); }

    // The head of the final answer, and how its body is framed.
    void begin(const http::ResponseHead& head, const http::Framing& framing);
    // A part of its body, without its transfer coding. Returns what the client gets of it: the
    // same, but for the chunk with the usage that the client did not ask for. The bytes live until
    // the next call.
    const http::BodyBatch& read(const http::BodyBatch& batch);

    // For how long the answer is read on once its client has left; 0: it is not.
    std::chrono::milliseconds time_after_leaving() const { return time_after_leaving_; }

    // The request has ended: tells the store what each policy's cost was, and counts it. Once.
    void settle(WorkerContext& worker, Exchange& x);

    // What each item of the charge has cost, after settle(); below 0: what was reserved. Empty:
    // nothing was settled.
    std::span<const std::int64_t> settled() const { return settled_; }

    // Adds to the record what is known after settle(). It views this.
    void describe(const Exchange& x, telemetry::RequestRecord& record) const;

  private:
    // One source that policies of the route read usage from.
    struct Reading {
        explicit Reading(const usage::UsageSource& of) : source(of) {}

        const usage::UsageSource& source;
        std::optional<usage::AnswerReader> reader;  // none: the answer cannot be read
        usage::UnknownUsage reason = usage::UnknownUsage::no_usage;
        std::size_t price_row = usage::PriceList::kNoRow;  // of its usage, from settle() on

        const usage::Usage* usage() const {
            return reader && reader->usage() ? &*reader->usage() : nullptr;
        }
    };

    const Reading* known() const;
    bool has_last_event() const;
    void count(WorkerContext& worker, const Exchange& x) const;
    const Reading* reading_of(const usage::UsageSource& source) const;
    void list_sources(const Exchange& x);
    void rewrite_body(Exchange& x);
    ask::AnswerFacts facts_of(const Exchange& x) const;

    // Few: one a source. A reader does not move.
    boost::container::small_vector<std::unique_ptr<Reading>, 1> readings_;
    struct HeaderNumber {
        const config::PolicyCost* cost;
        std::optional<double> number;
    };
    std::vector<HeaderNumber> headers_;
    bool has_asked_ = false;  // for usage, where the client did not
    std::unique_ptr<usage::UsageChunkFilter> filter_;
    std::string filtered_;
    http::BodyBatch passed_;  // views filtered_
    std::chrono::milliseconds time_after_leaving_{0};
    std::optional<SteadyTime> began_;  // where a policy settles by time
    boost::container::small_vector<std::int64_t, 4> settled_;
    // Of the first policy that settles; negative: unknown.
    Amount reserved_ = -1;
    Amount cost_ = -1;
    Amount usd_ = -1;  // of the first policy that counts money
};

}  // namespace tidegate::proxy
