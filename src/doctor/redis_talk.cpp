#include "doctor/redis_talk.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "doctor/judge.hpp"
#include "doctor/trouble.hpp"
#include "redis/client.hpp"

namespace tidegate::doctor {

namespace {

std::string addresses_text(const Endpoints& endpoints) {
    std::vector<std::string> texts;
    for (const auto& endpoint : endpoints) texts.push_back(endpoint_text(endpoint));
    return fmt::format("{}", fmt::join(texts, ", "));
}

bool wants_password(const Answer& answer) {
    return answer.is_error("NOAUTH") ||
           (answer.is_error() && answer.text.find("unauthenticated") != std::string::npos);
}

// A server that has no password takes one for a mistake, and so does Tidegate.
bool has_no_password(const Answer& answer) {
    return answer.text.find("without any password") != std::string::npos ||
           answer.text.find("no password is set") != std::string::npos;
}

}  // namespace

std::string Station::name() const {
    return fmt::format("{} {}", kind, address.to_string());
}

std::string Station::certificate_advice() const {
    // `tls` is the neighbour of `url`, `nodes` and `cluster`.
    return fmt::format("write `certificate` and `key` in {}.tls",
                       section.substr(0, section.rfind('.')));
}

bool RedisTalk::open(const Station& station, Findings& findings) {
    std::string change = fmt::format("correct {}, or start it", station.section);
    const auto endpoints = find_endpoints(station.address, patience_.next());
    if (!endpoints) {
        findings.fault("redis.name", endpoints.error(),
                       fmt::format("correct {}, or the name server", station.section));
        return false;
    }
    std::vector<std::string> faults;
    for (const auto& endpoint : *endpoints) {
        std::string fault;
        auto wire = open_wire(station, endpoint, fault);
        if (!fault.empty()) {
            if (wire->wants_certificate()) change = station.certificate_advice();
            faults.push_back(endpoints->size() == 1
                                 ? fault
                                 : fmt::format("{}: {}", endpoint_text(endpoint), fault));
        } else if (wire_ == nullptr) {
            wire_ = std::move(wire);
        }
    }
    const Severity severity = wire_ == nullptr ? Severity::fault : Severity::warning;
    for (std::string& fault : faults) {
        findings.add(severity, "redis.reachable", std::move(fault),
                     wire_ == nullptr ? change
                                      : "take this address out of the name, or start what should "
                                        "be there: a thread that tries it first waits for it");
    }
    if (wire_ == nullptr) return false;
    findings.ok("redis.reachable",
                station.address.is_unix() ? "reached" : "reached at " + addresses_text(*endpoints));
    if (const auto until = wire_->certificate_until()) {
        judge_certificate("redis.certificate", "its certificate", *until,
                          std::chrono::system_clock::now(), findings);
    }
    return say_password(station, findings) && greet(station, findings);
}

std::unique_ptr<Wire> RedisTalk::open_wire(const Station& station,
                                           const StreamProtocol::endpoint& endpoint,
                                           std::string& fault) {
    auto wire = std::make_unique<Wire>();
    fault = wire->connect(endpoint, patience_.next());
    if (fault.empty() && station.tls != nullptr && !station.address.is_unix()) {
        TlsPtr tls = station.tls->connection_to(station.address.host);
        fault = tls == nullptr ? "its name cannot be asked for in TLS"
                               : wire->encrypt(std::move(tls), patience_.next());
    } else if (!fault.empty()) {
        fault = "it cannot be connected to: " + fault;
    }
    return wire;
}

bool RedisTalk::say_password(const Station& station, Findings& findings) {
    if (station.password.empty()) return true;
    const Answer answer = station.username.empty()
                              ? ask({"AUTH", station.password})
                              : ask({"AUTH", station.username, station.password});
    if (is_lost()) {
        findings.fault("redis.answers", "no answer to the password: " + lost_,
                       wire_->wants_certificate()
                           ? station.certificate_advice()
                           : "see whether it hangs, or whether something else listens there");
    } else if (answer.is_error() && has_no_password(answer)) {
        findings.fault("redis.password", "it has no password, and one is configured",
                       fmt::format("set one there, or take it out of {}", station.section));
    } else if (answer.is_error()) {
        findings.fault("redis.password",
                       "the password was refused: " + shown_error(answer.text, station.password),
                       fmt::format("correct `username` and `password` in {}", station.section));
    }
    return !answer.is_error();
}

// Whether it answers, and what kept it from doing so.
bool RedisTalk::greet(const Station& station, Findings& findings) {
    const Answer answer = ask({"PING"});
    if (is_lost()) {
        findings.fault("redis.answers", "no answer: " + lost_,
                       station.tls == nullptr ? "see whether it hangs, or wants TLS (`rediss://`)"
                       : wire_->wants_certificate() ? station.certificate_advice()
                                                    : "see whether it hangs");
        return false;
    }
    if (wants_password(answer)) {
        findings.fault("redis.password", "it wants a password, and none is configured",
                       fmt::format("write `username` and `password` in {}", station.section));
        return false;
    }
    if (found_trouble(answer, findings)) return false;
    if (answer.is_error("MASTERDOWN")) {
        findings.fault("redis.role", "it is a replica that has lost its master",
                       fmt::format("name the master in {}, or write `sentinel`", station.section));
        return false;
    }
    if (answer.is_error("DENIED") || answer.is_error("ERR max number of clients")) {
        findings.fault("redis.answers",
                       "it turns us away: " + shown_error(answer.text, station.password),
                       answer.is_error("DENIED") ? "set a password, or `protected-mode no`"
                                                 : "raise `maxclients` of it");
        return false;
    }
    if (answer.kind == Answer::Kind::text || answer.is_error("NOPERM")) return true;
    findings.fault(
        "redis.answers",
        "it does not answer as Redis does: " + shown_error(answer.text, station.password),
        fmt::format("correct the address in {}", station.section));
    return false;
}

Answer RedisTalk::ask(std::initializer_list<std::string_view> words) {
    std::string command;
    redis::append_resp(words, command);
    return ask_resp(command);
}

Answer RedisTalk::ask_resp(std::string_view command) {
    const SteadyTime until = patience_.next();
    if (lost_.empty()) lost_ = wire_->write(command, until);
    std::string bytes;
    while (lost_.empty()) {
        if (auto answer = reader_.next()) return std::move(*answer);
        bytes.clear();
        if (!reader_.is_broken()) lost_ = wire_->read(bytes, until);
        if (lost_.empty() && (reader_.is_broken() || !reader_.feed(bytes))) {
            lost_ = "what it says is not Redis's protocol";
        }
    }
    return {.kind = Answer::Kind::error, .text = "(" + lost_ + ")"};
}

}  // namespace tidegate::doctor
