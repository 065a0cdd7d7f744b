#include "doctor/redis_connection.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/utf8.hpp"
#include "doctor/thresholds.hpp"
#include "doctor/trial.hpp"
#include "redis/resp.hpp"

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

std::string without_secret(std::string_view text, std::string_view secret) {
    std::string shown;
    while (!secret.empty()) {
        const std::size_t at = text.find(secret);
        if (at == text.npos) break;
        shown.append(text.substr(0, at)).append("***");
        text.remove_prefix(at + secret.size());
    }
    return shown.append(text);
}

std::string shown_error(std::string_view error, std::string_view password) {
    return quote(without_secret(redis::without_arguments(error), password));
}

namespace {

std::string addresses_text(const Endpoints& endpoints) {
    std::vector<std::string> texts;
    for (const auto& endpoint : endpoints) texts.push_back(endpoint_text(endpoint));
    return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

std::string RedisTarget::name() const {
    return fmt::format("{} {}", kind, address.to_string());
}

std::string RedisTarget::certificate_advice() const {
    // `tls` is the neighbour of `url`, `nodes` and `cluster`.
    return fmt::format("write `certificate` and `key` in {}.tls",
                       section.substr(0, section.rfind('.')));
}

bool RedisConnection::open(const RedisTarget& target, Findings& findings) {
    const auto endpoints = find_endpoints(target.address, time_limit_.for_step());
    if (!endpoints) {
        findings.fault("redis.name", endpoints.error(),
                       fmt::format("correct {}, or the name server", target.section));
        return false;
    }
    if (!connect(target, *endpoints, findings)) return false;
    findings.ok("redis.reachable",
                target.address.is_unix() ? "reached" : "reached at " + addresses_text(*endpoints));
    if (const auto until = connection_->certificate_until()) {
        check_certificate("redis.certificate", "its certificate", *until,
                          std::chrono::system_clock::now(), findings);
    }
    return authenticate(target, findings) && ping(target, findings);
}

bool RedisConnection::connect(const RedisTarget& target, const Endpoints& endpoints,
                              Findings& findings) {
    std::string change = fmt::format("correct {}, or start it", target.section);
    std::vector<std::string> faults;
    for (const auto& endpoint : endpoints) {
        auto connection = std::make_shared<redis::ServerConnection>(
            io_.get_executor(), target.address.is_unix() ? nullptr : target.tls,
            target.address.host);
        const Fault fault = connect_to(endpoint, *connection);
        if (fault.wants_certificate) change = target.certificate_advice();
        if (!fault.message.empty()) {
            faults.push_back(endpoints.size() == 1
                                 ? fault.message
                                 : fmt::format("{}: {}", endpoint_text(endpoint), fault.message));
        } else if (connection_ == nullptr) {
            connection_ = std::move(connection);
        }
    }
    for (std::string& fault : faults) {
        if (connection_ == nullptr) {
            findings.fault("redis.reachable", std::move(fault), change);
        } else {
            findings.warning("redis.reachable", std::move(fault),
                             "remove this address from the name, or start the server there: a "
                             "thread that tries it first waits for a timeout");
        }
    }
    return connection_ != nullptr;
}

RedisConnection::Fault RedisConnection::connect_to(const StreamProtocol::endpoint& endpoint,
                                                   redis::ServerConnection& connection) {
    connection.expect_within(time_limit_.for_step());
    Fault fault = wait_for(io_, connection.connect(endpoint));
    if (!fault.message.empty()) {
        fault.message = "cannot connect to it: " + fault.message;
        return fault;
    }
    connection.expect_within(time_limit_.for_step());
    return wait_for(io_, connection.encrypt());
}

bool RedisConnection::authenticate(const RedisTarget& target, Findings& findings) {
    if (target.password.empty()) return true;
    const RespValue reply = ask_resp(redis::auth_command(target.username, target.password));
    if (is_lost()) {
        findings.fault("redis.answers", "no answer to the password: " + why_lost_,
                       wants_certificate_
                           ? target.certificate_advice()
                           : "check whether it hangs, or whether another program listens there");
    } else if (reply.is_error() && redis::has_no_password(reply.text)) {
        // Tidegate itself treats that as a mistake, too.
        findings.fault("redis.password", "it has no password, but the configuration has one",
                       fmt::format("set a password there, or remove it from {}", target.section));
    } else if (reply.is_error()) {
        findings.fault("redis.password",
                       "the password was refused: " + shown_error(reply.text, target.password),
                       fmt::format("correct `username` and `password` in {}", target.section));
    }
    return !reply.is_error();
}

// Whether it answers, and the reason if it does not.
bool RedisConnection::ping(const RedisTarget& target, Findings& findings) {
    const RespValue reply = ask({"PING"});
    if (is_lost()) {
        findings.fault("redis.answers", "no answer: " + why_lost_,
                       target.tls == nullptr ? "check whether it hangs, or needs TLS (`rediss://`)"
                       : wants_certificate_  ? target.certificate_advice()
                                             : "check whether it hangs");
        return false;
    }
    if (reply.is_error() && redis::wants_password(reply.text)) {
        findings.fault("redis.password", "it wants a password, and the configuration has none",
                       fmt::format("write `username` and `password` in {}", target.section));
        return false;
    }
    if (report_server_error(reply, findings)) return false;
    if (reply.is_error("MASTERDOWN")) {
        findings.fault("redis.role", "it is a replica that has lost its master",
                       fmt::format("name the master in {}, or write `sentinel`", target.section));
        return false;
    }
    if (reply.is_error("DENIED") || reply.is_error("ERR max number of clients")) {
        findings.fault("redis.answers",
                       "it refuses the connection: " + shown_error(reply.text, target.password),
                       reply.is_error("DENIED") ? "set a password, or `protected-mode no`"
                                                : "raise its `maxclients`");
        return false;
    }
    if (reply.kind == RespValue::Kind::text || reply.is_error("NOPERM")) return true;
    findings.fault("redis.answers",
                   "it does not answer like Redis: " + shown_error(reply.text, target.password),
                   fmt::format("correct the address in {}", target.section));
    return false;
}

RespValue RedisConnection::ask(std::initializer_list<std::string_view> words) {
    return ask_resp(redis::resp(words));
}

RespValue RedisConnection::ask_resp(std::string command) {
    if (!is_lost()) {
        connection_->expect_within(time_limit_.for_step());
        auto reply = wait_for(io_, connection_->ask(std::move(command)));
        if (reply) return std::move(*reply);
        why_lost_ = reply.error().message;
        wants_certificate_ = reply.error().wants_certificate;
    }
    return {.kind = RespValue::Kind::error, .text = "(" + why_lost_ + ")"};
}

}  // namespace tidegate::doctor
