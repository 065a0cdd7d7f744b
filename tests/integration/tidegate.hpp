// A Tidegate as its users start it: a program, a file, signals.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "integration/client.hpp"
#include "integration/process.hpp"
#include "integration/transport.hpp"

namespace tidegate::test {

// How the program is started, beside its configuration.
struct Invocation {
    std::vector<std::string> options{};      // further ones of `run`
    std::vector<std::string> environment{};  // `NAME=value`, beside that of the tests
    bool is_refused = false;                 // by Redis, so it starts and is not ready
};

class Tidegate {
  public:
    // Starts the program with `yaml`, to which `listen`, `admin` and `log` are added (on free
    // ports, and a file), and `threads: 2` unless it says otherwise; returns when the program is
    // ready. The listener speaks TLS where over_tls() says so, and clients do, too. Where `yaml`
    // has `listen` itself, nothing listens at port(). Throws with what it wrote to standard error
    // if it does not become so. With `admin_token`, that is the admin listener's.
    explicit Tidegate(const std::string& yaml, const std::string& admin_token = "",
                      const Invocation& invocation = {});
    // Stops it if the test did not. A sanitizer's report, a crash or a hang fails the test.
    ~Tidegate();

    std::uint16_t port() const { return port_; }
    std::uint16_t admin_port() const { return admin_port_; }
    // Where the configuration is.
    std::string file() const { return (folder_.path() / "tidegate.yaml").string(); }

    RawClient client(const std::string& from = "127.0.0.1") const { return RawClient(port_, from); }
    Message get(const std::string& path = "/", const std::string& more_fields = "",
                const std::string& from = "127.0.0.1") const {
        return http_get(port_, path, more_fields, from);
    }
    // The admin listener's answer; nothing when nothing listens there.
    std::optional<Message> admin(const std::string& path) const;
    // The value of a line of /metrics, `name{labels}` written as it is there; 0 if there is none.
    double metric(const std::string& series) const;
    // The sum over all series of `name` whose labels contain `label`.
    double metric_sum(const std::string& name, const std::string& label = "") const;

    // Writes the configuration anew, to which the same is added. Takes effect with a reload.
    void write_configuration(const std::string& yaml) const;
    // The answer to `POST /reload`.
    Message reload() const;

    void signal(int number) const { process_->signal(number); }
    std::optional<int> wait(milliseconds patience = kPatience);
    // TERM, then the exit code.
    int stop();
    bool running() { return process_->running(); }
    std::string errors() const { return process_->errors(); }
    pid_t pid() const { return process_->pid(); }
    // Most memory it ever had, in KiB.
    long peak_memory_kib() const;
    // What all its threads have spent on processors since it began.
    milliseconds processor_time() const;

    // The access log, once it has at least `lines` lines. Throws if that never comes.
    std::vector<nlohmann::json> access_log(std::size_t lines) const;

  private:
    // Ready, or started and refused by Redis where that is expected.
    bool ready() const;

    TemporaryFolder folder_;
    std::uint16_t port_;
    std::uint16_t admin_port_;
    std::string admin_token_;
    std::optional<ListenerPort> listener_;  // unless the test has its own
    std::optional<Process> process_;
    bool is_refused_ = false;    // see Invocation
    bool end_was_seen_ = false;  // by the test, which checks it
};

// What the program writes to standard error when Redis refuses it. Checks that it starts all the
// same, and is not ready. `yaml` may name an upstream that is not there.
std::string refusal_by_store(const std::string& yaml);

// `upstream: url`, one policy of the limits given (none when empty): the smallest configuration.
std::string simple(const std::string& url, const std::string& limits = "");
// `upstreams: {api: ...}` and one route that is not limited; `more` goes into the upstream.
std::string unlimited(const std::vector<std::string>& urls, const std::string& more = "");

}  // namespace tidegate::test
