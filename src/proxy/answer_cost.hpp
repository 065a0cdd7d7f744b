// What a request has cost, where its answer says that: reads the answer as it passes, and settles
// what policies have reserved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ask/engine.hpp"
#include "ask/policy_cost.hpp"
#include "http/framing.hpp"
#include "http/head.hpp"
#include "net/deadline.hpp"
#include "usage/answer.hpp"

namespace tidegate::proxy {

struct Exchange;

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

    // The head of the final answer.
    void begin(const http::ResponseHead& head);
    // A part of its body, without its transfer coding.
    void read(const http::BodyBatch& batch);

    // The request has ended: tells the store what each policy's cost was. Once.
    void settle(ask::Engine& engine, Exchange& x);

    // What the answer says that it took, for the record; null: it says nothing.
    const usage::Usage* usage() const;

  private:
    // One source that policies of the route read usage from.
    struct Reading {
        explicit Reading(const usage::UsageSource& of) : source(of) {}

        const usage::UsageSource& source;
        std::optional<usage::AnswerReader> reader;  // none: the answer cannot be read
        usage::UnknownUsage reason = usage::UnknownUsage::no_usage;
    };

    const Reading* reading_of(const usage::UsageSource& source) const;
    void list_sources(const Exchange& x);
    void rewrite_body(Exchange& x);
    ask::AnswerFacts facts_of(const Exchange& x) const;

    // Few: one a source. A reader does not move.
    std::vector<std::unique_ptr<Reading>> readings_;
    struct HeaderNumber {
        const config::PolicyCost* cost;
        std::optional<double> number;
    };
    std::vector<HeaderNumber> headers_;
    SteadyTime began_;
};

}  // namespace tidegate::proxy
