#include "doctor/redis_info.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/quote.hpp"
#include "base/units.hpp"
#include "doctor/thresholds.hpp"

namespace tidegate::doctor {

namespace {

constexpr std::uint64_t kNearlyFullPercent = 90;

bool is_nearly(std::uint64_t used, std::uint64_t most) {
    return used / kNearlyFullPercent >= most / 100 && used >= most / 100 * kNearlyFullPercent;
}

}  // namespace

RedisInfo::RedisInfo(std::string_view text) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        const std::size_t colon = line.find(':');
        if (line.starts_with('#') || colon == line.npos) continue;
        fields_.emplace(line.substr(0, colon), line.substr(colon + 1));
    }
}

std::string_view RedisInfo::text(std::string_view name) const {
    const auto found = fields_.find(name);
    return found == fields_.end() ? std::string_view() : found->second;
}

std::optional<std::uint64_t> RedisInfo::number(std::string_view name) const {
    const auto number = parse_decimal(text(name));
    if (!number) return std::nullopt;
    return static_cast<std::uint64_t>(*number);
}

void check_memory(const RedisInfo& info, Findings& findings) {
    const std::uint64_t used = info.number("used_memory").value_or(0);
    const std::uint64_t most = info.number("maxmemory").value_or(0);
    const std::string_view policy = info.text("maxmemory_policy");
    const std::uint64_t evicted = info.number("evicted_keys").value_or(0);
    const bool evicts = !policy.empty() && policy != "noeviction";
    const std::string memory = most == 0
                                   ? fmt::format("{} used, no maxmemory", size_text(used))
                                   : fmt::format("{} of {} used", size_text(used), size_text(most));
    if (evicts && most != 0) {
        findings.warning(
            "redis.eviction",
            fmt::format("maxmemory-policy {} evicts counts when memory is full, and limits start "
                        "again ({}; {} keys evicted so far)",
                        quote(policy), memory, evicted),
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf; a Redis of its "
            "own for Tidegate, if others need eviction");
    } else if (evicts) {
        findings.note(
            "redis.eviction",
            fmt::format("maxmemory-policy {} would evict counts if maxmemory were set ({})",
                        quote(policy), memory),
            "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf");
    } else if (most != 0 && is_nearly(used, most)) {
        findings.warning(
            "redis.memory",
            memory + ": when it is full, Redis refuses writes and on_store_failure decides",
            "raise maxmemory, or remove keys of other programs");
    } else {
        findings.ok("redis.memory",
                    policy.empty() ? memory : fmt::format("{}, {}", memory, policy));
    }
}

void check_persistence(const RedisInfo& info, const std::optional<std::string>& save,
                       limit::Micros longest, Findings& findings) {
    const bool appends = info.text("aof_enabled") == "1";
    const bool saves = save && !save->empty();
    const auto failed = [&](std::string_view field) { return info.text(field) == "err"; };
    if ((appends && failed("aof_last_write_status")) ||
        (saves && failed("rdb_last_bgsave_status"))) {
        findings.warning("redis.persistence",
                         "its last save to disk failed, so it may refuse writes (MISCONF)",
                         "see its log, and the space and permissions of its folder");
        return;
    }
    if (appends) {
        findings.ok("redis.persistence", "counts survive a restart (appendonly)");
        return;
    }
    const std::string kept =
        longest.count() == 0 ? ""
                             : fmt::format("; the longest window is {}", format_duration(longest));
    const std::string advice =
        "write `appendonly yes` in redis.conf if counts have to survive a restart";
    if (saves) {
        findings.note("redis.persistence",
                      fmt::format("a restart loses the counts since the last snapshot (save {}){}",
                                  quote(*save), kept),
                      advice);
    } else if (save) {
        findings.note("redis.persistence",
                      "a restart loses all counts, and every limit starts again" + kept, advice);
    } else {
        findings.note("redis.persistence",
                      "no appendonly, and CONFIG does not show whether there are snapshots: a "
                      "restart loses counts" +
                          kept,
                      advice);
    }
}

void check_connections(const RedisInfo& info, Findings& findings) {
    const auto connected = info.number("connected_clients");
    const auto most = info.number("maxclients");
    if (!connected || !most || *most == 0 || !is_nearly(*connected, *most)) return;
    findings.warning("redis.connections",
                     fmt::format("{} of {} connections are in use", *connected, *most),
                     "raise `maxclients`; each thread of Tidegate needs one connection");
}

}  // namespace tidegate::doctor
