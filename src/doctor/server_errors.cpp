#include "doctor/server_errors.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace tidegate::doctor {

namespace {

struct ServerError {
    std::string_view code;
    std::string_view what;
    std::string_view advice;
    std::string_view check = "redis.writes";
};
constexpr ServerError kServerErrors[] = {
    {"OOM", "its memory is full: it refuses to count",
     "raise maxmemory, or remove keys of other programs; an evicting policy would lose counts"},
    {"MISCONF", "it refuses writes, because it cannot save its data to disk",
     "see its log, and the space and permissions of its folder, or `stop-writes-on-bgsave-error "
     "no`"},
    {"NOREPLICAS", "it refuses writes, because too few replicas follow it",
     "start them, or lower `min-replicas-to-write`"},
    {"READONLY", "it is a replica: it refuses to count", "name the master in store.redis"},
    {"CLUSTERDOWN", "its cluster is down, and it refuses all commands",
     "see CLUSTER INFO; `cluster-require-full-coverage no` keeps what is covered served"},
    {"MOVED", "its slots have moved to another node", "look again"},
    {"ASK", "its slots are moving to another node", "try again when they have moved"},
    {"TRYAGAIN", "its slots are moving to another node", "try again when they have moved"},
    {"LOADING", "it is loading its data and cannot decide until it has",
     "wait; if it takes long, see its log and the size of its data", "redis.answers"},
    {"BUSY", "another script keeps it busy, so it answers no commands",
     "run SCRIPT KILL (or FUNCTION KILL), and find the program that sent the script",
     "redis.answers"},
};

}  // namespace

bool report_server_error(const redis::RespValue& reply, Findings& findings) {
    const auto* const found =
        std::find_if(std::begin(kServerErrors), std::end(kServerErrors),
                     [&](const ServerError& error) { return reply.is_error(error.code); });
    if (found == std::end(kServerErrors)) return false;
    findings.fault(found->check, std::string(found->what), std::string(found->advice));
    return true;
}

}  // namespace tidegate::doctor
