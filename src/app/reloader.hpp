// Reads the configuration again and puts it in force, whole or not at all.
//
// Runs on the main thread, which answers signals and the admin listener meanwhile: what waits for
// files or computes for long is done apart().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admin/answer.hpp"
#include "app/access_logs_trace_exporter.hpp"
#include "app/certificate_list.hpp"
#include "app/jwks_fetcher.hpp"
#include "app/metrics.hpp"
#include "app/shared_state.hpp"
#include "app/worker.hpp"
#include "base/file_work.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "net/asio.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/error_log.hpp"
#include "upstream/group.hpp"
#include "upstream/resolver_health_checks.hpp"

namespace tidegate::app {

// Where the configuration of this process comes from.
struct ConfigOrigin {
    std::string file;  // reloads read it again; empty: the configuration is built in
    std::vector<config::FileRead> files_read;
    bool is_watched = false;  // changes of these files are put in force without a signal
};

// How often the main thread looks whether work that is done apart() has ended.
inline constexpr std::chrono::milliseconds kApartPoll{2};

// For work that waits for files or computes for long: the loop goes on with signals and the admin
// listener meanwhile. Runs `work`, which owns all that it uses, on a thread of its own, and returns
// what it returns. Throws what it throws, and NoAnswerFromFile when a path does not answer within
// kFilePatience. After kFileNotice a log line, which begins with `what`, says which path it waits
// for. The caller is on the thread of `executor`; if it ends meanwhile, it does not wait for the
// work.
template <class Work>
auto apart(Executor executor, std::string what, Work work) -> Task<decltype(work())> {
    using T = decltype(work());
    const auto result = std::make_shared<std::optional<T>>();
    const FileWork under_way([result, work = std::move(work)]() mutable {  //
        result->emplace(work());
    });
    Timer pause(executor);
    bool is_told = false;
    while (!under_way.is_done()) {
        if (const auto path = under_way.overdue(kFilePatience)) {
            throw NoAnswerFromFile(no_answer_text(*path, kFilePatience));
        }
        if (const auto path = under_way.overdue(kFileNotice); path && !is_told) {
            telemetry::log(telemetry::Level::warn, "{} {}", what, waiting_text(*path));
            is_told = true;
        }
        pause.expires_after(kApartPoll);
        co_await pause.async_wait(as_values);
    }
    under_way.rethrow();
    co_return std::move(**result);
}

// In the order of a configuration.
using Groups = std::vector<upstream::GroupPtr>;

std::vector<upstream::UpstreamStatus> status_of(const Groups& groups);

// The upstreams of the process: what all threads share of each, and the main thread's watch over
// them.
class UpstreamGroups {
  public:
    UpstreamGroups(Executor executor, std::size_t workers)
        : executor_(std::move(executor)), workers_(workers) {}

    // Holds the TLS clients of a configuration's upstreams, by their positions. Null: the upstream
    // does not speak TLS, or is in use with the same settings.
    using Tls = std::vector<std::shared_ptr<const TlsClient>>;

    // The positions of the upstreams of `config` that make() makes new groups for.
    std::vector<std::size_t> new_positions(const config::Config& config) const;
    // For the upstreams at these positions. Any thread: see upstream::Group::make_tls().
    static Tls make_tls(const config::Config& config, const std::vector<std::size_t>& positions);
    // The groups for `config`, watched from now on: those in use whose settings are the same, and
    // new ones, whose names begin with the addresses that the upstream of the same name had. `tls`:
    // of make_tls(), with the groups that are in use now.
    Groups make(const config::Config& config, const Tls& tls);
    // The groups among `groups` that are not in use yet.
    Groups new_of(Groups groups) const;
    // Every name of those in use has led to an address or has been looked up in vain once.
    bool are_names_tried() const;
    // Waits until that is so, or `patience` is over.
    Task<> names_tried(std::chrono::milliseconds patience);
    // Waits until every name of `groups` has led to an address and every server has been checked
    // once, or `patience` is over.
    Task<> ready(Groups groups, std::chrono::milliseconds patience);
    // From now on `groups` are in use. All others are no longer watched.
    void use(Groups groups);
    const Groups& in_use() const { return in_use_; }

    // For /metrics.
    void fill_in(Gauges& gauges) const;

  private:
    // The group in use with that name; null: there is none.
    upstream::GroupPtr former_of(const config::Upstream& settings) const;

    const Executor executor_;
    const std::size_t workers_;
    Groups in_use_;
    std::vector<std::unique_ptr<upstream::Watch>> watches_;
};

// The error log takes its level from the configuration.
void set_log_level(config::LogLevel level);

using Workers = std::vector<std::unique_ptr<Worker>>;

// Called on the main thread, for reloads and rollbacks but not for renewals of certificates.
struct ReloadObserver {
    std::function<void()> on_begin = [] {};
    std::function<void(const admin::ReloadReport&)> on_end = [](const auto&) {};
};

class Reloader {
  public:
    // `config` was read from `origin` just now. Opens the access log, throws std::runtime_error if
    // it cannot; begins to fetch keys. All but the values outlive this.
    Reloader(Executor executor, SharedState& shared, Workers& workers,
             std::shared_ptr<const config::Config> config, ConfigOrigin origin);

    // Reads, checks and, if there is no fault, puts in force; when this returns, every worker
    // begins its requests with the new one. One after the other, in the order asked. Faults, and
    // what came of it, are logged.
    Task<admin::ReloadReport> reload();
    // Puts the configuration in force again that was in force before the last reload that changed
    // something, with users, keys and secrets as they were read for it; certificates are read
    // again. Once: then there is none until another reload. Takes turns with reloads. Faults, and
    // what came of it, are logged.
    Task<admin::ReloadReport> rollback();
    // reload() for a signal: one that waits its turn already will read what this one would.
    void reload_on_signal();
    void observe(ReloadObserver observer) { observer_ = std::move(observer); }
    // Reads the files again that the configuration in force names, and puts the certificates, keys
    // and authorities among them in force, all or none; nothing else changes, and another text of
    // the configuration waits for a reload. What came of it is logged, if anything did. False: a
    // fault keeps the former ones in force, which is logged once, however often it is found.
    Task<bool> renew_certificates();
    // To be called now and then.
    void rotate_ticket_keys() const;
    // Until every place that keys of tokens are fetched from has been tried once.
    Task<> first_keys();
    // Every name of an upstream has been looked up once, with an address or in vain.
    bool are_names_tried() const { return upstreams_.are_names_tried(); }
    // Until that is so, for a while at most.
    Task<> first_names();
    // Until every name of an upstream has led to an address and every server has been checked once,
    // for a while at most.
    Task<> first_upstreams();
    // Reloads are refused for this reason from now on; empty: no more.
    void refuse(std::string reason) { refusal_ = std::move(reason); }
    bool refuses() const { return !refusal_.empty(); }
    // A reload or a renewal is under way.
    bool is_busy() const { return busy_; }
    // From now on reloads are refused: the workers are leaving.
    void stop();
    bool is_stopped() const { return stopped_; }

    const ConfigSnapshot& snapshot() const { return *current_; }
    const config::Config& config() const { return *current_->config; }
    // Returns what `/api/config` shows.
    admin::ConfigInForce in_force() const;
    // Returns the files that the last reload has read, or the start, whether the configuration was
    // put in force or refused. After a rollback without the certificates, keys and authorities that
    // only that reload named.
    const std::vector<config::FileRead>& files_read() const { return files_read_; }
    AccessLogs& access_logs() { return access_logs_; }
    const Groups& upstreams() const { return upstreams_.in_use(); }

    // For /metrics.
    void fill_in(Gauges& gauges);

  private:
    using Faults = std::vector<config::Diagnostic>;
    using ConfigPtr = std::shared_ptr<const config::Config>;

    // A configuration that was put in force, and what it was read from.
    struct Kept {
        ConfigPtr config;  // not the pointer that requests hold, of which `former_` knows
        std::vector<config::FileRead> files;
        std::chrono::system_clock::time_point read_at;
        // Is `config`, or what the last renewal of certificates has read for it.
        CertifiedConfig certified;
    };

    enum class Change : std::uint8_t { reload, rollback };

    Task<admin::ReloadReport> change(Change kind);
    Task<admin::ReloadReport> reload_now();
    Task<admin::ReloadReport> rollback_now();
    std::string objection_to_rollback() const;  // empty: there is none
    Task<CertifiedConfig> with_certificates_of_now(const Kept& former, admin::ReloadReport& report);
    void keep(Kept next);
    Task<bool> renew_now();
    void keep_renewed(CertifiedConfig renewed);
    void log_renewal_faults(std::vector<std::string> faults);
    // The snapshot in force, with the certificates of `read`. Null: they are the same.
    Task<std::shared_ptr<const ConfigSnapshot>> prepare_renewal(
        std::shared_ptr<const config::Config> read);
    Task<> await_turn();
    void end_turn();
    std::string objection() const;  // to a reload; empty: there is none
    Task<config::Loaded> read();
    // Reads apart with `load`. A path that does not answer is a fault.
    Task<config::Loaded> load_apart(std::string what, std::function<config::Loaded()> load);
    // The access log of `settings`, opened if it is not open yet; null: off.
    Task<std::shared_ptr<telemetry::AccessLog>> open_access_log(config::LogSettings settings);
    // Gives the files of Unix sockets the permissions of `next`. What is wrong; empty: nothing.
    Task<std::string> set_socket_files(const config::Config& next);
    struct MadeTls;
    Task<MadeTls> make_tls(std::string what, const std::shared_ptr<const config::Config>& next);
    Faults faults_of(const config::Config& next) const;
    // `certified`: like `next`, with the certificates, keys and authorities to use.
    Task<std::shared_ptr<const ConfigSnapshot>> prepare(ConfigPtr next, ConfigPtr certified,
                                                        Faults& faults);
    Task<> put_in_force(std::shared_ptr<const ConfigSnapshot> next);
    // Ends former access logs and exporters as soon as the requests that write to them have ended.
    Task<> sweep_outputs();
    void log_report(const admin::ReloadReport& report, Change kind);
    std::uint64_t configs_in_use();

    Executor executor_;
    SharedState& shared_;
    Workers& workers_;
    std::string file_;
    ReloadObserver observer_;
    std::vector<config::FileRead> files_read_;
    AccessLogs access_logs_;
    TraceExporters trace_exporters_;
    JwksFetcher jwks_fetcher_;
    UpstreamGroups upstreams_;
    CertificateExpiries certificate_expiry_;
    std::shared_ptr<const ConfigSnapshot> current_;
    std::vector<std::string> renewal_faults_;  // why the last renewal failed; empty: it did not
    std::vector<std::weak_ptr<const config::Config>> former_;  // that may still be in use
    Kept kept_;  // of current_, with the certificates, keys and authorities in force
    std::optional<Kept> previous_;  // that a rollback puts in force; none: there is none
    bool is_rolled_back_ = false;
    telemetry::PerEnumerator<ReloadResult, std::uint64_t> reloads_{};
    telemetry::PerEnumerator<ReloadResult, std::uint64_t> rollbacks_{};
    Timer turn_changed_;  // never expires: cancelled when it is the next one's turn
    std::string refusal_;
    bool busy_ = false;
    bool signal_waits_ = false;
    bool sweeping_ = false;
    bool stopped_ = false;
    Disposer disposer_;
};

}  // namespace tidegate::app
