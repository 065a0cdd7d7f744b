// What a process and the one that takes its place say to each other: an object of JSON each, of
// which a reader of another version leaves aside what it does not know. Pure.
//
//   former -> new   hello, listener..., admin, offered
//   new -> former   started: it has read its configuration
//   new -> former   ready: it has opened and fetched all that it needs
//   former -> new   tickets..., counts, go: it accepts no more connections
//   new -> former   accepting: it does
//   former -> new   leaving: it will not accept again
//
// If the former process ends before `go`, it has crashed: the new one accepts all the same. If the
// new one ends before `accepting`, the former one accepts again. A former process that goes on says
// `stop`, and ends the new one.
//
// Versions speak with each other: steps and members are added, and never get another meaning.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "limit/limit.hpp"
#include "tls/ticket_keys.hpp"

namespace tidegate::app {

enum class HandoverStep : std::uint8_t {
    unknown,  // of another version
    hello,
    listener,  // with its sockets
    admin,     // with its socket
    offered,   // no more listeners
    ready,
    tickets,
    counts,  // with a file that holds them
    go,
    accepting,
    started,
    leaving,
    stop,
};

using MadeTicketKeys = std::vector<std::pair<TicketKey, TicketKeys::Time>>;

// Each step has some of these.
struct HandoverNote {
    HandoverStep step = HandoverStep::unknown;
    std::string version{};          // hello
    limit::Micros clock_offset{0};  // hello: see store::process_clock_offset()
    pid_t pid = 0;                  // hello, started: of the process that says it
    std::string address{};          // listener, admin, tickets: as the configuration has it
    MadeTicketKeys ticket_keys{};   // tickets
};

std::string to_text(const HandoverNote& note);
// Nothing: it is none.
std::optional<HandoverNote> parse_handover_note(std::string_view text);

}  // namespace tidegate::app
