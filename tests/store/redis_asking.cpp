#include "store/redis_asking.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include <hiredis/hiredis.h>

#include "store/charge_script.hpp"
#include "store/refund.hpp"
#include "store/scripts.hpp"

namespace tidegate::test {
namespace {

// Reads packed numbers of the machine's own order, one after the other.
class Bytes {
  public:
    explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

    template <class Number>
    Number next() {
        Number number{};
        if (bytes_.size() < sizeof(number)) throw std::runtime_error("a state that is cut");
        std::memcpy(&number, bytes_.data(), sizeof(number));
        bytes_.remove_prefix(sizeof(number));
        return number;
    }

    bool at_end() const { return bytes_.empty(); }

  private:
    std::string_view bytes_;
};

Reply sent(RedisSubject& redis, const std::string& command) {
    redis.connection().send(command);
    Reply reply = redis.connection().read();
    if (reply->type == REDIS_REPLY_ERROR) throw std::runtime_error(reply->str);
    return reply;
}

}  // namespace

Micros server_time(RedisSubject& redis) {
    const std::string text =
        redis.text({"EVAL",
                    "local t = redis.call('TIME') return string.format('%.0f', t[1] * "
                    "1000000 + t[2])",
                    "0"});
    return Micros{std::stoll(text)};
}

std::int64_t ttl_ms(RedisSubject& redis, const std::string& key) {
    return std::stoll(redis.text({"PTTL", key}));
}

std::string written(const limit::Verdict& verdict) {
    std::ostringstream out;
    out << (verdict.admitted ? "admitted" : "denied")
        << (verdict.shadow_admitted ? "" : ", not by shadow") << ", retry "
        << verdict.retry_after.count() << ", wait " << verdict.wait.count() << ", earliest "
        << verdict.earliest.count();
    for (const limit::LimitVerdict& one : verdict.limits) {
        out << " [" << one.remaining << " next " << one.next_unit.count()
            << (one.denied ? " denied]" : "]");
    }
    return out.str();
}

std::vector<limit::Verdict> charge_together(RedisSubject& redis,
                                            std::span<const limit::Charge> charges,
                                            std::string_view prefix, std::optional<Micros> now,
                                            const redis::Script* script) {
    std::string command;
    store::append_charge_command(charges, prefix, now, command);
    if (script != nullptr) {
        // *N, $7, EVALSHA, $40, then the digest.
        const std::size_t at = command.find("$40\r\n") + 5;
        command.replace(at, script->sha1.size(), script->sha1);
    }
    const Reply reply = sent(redis, command);
    std::vector<limit::Verdict> verdicts(charges.size());
    std::vector<limit::Verdict*> places;
    for (limit::Verdict& verdict : verdicts) places.push_back(&verdict);
    if (!store::read_charge_reply({reply->str, reply->len}, charges, places)) {
        throw std::runtime_error("a reply that is no verdict on the charges");
    }
    return verdicts;
}

limit::Verdict charge_as(RedisSubject& redis, const limit::Charge& charge, std::string_view prefix,
                         Micros now, const redis::Script* script) {
    return charge_together(redis, {&charge, 1}, prefix, now, script)[0];
}

std::vector<std::optional<limit::Verdict>> charge_mixed(RedisSubject& redis,
                                                        std::span<const limit::Charge> charges,
                                                        std::string_view prefix, Micros now) {
    std::string command;
    store::append_mixed_command(charges, prefix, now, command);
    const Reply reply = sent(redis, command);
    std::vector<limit::Verdict> verdicts(charges.size());
    std::vector<limit::Verdict*> places;
    for (limit::Verdict& verdict : verdicts) places.push_back(&verdict);
    std::vector<store::Mixed> answers;
    if (!store::read_mixed_reply({reply->str, reply->len}, charges, places, answers)) {
        throw std::runtime_error("a reply that is no verdict on the charges");
    }
    std::vector<std::optional<limit::Verdict>> out;
    for (std::size_t i = 0; i < charges.size(); ++i) {
        if (answers[i] == store::Mixed::unreadable)
            throw std::runtime_error("an unreadable verdict");
        const bool decided = answers[i] == store::Mixed::decided;
        out.push_back(decided ? std::optional(verdicts[i]) : std::nullopt);
    }
    return out;
}

void give_back_as(RedisSubject& redis, const limit::Refund& refund, std::string_view prefix,
                  Micros now) {
    std::string command;
    if (store::append_refund_command(refund, prefix, now, command)) sent(redis, command);
}

void renew(RedisSubject& redis, const limit::Charge& charge, std::optional<Micros> now) {
    std::string command;
    if (store::append_renew_command(charge, "t:", now, command)) sent(redis, command);
}

State taken_apart(std::string_view value) {
    constexpr std::size_t kLayoutBytes = 4;
    constexpr std::size_t kHeadBytes = 16;  // and of each record:
    constexpr std::size_t kRecordBytes = 28;
    State state;
    state.layout = Bytes(value.substr(std::max(value.size(), kLayoutBytes) - kLayoutBytes))
                       .next<std::uint32_t>();
    state.records.resize(state.layout & 0xff);
    const std::size_t head_bytes = kHeadBytes + kRecordBytes * state.records.size();
    if (value.size() < head_bytes) throw std::runtime_error("a state that is cut");
    Bytes head(value.substr(value.size() - head_bytes));
    for (StateRecord& record : state.records) record.units = head.next<std::uint32_t>();
    state.generation = head.next<std::uint32_t>();
    state.expiry = head.next<double>();
    std::vector<std::pair<std::uint16_t, std::uint16_t>> counts;  // marks, and how many are gone
    for (StateRecord& record : state.records) {
        record.ends = head.next<double>();
        record.oldest = head.next<double>();
        record.base = head.next<std::uint32_t>();
        const auto marks = head.next<std::uint16_t>();
        counts.emplace_back(marks, head.next<std::uint16_t>());
    }
    Bytes bytes(value.substr(0, value.size() - head_bytes));
    std::vector<std::uint8_t> sizes;
    for (StateRecord& record : state.records) {
        record.id = bytes.next<std::uint32_t>();
        sizes.push_back(bytes.next<std::uint8_t>());
    }
    constexpr std::uint8_t kMoneyMark = 10;
    // Of money modulo 2^32, as of all others.
    const auto low = [](double number) {
        return static_cast<std::uint32_t>(static_cast<std::uint64_t>(number));
    };
    for (std::size_t k = state.records.size(); k-- > 0;) {
        if (sizes[k] == kMoneyMark) {
            state.records[k].units = low(bytes.next<double>());
            state.records[k].base = low(bytes.next<double>());
        }
        for (int mark = 0; mark < counts[k].first; ++mark) {
            const auto total =
                sizes[k] == kMoneyMark ? low(bytes.next<double>()) : bytes.next<std::uint32_t>();
            const double label =
                sizes[k] == 12 ? bytes.next<double>() : bytes.next<std::uint16_t>();
            if (mark >= counts[k].second) state.records[k].marks.emplace_back(total, label);
        }
    }
    if (!bytes.at_end()) throw std::runtime_error("a state with more than its marks");
    return state;
}

std::string written(const State& state) {
    std::ostringstream out;
    out.precision(17);
    out << "generation " << state.generation << ", expiry " << state.expiry;
    for (const StateRecord& record : state.records) {
        out << "\n  " << record.id << ": " << record.units << " units, ends " << record.ends
            << ", oldest " << record.oldest << ", base " << record.base;
        for (const auto& [total, label] : record.marks) out << " (" << total << " " << label << ")";
    }
    return out.str();
}

}  // namespace tidegate::test
