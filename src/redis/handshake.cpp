#include "redis/handshake.hpp"

#include <algorithm>
#include <utility>

#include "base/utf8.hpp"
#include "redis/master_watch.hpp"
#include "redis/resp.hpp"

namespace tidegate::redis {

std::string ClientOptions::address() const {
    if (master_watch) return "the master " + quote(master_watch->master_name());
    if (!unix_path.empty()) return "unix:" + unix_path;
    return NodeAddress{host, static_cast<std::uint16_t>(port)}.to_string();
}

std::string ClientOptions::advice(std::string_view error) const {
    if (rights.empty() || !is_denied(error)) return {};
    return "; give its Redis user these rights: " + rights;
}

Handshake::Handshake(const ClientOptions& options, bool after_replica)
    : options_(options), checks_writes_(after_replica) {
    if (!options.password.empty()) {
        add(Kind::setup, "the password", auth_command(options.username, options.password));
    }
    if (options.database != 0) {
        const std::string database = std::to_string(options.database);
        add(Kind::setup, "database " + database, resp({"SELECT", database}));
    }
    if (options.master_watch) add(Kind::role, "ROLE", resp({"ROLE"}));
    if (options.in_cluster) add(Kind::setup, "CLUSTER NODES", resp({"CLUSTER", "NODES"}));
    for (const Script* script : options.scripts) {
        add(Kind::setup, "the script " + std::string(script->name),
            resp({"SCRIPT", "LOAD", script->text}));
    }
}

void Handshake::add(Kind kind, std::string what, std::string command) {
    commands_.push_back({kind, std::move(what), std::move(command)});
}

std::optional<Handshake::Step> Handshake::next(bool is_down) {
    if (next_ == commands_.size() && is_down && !std::exchange(is_pinged_, true)) {
        add(Kind::ping, "PING", resp({"PING"}));
    }
    if (next_ == commands_.size() && std::exchange(checks_writes_, false)) {
        add(Kind::write, "PEXPIRE", resp({"PEXPIRE", options_.absent_key, "1"}));
    }
    if (next_ == commands_.size()) return std::nullopt;
    Command& command = commands_[next_++];
    const bool as_a_decision = command.kind == Kind::ping || command.kind == Kind::write;
    return Step{std::move(command.resp),
                as_a_decision ? options_.timeout : std::max(options_.timeout, kHandshakeTime)};
}

std::optional<ConnectFault> Handshake::on_reply(const Reply& reply) {
    const Command& command = commands_[next_ - 1];
    const bool is_error = reply.kind == Reply::Kind::error;
    const std::string_view error = is_error ? reply.text : std::string_view();
    const std::string shown(shown_error(error));
    // A user that may not PING has an answer, too; so has one that may not PEXPIRE.
    if (command.kind == Kind::ping && !is_temporary(error)) return std::nullopt;
    if (command.kind == Kind::write && !is_replica_error(error)) return std::nullopt;
    if (command.kind == Kind::ping || command.kind == Kind::write) {
        return ConnectFault{false, shown};
    }
    if (wants_password(error)) {
        return ConnectFault{true, "it wants a password, and none is configured: " + shown};
    }
    if (is_error) {
        return ConnectFault{!is_temporary(error),
                            command.what + " was refused: " + shown + options_.advice(error)};
    }
    if (command.kind != Kind::role) return std::nullopt;
    const std::string_view role = reply.kind == Reply::Kind::array ? reply.text : "";
    is_master_ = role == kMasterRole;
    if (is_master_) return std::nullopt;
    return ConnectFault{false, "it is not a master, its role is " + quote(role)};
}

}  // namespace tidegate::redis
