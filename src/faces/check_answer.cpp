#include "faces/check_answer.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "ask/decided_limits.hpp"
#include "base/json_escape.hpp"
#include "base/numbers.hpp"
#include "http/problem.hpp"

namespace tidegate::faces {

namespace {

constexpr int kBadCall = 400;

// Of a limit, what comes behind its texts and its identifier: two numbers and names of members.
constexpr std::size_t kLimitBytesMax = 96;

// Rounded up, so that a program does not come back too early. Requires another time than kNever.
std::int64_t milliseconds_up(limit::Micros time) {
    constexpr std::int64_t kMilli = 1'000;
    return time.count() / kMilli + (time.count() % kMilli != 0 ? 1 : 0);
}

// These write to where there is room, and return where they ended.
char* put(std::string_view text, char* to) {
    return std::copy(text.begin(), text.end(), to);
}

template <std::size_t kSize>
char* put(const char (&text)[kSize], char* to) {
    return std::copy_n(text, kSize - 1, to);
}

char* put_number(std::int64_t number, char* to) {
    constexpr std::ptrdiff_t kDigitsMax = 20;
    return std::to_chars(to, to + kDigitsMax, number).ptr;
}

void append_limit(const ask::Ruleset& rules, const limit::ChargeItem& item, std::size_t position,
                  const limit::LimitVerdict& verdict, std::string& out) {
    const limit::Limit& limit = item.limits()[position];
    const auto& texts = rules.policy_texts.of(item, position);
    const std::size_t begin = out.size();
    // One growth for all its pieces.
    out.resize(begin + texts.json_begin.size() + texts.json_quota.size() + kLimitBytesMax +
               kEscapedBytesMax * item.identifier.size());
    char* to = put(std::string_view(texts.json_begin), out.data() + begin);
    to = write_json_escaped(item.identifier, to);
    to = put(std::string_view(texts.json_quota), to);
    to = verdict.is_current ? put_number(std::min(verdict.remaining, limit.quota), to)
                            : put("null", to);
    to = put(R"(,"reset_ms":)", to);
    to = verdict.tells_next_unit() ? put_number(milliseconds_up(verdict.next_unit), to)
                                   : put("null", to);
    to = verdict.denied ? put(R"(,"denied":true})", to) : put(R"(,"denied":false})", to);
    out.resize(static_cast<std::size_t>(to - out.data()));
}

void append_limits(const ask::Ruleset& rules, const store::LimitDecision& charge,
                   std::string& out) {
    bool is_first = true;
    ask::for_each_limit(charge, [&](const limit::ChargeItem& item, std::size_t position,
                                    const limit::LimitVerdict& verdict) {
        if (item.policy->shadow) return;
        if (!is_first) out += ',';
        is_first = false;
        append_limit(rules, item, position, verdict, out);
    });
}

}  // namespace

int status_of(const ask::Decision& decision) {
    constexpr int kOk = 200;
    constexpr int kTooMany = 429;
    if (decision.goes_on()) return kOk;
    return decision.fault == ask::Fault::limited ? kTooMany : ask::traits(decision.fault).status;
}

// Appends text without building a JSON value: a call may have a hundred answers.
void append_answer(const ask::Ruleset& rules, const ask::Decision& decision, std::string& out) {
    using Result = store::LimitDecision::Result;
    const store::LimitDecision& charge = decision.charge;
    out += decision.goes_on() ? R"("admitted":true,"limits":[)" : R"("admitted":false,"limits":[)";
    if (charge.result == Result::admitted || charge.result == Result::limited) {
        append_limits(rules, charge, out);
    }
    out += ']';
    if (decision.goes_on()) return;
    if (decision.fault == ask::Fault::limited) {
        out += R"(,"retry_after_ms":)";
        if (charge.verdict.retry_after != limit::kNever) {
            append_number(milliseconds_up(charge.verdict.retry_after), out);
        } else {
            out += "null";  // there is no such time
        }
        return;
    }
    const ask::FaultTraits& fault = ask::traits(decision.fault);
    out += R"(,"status":)";
    append_number(fault.status, out);
    out += R"(,"detail":)";
    append_json_string(decision.fault_detail.empty() ? fault.detail : decision.fault_detail, out);
}

void append_each_answer(const ask::Ruleset& rules, const ask::Decision& decision,
                        std::string& out) {
    out += '{';
    append_answer(rules, decision, out);
    if (decision.goes_on() || decision.fault == ask::Fault::limited) {
        out += R"(,"status":)";
        append_number(status_of(decision), out);
    }
    out += '}';
}

void append_each_fault(std::string_view detail, std::string& out) {
    out += R"({"admitted":false,"status":)";
    append_number(kBadCall, out);
    out += R"(,"detail":)";
    append_json_string(detail, out);
    out += '}';
}

std::string problem_text(int status, std::string_view detail, std::string_view request_id) {
    http::Problem problem;
    problem.status = status;
    problem.detail = detail;
    problem.request_id = request_id;
    std::string text;
    http::append_problem(problem, text);
    return text;
}

std::string settled_problem_text(std::int64_t cost, std::string_view request_id) {
    constexpr int kConflict = 409;
    const std::string detail =
        "The reservation is settled already, with the cost " + std::to_string(cost) + ".";
    std::string text = problem_text(kConflict, detail, request_id);
    text.pop_back();  // the brace
    text += R"(,"cost":)";
    append_number(cost, text);
    text += '}';
    return text;
}

}  // namespace tidegate::faces
