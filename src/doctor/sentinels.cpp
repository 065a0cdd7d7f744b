#include "doctor/sentinels.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "doctor/parallel.hpp"
#include "doctor/redis_talk.hpp"

namespace tidegate::doctor {

namespace {

constexpr std::string_view kSection = "store.redis.sentinel";
constexpr const char* kRights =
    "of the sentinel: ACL SETUSER {} +auth +ping +subscribe +sentinel|get-master-addr-by-name "
    "+sentinel|masters &+switch-master";

// What one of them says.
struct Word {
    std::optional<redis::MasterAddress> master;
    std::int64_t quorum = 0;
    std::int64_t sentinels = 0;  // that it knows, itself included; 0: not told
    std::int64_t replicas = 0;
    std::string flags;
};

const Answer* entry_of(const Answer& masters, std::string_view name) {
    const auto found =
        std::find_if(masters.items.begin(), masters.items.end(),
                     [&](const Answer& entry) { return entry.value_of("name") == name; });
    return found == masters.items.end() ? nullptr : &*found;
}

std::optional<redis::MasterAddress> master_of(const Answer& answer) {
    if (answer.kind != Answer::Kind::list) return std::nullopt;
    redis::SentinelReply reply{.kind = redis::SentinelReply::Kind::list, .text = {}, .items = {}};
    for (const Answer& item : answer.items) reply.items.push_back(item.text);
    return redis::master_of(reply);
}

Word read_entry(const Answer& entry, Word word) {
    const auto number = [&](std::string_view name) {
        return parse_decimal(entry.value_of(name)).value_or(0);
    };
    word.quorum = number("quorum");
    word.sentinels = number("num-other-sentinels") + 1;
    word.replicas = number("num-slaves");
    word.flags = entry.value_of("flags");
    return word;
}

void refused(const Answer& answer, const config::SentinelSettings& settings, Findings& findings) {
    findings.fault("sentinel.rights",
                   "it refuses to be asked: " + shown_error(answer.text, settings.password),
                   fmt::format(fmt::runtime(kRights),
                               settings.username.empty() ? "default" : settings.username));
}

Word ask_sentinel(const config::SentinelSettings& settings, const Station& station,
                  const Patience& patience, Findings& findings) {
    Word word;
    RedisTalk talk(patience);
    if (!talk.open(station, findings)) return word;
    const Answer address = talk.ask({"SENTINEL", "get-master-addr-by-name", settings.master});
    const Answer masters = talk.ask({"SENTINEL", "MASTERS"});
    if (talk.is_lost()) {
        findings.fault("redis.answers", "it stopped answering: " + talk.why_lost(), "see its log");
        return word;
    }
    if (address.is_error("ERR unknown command")) {
        findings.fault("sentinel.mode", "it is no sentinel",
                       fmt::format("correct {}.nodes; sentinels listen on port 26379", kSection));
        return word;
    }
    if (address.is_error() || masters.is_error()) {
        refused(address.is_error() ? address : masters, settings, findings);
    }
    word.master = master_of(address);
    if (const Answer* const entry = entry_of(masters, settings.master)) {
        return read_entry(*entry, std::move(word));
    }
    if (!word.master && !address.is_error()) {
        std::vector<std::string> names;
        for (const Answer& one : masters.items)
            names.push_back(quote(without_secret(one.value_of("name"), settings.password)));
        findings.fault(
            "sentinel.master",
            fmt::format("it knows no master {}; it watches {}", quote(settings.master),
                        names.empty() ? "nobody" : fmt::format("{}", fmt::join(names, ", "))),
            fmt::format("correct {}.master, or have it watch that master (SENTINEL MONITOR)",
                        kSection));
    }
    return word;
}

// The address that most of them name.
std::optional<redis::MasterAddress> elect(const std::vector<Word>& words, Findings& findings) {
    std::map<std::string, std::pair<int, redis::MasterAddress>> votes;
    for (const Word& word : words) {
        if (!word.master) continue;
        auto& [count, address] = votes[word.master->to_string()];
        ++count;
        address = *word.master;
    }
    if (votes.empty()) return std::nullopt;
    const auto most = std::max_element(
        votes.begin(), votes.end(),
        [](const auto& a, const auto& b) { return a.second.first < b.second.first; });
    if (votes.size() > 1) {
        std::vector<std::string> names;
        names.reserve(votes.size());
        for (const auto& [name, vote] : votes) {
            names.push_back(fmt::format("{} ({})", name, vote.first));
        }
        findings.warning("sentinel.master",
                         fmt::format("they name different masters: {}", fmt::join(names, ", ")),
                         "a failover may be under way: look again; if it stays so, see whether the "
                         "sentinels reach each other");
    }
    return most->second.second;
}

// Whether they could have another master elected.
void judge_quorum(const std::vector<Word>& words, std::size_t nodes, Findings& findings) {
    Word most;
    std::int64_t answered = 0;
    for (const Word& word : words) {
        if (word.sentinels == 0) continue;
        ++answered;
        if (word.sentinels > most.sentinels) most = word;
    }
    if (answered == 0) return;
    const std::int64_t majority = most.sentinels / 2 + 1;
    const std::int64_t needed = std::max(most.quorum, majority);
    const std::string text = fmt::format("{} of {} configured answer; they know of {}, quorum {}",
                                         answered, nodes, most.sentinels, most.quorum);
    if (most.quorum > most.sentinels) {
        findings.fault("sentinel.quorum", text + ": more than there are, so nobody ever takes over",
                       "SENTINEL SET <master> quorum <number>, or start more sentinels");
    } else if (most.sentinels < 3) {
        findings.warning("sentinel.quorum", text + ": when one is lost, nobody takes over",
                         "run three or more, on machines of their own");
    } else if (answered < std::min(needed, static_cast<std::int64_t>(nodes))) {
        findings.warning("sentinel.quorum", fmt::format("{}: a failover needs {}", text, needed),
                         "start the others, or see why they are not reached from here");
    } else {
        findings.ok("sentinel.quorum", text);
    }
    if (most.flags.find("o_down") != most.flags.npos ||
        most.flags.find("s_down") != most.flags.npos) {
        findings.fault("sentinel.master", "they say that the master is down",
                       "a failover may be under way: look again");
    }
    if (most.replicas == 0) {
        findings.warning("sentinel.replicas", "the master has no replica that could take over",
                         "start one: `replicaof` the master");
    }
}

}  // namespace

SentinelsFound examine_sentinels(const config::SentinelSettings& settings,
                                 std::shared_ptr<const TlsClient> tls, const Patience& patience) {
    std::vector<Word> words(settings.nodes.size());
    SentinelsFound found;
    Findings each = in_parallel(settings.nodes.size(), [&](std::size_t index) {
        const Station station{
            settings.nodes[index],        settings.username, settings.password, tls,
            "store.redis.sentinel.nodes", "sentinel"};
        Findings findings(station.name());
        words[index] = ask_sentinel(settings, station, patience, findings);
        return findings;
    });
    Findings all("sentinels");
    found.master = elect(words, all);
    if (found.master) all.ok("sentinel.master", "the master is at " + found.master->to_string());
    judge_quorum(words, settings.nodes.size(), all);
    // One that is away is made up for by the others.
    found.findings.append(found.master ? std::move(each).at_most(Severity::warning)
                                       : std::move(each));
    found.findings.append(std::move(all));
    return found;
}

}  // namespace tidegate::doctor
