// How commands find the admin listener of a running proxy, in its configuration or on the command
// line, and ask it until a signal stops them.
#pragma once

#include <signal.h>

#include <chrono>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "config/config.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace tidegate::cli {

struct AdminPlace {
    config::Address address;  // a wildcard means this machine
    std::string token;        // empty: none is sent
    std::string origin;       // behind the address in messages; empty: the user gave the address
};

struct AdminReply {
    int status = 0;
    std::string body;
    std::optional<int> exit_code{};  // what the command ends with, as the proxy says it
};

// `GET target` or `POST target`, without a body. Blocks, for at most `patience`. A sentence says
// why there is no answer; it holds no secret.
Result<AdminReply, std::string> ask_admin(const AdminPlace& place, bool post,
                                          std::string_view target,
                                          std::chrono::milliseconds patience);

// `text` as the value of a parameter of a query (RFC 3986 section 2.1).
std::string percent_encoded(std::string_view text);

struct AdminArguments {
    std::string file;        // empty: tidegate.yaml, or what a proxy has without configuration
    std::string admin;       // empty: as the configuration has it
    std::string token_file;  // goes with `admin`; empty: no token
};

// Adds `-c`, `--admin` and `--token-file` to `command`; `arguments` lives as long.
void add_admin_options(CLI::App& command, AdminArguments& arguments);

struct FoundAdmin : AdminPlace {
    std::string token_advice;    // what to do when the proxy wants another token
    std::string address_advice;  // what to do when another server answers there
};

// Reads only `admin` of the configuration: faults elsewhere in it do not matter. The error says why
// there is no such listener.
Result<FoundAdmin, std::string> find_admin(const AdminArguments& arguments);

// Says whether a refusal is the admin listener's. Refusals on the proxy's own port are problem
// details, too, but name the request.
bool is_admin_problem(const AdminReply& reply);

// The sentence for an answer of another server than the admin listener.
std::string stranger_text(const FoundAdmin& place, const AdminReply& reply);

// Why the listener did not do what was asked for, in words; `reply` is not 200.
std::string refusal_text(const FoundAdmin& place, const AdminReply& reply);

// Complains of `reply`, which is not 200. Returns exit_code::kWrongUse or kNoAnswer.
int complain_of_refusal(const FoundAdmin& place, const AdminReply& reply);

// The word of the answer to `/readyz`: `ready`, `starting` or `draining`. Empty: not from
// Tidegate's admin listener.
std::string readiness_of(const std::string& body);

// SIGINT and SIGTERM wait until this asks for them, and do not end the process.
class StopSignals {
  public:
    StopSignals() {
        sigemptyset(&signals_);
        sigaddset(&signals_, SIGINT);
        sigaddset(&signals_, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    }
    ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    StopSignals(const StopSignals&) = delete;
    StopSignals& operator=(const StopSignals&) = delete;

    // True if one of them comes within that time, or has come.
    bool come_within(std::chrono::milliseconds time) const {
        const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
        const timespec wait{seconds.count(), std::chrono::nanoseconds(time - seconds).count()};
        return sigtimedwait(&signals_, nullptr, &wait) > 0;
    }

  private:
    sigset_t signals_{};
    sigset_t before_{};
};

}  // namespace tidegate::cli
