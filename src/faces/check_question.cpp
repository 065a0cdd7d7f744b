#include "faces/check_question.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "ask/charge_list.hpp"
#include "ask/identifiers.hpp"
#include "ask/request_checks.hpp"
#include "ask/verdict.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/policy_cost.hpp"
#include "http/field.hpp"
#include "http/head.hpp"
#include "http/problem.hpp"
#include "identity/client_ip.hpp"
#include "identity/identifier.hpp"

namespace tidegate::faces {

namespace {

using Kind = limit::KeyPart::Kind;

// The most identifiers of one charge, so that the id of a reservation fits into the call that
// settles it, and a charge into the command that a script is given.
constexpr std::size_t kChargeItemsMax = 64;

// Reads question.head.
void read_head(const config::RequestBounds& limits, CheckQuestion& question,
               ask::Decision& decision) {
    const http::HeadBounds bounds{limits.header_bytes, limits.headers, limits.uri_bytes};
    http::HeadScanner scanner;
    const std::size_t length = scanner.scan(question.head, bounds);
    const http::HeadFault fault =
        length == question.head.size()
            ? http::parse_request_head(question.head, bounds, question.facts.head)
        : length != 0 ? http::HeadFault::bad_field
                      : scanner.fault();
    if (fault != http::HeadFault::none) {
        return decision.refuse(ask::fault_of(fault), http::describe(fault));
    }
    http::Framing framing;
    ask::check_framing(question.facts, framing, decision);
}

// Whether an identifier is made of it without a look at a head.
bool needs_no_head(const limit::KeyPart& part) {
    return part.kind == Kind::ip || part.kind == Kind::user || part.kind == Kind::route ||
           part.kind == Kind::constant || part.kind == Kind::capture || part.kind == Kind::claim ||
           part.reads_body();
}

const config::PolicySettings* policy_of(const CheckItem& item, const config::Config& config) {
    const auto policy = std::find_if(
        config.policies.begin(), config.policies.end(),
        [&](const auto& one) { return one->name == item.policy && !one->is_candidate(); });
    return policy != config.policies.end() ? policy->get() : nullptr;
}

bool counts_money(const config::PolicySettings& policy) {
    return policy.cost != nullptr && policy.cost->in_money;
}

// Sets the cost of an item that names a policy. A sentence says what is wrong with it.
std::string set_cost(const CheckItem& item, const config::PolicySettings& policy,
                     ask::Decision& decision) {
    if (item.cost) {
        const auto units = units_of(*item.cost, counts_money(policy));
        if (!units) return "cost: " + cost_rule(counts_money(policy));
        decision.charge.cost = *units;
    } else if (policy.cost == nullptr) {
        decision.charge.cost = 1;
    } else if (policy.cost->reads_body()) {
        return "the policy " + quote(policy.name) +
               " reserves what the body of a request says, which there is none of here: write "
               "the `cost`";
    } else {
        decision.charge.cost = policy.cost->reserved;
    }
    return {};
}

const std::string* value_of(const CheckItem& item, const limit::KeyPart& part) {
    const auto found =
        std::find_if(item.identifiers.begin(), item.identifiers.end(),
                     [&](const auto& one) { return ask::is_part_text(one.first, part); });
    const bool is_there =
        found != item.identifiers.end() && !without_outer_blanks(found->second).empty();
    return is_there ? &found->second : nullptr;
}

bool has_choice(const CheckItem& item, const limit::Key& key) {
    return std::any_of(key.choices.begin(), key.choices.end(), [&](const auto& choice) {
        return std::all_of(choice.begin(), choice.end(), [&](const limit::KeyPart& part) {
            return part.kind == Kind::constant || value_of(item, part) != nullptr;
        });
    });
}

// Whether all keys of the policy are there, and nothing else.
std::string fault_of_identifiers(const CheckItem& item, const config::PolicySettings& policy) {
    for (const auto& one : item.identifiers) {
        const std::string& name = one.first;
        const auto is_named = [&](const limit::KeyPart& part) {
            return ask::is_part_text(name, part);
        };
        if (!limit::any_part(policy.key, is_named)) {
            return "identifiers: " + quote(name) + " is no part of a key of the policy " +
                   quote(policy.name) + ": it has " + quote(ask::key_text(policy.key.front()));
        }
    }
    for (const limit::Key& key : policy.key) {
        if (has_choice(item, key)) continue;
        return "identifiers: the policy " + quote(policy.name) + " counts by " +
               quote(ask::key_text(key)) + ": write each part with its value";
    }
    return {};
}

void append_encoded(std::string_view text, std::string& out) {
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        out += '%';
        out += kUpperHexDigits[byte >> 4];
        out += kUpperHexDigits[byte & 15];
    }
}

// A `;` would end the value.
void append_cookie(std::string_view name, std::string_view value, std::string& cookies) {
    cookies.append(cookies.empty() ? "" : "; ").append(name) += '=';
    for (const char c : value) {
        if (c == ';') {
            cookies += "%3B";
        } else {
            cookies += c;
        }
    }
}

// A request of which the policy's keys make these identifiers.
std::string head_with(const CheckItem& item, const config::PolicySettings& policy) {
    std::string method = "GET";
    std::string host = "localhost";
    std::string query;
    std::string cookies;
    std::string fields;
    std::vector<std::string> said;  // parts, each once
    limit::for_each_part(policy.key, [&](const limit::KeyPart& part) {
        const std::string* const value = value_of(item, part);
        if (value == nullptr ||
            std::find(said.begin(), said.end(), ask::part_text(part)) != said.end()) {
            return;
        }
        said.push_back(ask::part_text(part));
        if (part.kind == Kind::method) method = *value;
        if (part.kind == Kind::host) host = *value;
        if (part.kind == Kind::header) http::append_field(part.name, *value, fields);
        if (part.kind == Kind::query) {
            query += query.empty() ? "?" : "&";
            append_encoded(part.name, query);
            query += '=';
            append_encoded(*value, query);
        }
        if (part.kind == Kind::cookie) append_cookie(part.name, *value, cookies);
    });
    if (!cookies.empty()) http::append_field("cookie", cookies, fields);
    return method + " /" + query + " HTTP/1.1\r\nHost: " + host + "\r\n" + fields + "\r\n";
}

// A body of which the policy's keys make these identifiers.
void set_body(const CheckItem& item, const config::PolicySettings& policy,
              const config::Config& config, CheckQuestion& question) {
    question.body.is_whole = true;
    question.body.json.members.resize(config.body_pointers.size());
    const auto add = [&](const limit::KeyPart& part) {
        const std::string* const value = part.reads_body() ? value_of(item, part) : nullptr;
        if (value == nullptr) return;
        if (part.kind == Kind::form) {
            question.body.is_form = true;
            question.form += question.form.empty() ? "" : "&";
            append_encoded(part.name, question.form);
            question.form += '=';
            append_encoded(*value, question.form);
        } else {
            usage::JsonMember& member = question.body.json.members[part.claim];
            member.kind = usage::JsonMember::Kind::text;
            member.text = *value;
        }
    };
    limit::for_each_part(policy.key, add);
    question.body.text = question.form;
    question.facts.body = &question.body;
}

// What the path and the token of a request would say.
void set_captures_and_claims(const CheckItem& item, const config::PolicySettings& policy,
                             const config::Config& config, CheckQuestion& question,
                             ask::Decision& decision) {
    std::vector<std::string> claims(config.claims.size());
    const auto add = [&](const limit::KeyPart& part) {
        const std::string* const value = value_of(item, part);
        if (value == nullptr) return;
        if (part.kind == Kind::capture) {
            question.route.captures.push_back(part.name);
            question.facts.captures.push_back(*value);
        } else if (part.kind == Kind::claim) {
            claims[part.claim] = *value;
        }
    };
    limit::for_each_part(policy.key, add);
    decision.authentication->claims = identity::pack_claims(config.claims, claims, {});
}

// Says which key makes no identifier of its own, though each of its parts has a value: it must not
// be skipped, nor counted as one that all requests share.
std::string fault_of_counting(const ask::ChargeNotes& notes) {
    using Outcome = ask::KeyOutcome;
    for (const ask::ChargeNotes::Key& key : notes.policies.back().keys) {
        if (key.outcome == Outcome::counted || key.outcome == Outcome::unclear) continue;
        return "identifiers: nothing can be counted by " + quote(ask::key_text(*key.key)) +
               " with these values";
    }
    return {};
}

std::string set_client(const CheckItem& item, CheckQuestion& question, ask::Decision& decision) {
    for (const auto& [name, value] : item.identifiers) {
        if (name == "ip") {
            decision.client = parse_ip(value);
            if (!decision.client) return "identifiers.ip: " + quote(value) + " is no IP address";
        } else if (name == "user") {
            if (!identity::is_safe_user(value)) {
                return "identifiers.user: " + quote(value) +
                       " is no user: " + std::string(identity::kSafeUserRule);
            }
            question.user = value;
            decision.user = question.user;
        } else if (name == "route") {
            question.route.name = without_outer_blanks(value);
        }
    }
    return {};
}

}  // namespace

void make_request_question(const CheckItem& item, const config::Config& config,
                           CheckQuestion& question, ask::Decision& decision) {
    const CheckItem::Request& asked = item.request;
    question.head = asked.method + " " + asked.path + " HTTP/1.1\r\n";
    http::append_field("Host", asked.host, question.head);
    for (const auto& [name, value] : asked.headers) http::append_field(name, value, question.head);
    question.head += "\r\n";
    question.facts.peer = {asked.from, false, false};
    question.facts.began_at = std::chrono::system_clock::now();
    question.facts.keeps_fields = true;
    read_head(config.limits_on_requests, question, decision);
}

std::string list_policy_item(const CheckItem& item, const config::Config& config,
                             CheckQuestion& question, ask::Decision& decision,
                             ask::ChargeNotes* notes) {
    const config::PolicySettings* const policy = policy_of(item, config);
    if (policy == nullptr) return "there is no policy " + quote(item.policy);
    for (std::string fault :
         {fault_of_identifiers(item, *policy), set_client(item, question, decision),
          set_cost(item, *policy, decision)}) {
        if (!fault.empty()) return fault;
    }
    question.facts.began_at = std::chrono::system_clock::now();
    if (limit::any_part(policy->key, std::not_fn(needs_no_head))) {
        question.head = head_with(item, *policy);
        read_head(config.limits_on_requests, question, decision);
    }
    if (!decision.goes_on()) return "identifiers: a value cannot stand in a request";
    if (limit::any_part(policy->key, &limit::KeyPart::reads_body)) {
        set_body(item, *policy, config, question);
    }
    if (limit::any_part(policy->key, [](const limit::KeyPart& part) {
            return part.kind == Kind::capture || part.kind == Kind::claim;
        })) {
        set_captures_and_claims(item, *policy, config, question, decision);
    }
    decision.route = &question.route;
    decision.tier = identity::tier_of(decision.user, config.user_tiers);
    ask::ChargeNotes own_notes;
    if (notes == nullptr) notes = &own_notes;
    ask::list_policy_charges(config, *policy, question.facts, decision, notes);
    decision.route = nullptr;  // it lives shorter than the decision
    if (std::string fault = fault_of_counting(*notes); !fault.empty()) return fault;
    const auto is_not_for_here = [](const limit::Limit& limit) {
        return limit.settles() || limit.traits().has_moments;
    };
    for (const limit::ChargeItem& one : decision.charge.items) {
        if (std::none_of(one.limits().begin(), one.limits().end(), is_not_for_here)) continue;
        return "the policy " + quote(item.policy) +
               " has a limit of concurrency, leaky_bucket, schedule or `count` by status, which "
               "needs a request and its end";
    }
    return {};
}

std::string finish_request_item(const CheckItem& item, ask::Decision& decision) {
    if (item.cost) decision.charge.cost = units_of(*item.cost, false).value_or(1);
    if (!std::exchange(decision.charge.needs_settling, false)) return {};
    const auto settles = [](const limit::ChargeItem& one) {
        return std::any_of(one.limits().begin(), one.limits().end(),
                           [](const limit::Limit& limit) { return limit.settles(); });
    };
    const auto& items = decision.charge.items;
    if (std::none_of(items.begin(), items.end(), settles)) return {};
    return "the route has a policy that needs the end of the request (concurrency, leaky_bucket, "
           "`count` by status): it cannot be asked here";
}

std::string add_to_charge(const store::LimitDecision& listed, store::LimitDecision& whole) {
    if (listed.items.empty()) return {};
    if (whole.items.empty()) {
        whole.cost = listed.cost;
        whole.moment = listed.moment;
    } else if (whole.moment != listed.moment) {
        return "all items of one charge are meant for the same moment: ask for the others by "
               "themselves";
    }
    if (whole.items.size() + listed.items.size() > kChargeItemsMax) {
        return "one charge counts at most " + std::to_string(kChargeItemsMax) +
               " identifiers: ask for the others by themselves";
    }
    for (const limit::ChargeItem& item : listed.items) {
        const bool is_known =
            std::any_of(whole.items.begin(), whole.items.end(), [&](const auto& one) {
                return one.policy == item.policy && one.identifier == item.identifier;
            });
        if (is_known) {
            return "an item before it counts " + quote(item.identifier) + " under the policy " +
                   quote(item.policy->name) + " already: write one item with the whole cost";
        }
        whole.items.push_back(item);
        const bool has_own = item.own_cost != limit::ChargeItem::kOfCharge;
        if (!has_own && listed.cost != whole.cost) whole.items.back().own_cost = listed.cost;
    }
    return {};
}

namespace {

// The units that the items of `policy` reserve; 0 if it counts none.
std::int64_t units_reserved(const config::PolicySettings& policy,
                            const store::LimitDecision& charge) {
    const auto found = std::find_if(
        charge.items.begin(), charge.items.end(),
        [&](const limit::ChargeItem& one) { return &one.policy->written() == &policy; });
    return found != charge.items.end() ? charge.charge().cost_of(*found) : 0;
}

void add_request_costs(const ask::Decision& listed, ReservedCosts& whole) {
    const store::LimitDecision& charge = listed.charge;
    const std::size_t before = whole.costs.size();
    const auto& policies = listed.route->policies;
    const auto has_own = [](const config::PolicySettings* one) { return one->cost != nullptr; };
    const bool counts_by_route = listed.is_preflight || policies.empty() ||
                                 !std::all_of(policies.begin(), policies.end(), has_own);
    if (counts_by_route) whole.costs.push_back({charge.cost, false});
    whole.cost_of_item.resize(whole.cost_of_item.size() + charge.items.size(),
                              static_cast<std::uint32_t>(before));
    if (listed.is_preflight) return;
    for (const config::PolicySettings* policy : policies) {
        if (policy->cost == nullptr) continue;
        for (std::size_t i = 0; i < charge.items.size(); ++i) {
            if (&charge.items[i].policy->written() != policy) continue;
            const std::size_t first = whole.cost_of_item.size() - charge.items.size();
            whole.cost_of_item[first + i] = static_cast<std::uint32_t>(whole.costs.size());
        }
        whole.costs.push_back({units_reserved(*policy, charge), policy->cost->in_money});
    }
    whole.has_several = whole.has_several || whole.costs.size() - before > 1;
}

}  // namespace

void add_costs(const CheckItem& item, const config::Config& config, const ask::Decision& listed,
               ReservedCosts& whole) {
    if (item.policy.empty()) return add_request_costs(listed, whole);
    const config::PolicySettings* const policy = policy_of(item, config);
    const bool in_money = policy != nullptr && counts_money(*policy);
    whole.cost_of_item.resize(whole.cost_of_item.size() + listed.charge.items.size(),
                              static_cast<std::uint32_t>(whole.costs.size()));
    whole.costs.push_back({listed.charge.cost, in_money});
}

namespace {

constexpr int kBadCall = 400;

// The bytes that a limit takes beside its texts and its identifier: two numbers and names of
// members.
constexpr std::size_t kLimitBytesMax = 128;

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

// Units as JSON shows them: dollars of policies that count money.
char* put_units(std::int64_t units, bool in_money, char* to) {
    if (!in_money) return put_number(units, to);
    std::string dollars;
    append_cost(units, true, dollars);
    return put(std::string_view(dollars), to);
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
    const bool in_money = texts.unit == http::RateLimitItem::Unit::microdollars;
    if (in_money || (item.tier != nullptr && item.tier->by_claims)) {
        to = put_units(limit.quota, in_money, put(R"(","quota":)", to));
        to = put(R"(,"left":)", to);
    } else {
        to = put(std::string_view(texts.json_quota), to);
    }
    to = verdict.is_current ? put_units(std::min(verdict.remaining, limit.quota), in_money, to)
                            : put("null", to);
    to = put(R"(,"reset_ms":)", to);
    to = verdict.tells_next_unit(limit) ? put_number(milliseconds_up(verdict.next_unit), to)
                                        : put("null", to);
    if (in_money) to = put(R"(,"unit":"usd")", to);
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
        if (const auto large = ask::refused_as_too_large(charge)) {
            out += R"(,"detail":)";
            append_json_string(ask::text_of(rules, *large), out);
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

std::string settled_problem_text(std::string_view costs, bool is_list,
                                 std::string_view request_id) {
    constexpr int kConflict = 409;
    const std::string detail = "The reservation is settled already, with the cost" +
                               std::string(is_list ? "s " : " ") + std::string(costs) + ".";
    std::string text = problem_text(kConflict, detail, request_id);
    text.pop_back();  // the brace
    text.append(is_list ? R"(,"costs":)" : R"(,"cost":)").append(costs).append("}");
    return text;
}

}  // namespace tidegate::faces
