#include "proxy/answer_cost.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>

#include "ask/ruleset.hpp"
#include "http/field.hpp"
#include "proxy/exchange.hpp"
#include "proxy/request.hpp"
#include "proxy/worker_context.hpp"
#include "usage/request.hpp"

namespace tidegate::proxy {

namespace {

using config::PolicyCost;
using usage::UnknownUsage;

// Calls `visit(cost, item position)` for each item whose policy settles by the answer.
template <class Visit>
void for_each_settled(const Exchange& x, Visit visit) {
    const auto& items = x.decision.charge.items;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto& policy = *x.config().limit_lists[ask::list_of(items[i])].policy;
        if (policy.cost != nullptr && policy.cost->settles()) visit(*policy.cost, i);
    }
}

// A policy may count a request under several identifiers, some of them in shadow, and has spent the
// cost once.
bool is_counted_before(std::span<const limit::ChargeItem> items, std::size_t position) {
    const limit::Policy& policy = items[position].policy->written();
    return std::any_of(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(position),
                       [&](const limit::ChargeItem& one) {
                           return !one.policy->is_candidate() && &one.policy->written() == &policy;
                       });
}

// A number of a field, 0 or more; nothing: it is absent, twice there, or something else.
std::optional<double> number_in(const http::Fields& fields, std::string_view name) {
    const std::string_view text = http::single_value(fields, name);
    double number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, fault] = std::from_chars(text.data(), end, number);
    if (text.empty() || fault != std::errc() || stop != end) return std::nullopt;
    return std::isfinite(number) && number >= 0 ? std::optional<double>(number) : std::nullopt;
}

}  // namespace

AnswerCost::AnswerCost(Exchange& x) {
    list_sources(x);
    if (reads_body()) {
        std::erase_if(x.facts.head.fields, [](const http::Field& field) {
            return http::equal_ignoring_case(field.name, "accept-encoding");
        });
    }
    rewrite_body(x);
}

void AnswerCost::list_sources(const Exchange& x) {
    for_each_settled(x, [&](const PolicyCost& cost, std::size_t) {
        if (cost.settle == PolicyCost::Settle::usage && reading_of(*cost.usage) == nullptr) {
            readings_.push_back(std::make_unique<Reading>(*cost.usage));
        }
        if (cost.settle == PolicyCost::Settle::header) headers_.push_back({&cost, {}});
        if (cost.settle == PolicyCost::Settle::time && !began_) began_ = steady_now();
        time_after_leaving_ = std::max(time_after_leaving_, cost.settle_after_leaving);
    });
}

void AnswerCost::rewrite_body(Exchange& x) {
    UpstreamSide& side = *x.upstream;
    const ask::InspectedBody* const body = x.facts.body;
    if (body == nullptr || !body->is_whole || !body->json.is_json) return;
    // The Responses API, embeddings and images refuse members that they do not know. Completions
    // take `max_tokens` alone.
    const bool is_chat = body->json.is_chat;
    const bool may_ask = is_chat || x.facts.head.path.ends_with("/completions");
    bool asks = false;
    std::optional<std::int64_t> cap;
    for_each_settled(x, [&](const PolicyCost& cost, std::size_t) {
        asks = asks ||
               (cost.asks_usage && may_ask && body->json.streams && !body->json.has_usage_asked);
        if (cost.writes_cap && is_chat && cost.reads_body() &&
            !body->json.output_max[cost.rule].stated) {
            cap = std::min(cap.value_or(cost.cap), cost.cap);
        }
    });
    if ((!asks && !cap) || ask::signs_body(x.facts.head.fields)) return;
    if (asks) side.held_body = usage::ask_for_usage(side.held_body, body->json);
    has_asked_ = asks;
    if (cap) side.held_body = usage::write_output_max(side.held_body, *cap);
    side.is_rewritten = true;
    x.inspected->text = side.held_body;
}

const AnswerCost::Reading* AnswerCost::reading_of(const usage::UsageSource& source) const {
    const auto found = std::find_if(readings_.begin(), readings_.end(),
                                    [&](const auto& one) { return &one->source == &source; });
    return found != readings_.end() ? found->get() : nullptr;
}

void AnswerCost::begin(const http::ResponseHead& head, const http::Framing& framing) {
    for (HeaderNumber& one : headers_) one.number = number_in(head.fields, one.cost->header);
    if (readings_.empty()) return;
    const auto form = usage::AnswerReader::form_of(http::single_value(head.fields, "content-type"));
    const bool coded = is_coded(head.fields);
    // A stream whose length is said must keep it.
    if (has_asked_ && !coded && framing.body != http::BodyKind::length &&
        form == usage::AnswerReader::Form::server_sent_events) {
        filter_ = std::make_unique<usage::UsageChunkFilter>();
    }
    for (const auto& reading : readings_) {
        if (form && !coded) {
            reading->reader.emplace(reading->source, *form);
        } else {
            reading->reason = coded ? UnknownUsage::compressed : UnknownUsage::media_type;
        }
    }
}

const http::BodyBatch& AnswerCost::read(const http::BodyBatch& batch) {
    for (const auto& reading : readings_) {
        if (!reading->reader) continue;
        for (const std::string_view piece : batch.view()) reading->reader->read(piece);
        if (!batch.done) continue;
        reading->reader->end();
        reading->reason = reading->reader->reason();
    }
    if (filter_ == nullptr) return batch;
    filtered_.clear();
    for (const std::string_view piece : batch.view()) filter_->take(piece, filtered_);
    if (batch.done) filter_->end(filtered_);
    passed_ = batch;
    passed_.pieces[0] = filtered_;
    passed_.count = filtered_.empty() ? 0 : 1;
    passed_.content_bytes = filtered_.size();
    return passed_;
}

// Libraries close their connection then, before the end of the body.
bool AnswerCost::has_last_event() const {
    return !readings_.empty() &&
           std::all_of(readings_.begin(), readings_.end(), [](const auto& reading) {
               return reading->usage() != nullptr && reading->reader->has_last_event();
           });
}

ask::AnswerFacts AnswerCost::facts_of(const Exchange& x) const {
    using End = ask::AnswerFacts::End;
    ask::AnswerFacts facts;
    switch (x.relay.reached) {
        case Reached::nothing:
            facts.end = End::not_sent;
            break;
        case Reached::upstream:
            facts.end = End::unanswered;
            break;
        case Reached::answer:
            facts.end = x.relay.tunnel_end || has_last_event() ? End::whole : End::cut;
            break;
        case Reached::end:
            facts.end = End::whole;
            break;
    }
    facts.status = x.relay.upstream_status;
    if (began_) facts.time = steady_now() - *began_ - x.relay.queue_time;
    facts.bytes = x.relay.bytes_sent;
    return facts;
}

void AnswerCost::settle(WorkerContext& worker, Exchange& x) {
    constexpr std::int64_t kStays = -1;
    ask::Decision& decision = x.decision;
    if (decision.charge.result != store::LimitDecision::Result::admitted) return;
    settled_.assign(decision.charge.items.size(), kStays);
    const limit::Charge charge = decision.charge.charge();
    ask::AnswerFacts facts = facts_of(x);
    const ask::AnswerFacts::End end = facts.end;
    for (const auto& reading : readings_) {
        if (const usage::Usage* const one = reading->usage()) {
            reading->price_row = ask::settled_row(x.config(), decision, one->model);
        }
    }
    for_each_settled(x, [&](const PolicyCost& cost, std::size_t i) {
        const Reading* const reading =
            cost.settle == PolicyCost::Settle::usage ? reading_of(*cost.usage) : nullptr;
        facts.usage = reading != nullptr ? reading->usage() : nullptr;
        // A stream that ends before it says its usage was cut behind the upstream. An answer may
        // have come whole whose client takes only a part.
        const bool is_cut = cost.settle == PolicyCost::Settle::bytes
                                ? !decision.goes_on()
                                : facts.usage != nullptr && reading->reader->is_placeholder();
        facts.end =
            is_cut && end == ask::AnswerFacts::End::whole ? ask::AnswerFacts::End::cut : end;
        facts.price_row = reading != nullptr ? reading->price_row : usage::PriceList::kNoRow;
        facts.header.reset();
        for (const HeaderNumber& one : headers_) {
            if (one.cost == &cost) facts.header = one.number;
        }
        const limit::ChargeItem& item = decision.charge.items[i];
        const std::int64_t reserved = charge.cost_of(item);
        settled_[i] =
            ask::settled_units(x.config(), cost, reserved, decision.model, facts).value_or(kStays);
        // A candidate spends nothing in truth.
        if (item.policy->is_candidate()) return;
        if (reserved_.units < 0) {
            reserved_ = {reserved, cost.in_money};
            cost_ = {settled_[i], cost.in_money};
        }
        if (cost.in_money && usd_.units < 0) usd_ = {settled_[i], true};
        if (is_counted_before(decision.charge.items, i)) return;
        const std::int64_t taken = settled_[i] >= 0 ? settled_[i] : reserved;
        const std::size_t slot = x.generation->slots.decision(ask::list_of(item), 0);
        worker.engine.count_cost(slot, taken, reserved);
        if (!cost.in_money) return;
        // Where the answer says no usage, the model is that of the request.
        const std::size_t row =
            facts.usage != nullptr ? facts.price_row : ask::settled_row(x.config(), decision, {});
        worker.engine.count_money(slot, x.generation->slots.model(row), taken);
    });
    worker.engine.correct(decision, settled_);
    count(worker, x);
}

// The tokens once, however many sources have them, and once that a source has none.
void AnswerCost::count(WorkerContext& worker, const Exchange& x) const {
    const std::size_t route = x.generation->slots.route(x.decision.route_index);
    if (const Reading* const one = known()) {
        worker.metrics.count_usage(route, x.generation->slots.model(one->price_row),
                                   one->usage()->tokens);
    }
    const auto unknown = std::find_if(readings_.begin(), readings_.end(), [](const auto& one) {
        return one->usage() == nullptr || one->reader->is_placeholder();
    });
    if (unknown == readings_.end() || x.relay.reached < Reached::answer) return;
    const Reading& reading = **unknown;
    const bool is_cut =
        reading.reader && (reading.usage() != nullptr || x.relay.reached != Reached::end);
    worker.metrics.count_unknown_usage(route, is_cut ? UnknownUsage::cut : reading.reason);
}

void AnswerCost::describe(const Exchange& x, telemetry::RequestRecord& record) const {
    record.usage_model = x.decision.model;
    record.usage_reserved = reserved_;
    record.usage_cost = cost_;
    record.usage_usd = usd_;
    const Reading* const reading = known();
    if (reading == nullptr) return;
    const usage::Usage& usage = *reading->usage();
    record.usage_answer_model = usage.model;
    record.usage_input = usage.tokens.input;
    record.usage_cached = usage.tokens.cached;
    record.usage_cache_write = usage.tokens.cache_write;
    record.usage_output = usage.tokens.output;
}

// The first reading that has found usage; null: none has.
const AnswerCost::Reading* AnswerCost::known() const {
    const auto found = std::find_if(readings_.begin(), readings_.end(),
                                    [](const auto& one) { return one->usage() != nullptr; });
    return found != readings_.end() ? found->get() : nullptr;
}

}  // namespace tidegate::proxy
