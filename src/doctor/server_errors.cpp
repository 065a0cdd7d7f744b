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
     "raise maxmemory, or take out what is not Tidegate's; an evicting policy would lose counts"},
    {"MISCONF", "it refuses writes, because it cannot save its data to disk",
     "see its log; room and rights of its folder, or `stop-writes-on-bgsave-error no`"},
    {"NOREPLICAS", "it refuses writes, because too few replicas follow it",
     "start them, or lower `min-replicas-to-write`"},
    {"READONLY", "it is a replica: it refuses to count", "name the master in store.redis"},
    {"CLUSTERDOWN", "its cluster is down, and it refuses everything",
     "see CLUSTER INFO; `cluster-require-full-coverage no` keeps what is covered served"},
    {"MOVED", "its slots have moved to another node meanwhile", "look again"},
    {"ASK", "its slots are moving to another node", "look again when they have"},
    {"TRYAGAIN", "its slots are moving to another node", "look again when they have"},
    {"LOADING", "it is loading its data and decides nothing until then",
     "wait; if it takes long, see its log and the size of its data", "redis.answers"},
    {"BUSY", "a script keeps it busy, so it answers no other command",
     "SCRIPT KILL (or FUNCTION KILL), and find out whose script it is", "redis.answers"},
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
