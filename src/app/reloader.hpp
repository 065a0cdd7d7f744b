// Reads the configuration again and puts it in force, whole or not at all.
//
// Runs on the main thread, which answers signals and the admin listener meanwhile: what waits for
// files or computes for long is done apart().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "admin/answer.hpp"
#include "app/access_logs.hpp"
#include "app/certificate_list.hpp"
#include "app/config_snapshot.hpp"
#include "app/disposer.hpp"
#include "app/jwks_fetcher.hpp"
#include "app/metrics.hpp"
#include "app/origin.hpp"
#include "app/shared_state.hpp"
#include "app/trace_exporter.hpp"
#include "app/upstream_groups.hpp"
#include "app/worker.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

// The error log takes its level from the configuration.
void set_log_level(config::LogLevel level);

using Workers = std::vector<std::unique_ptr<Worker>>;

// Both on the main thread; neither for a renewal of certificates.
struct ReloadObserver {
    std::function<void()> on_begin = [] {};
    std::function<void(const admin::ReloadReport&)> on_end = [](const auto&) {};
};

class Reloader {
  public:
    // `config` was read from `origin` just now. Opens the access log, throws std::runtime_error if
    // it cannot; begins to fetch keys. All but the values outlive this.
    Reloader(Executor executor, SharedState& shared, Workers& workers,
             std::shared_ptr<const config::Config> config, Origin origin);

    // Reads, checks and, if there is no fault, puts in force; when this returns, every worker
    // begins its requests with the new one. One after the other, in the order asked. Faults, and
    // what came of it, are logged.
    Task<admin::ReloadReport> reload();
    // The same for a signal: one that waits its turn already will read what this one would.
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
    // What the last reload has read, or the start, whether it was put in force or refused.
    const std::vector<config::FileRead>& files_read() const { return files_read_; }
    AccessLogs& access_logs() { return access_logs_; }
    const Groups& upstreams() const { return upstreams_.in_use(); }

    // For /metrics.
    void fill_in(Gauges& gauges);

  private:
    using Faults = std::vector<config::Diagnostic>;

    Task<admin::ReloadReport> reload_now();
    Task<bool> renew_now();
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
    Task<std::shared_ptr<telemetry::AccessLog>> open_access_log(config::Log settings);
    // Gives the files of Unix sockets the permissions of `next`. What is wrong; empty: nothing.
    Task<std::string> set_socket_files(const config::Config& next);
    struct MadeTls;
    Task<MadeTls> make_tls(std::string what, const std::shared_ptr<const config::Config>& next);
    Faults faults_of(const config::Config& next) const;
    Task<std::shared_ptr<const ConfigSnapshot>> prepare(std::shared_ptr<const config::Config> next,
                                                        Faults& faults);
    Task<> put_in_force(std::shared_ptr<const ConfigSnapshot> next);
    // Ends former access logs and exporters as soon as the requests that write to them have ended.
    Task<> sweep_outputs();
    void log_report(const admin::ReloadReport& report);
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
    CertificateExpiry certificate_expiry_;
    std::shared_ptr<const ConfigSnapshot> current_;
    // What was read last: the certificates of this one are in force, and else it is like current_.
    std::shared_ptr<const config::Config> certified_;
    std::vector<std::string> renewal_faults_;  // why the last renewal failed; empty: it did not
    std::vector<std::weak_ptr<const config::Config>> former_;  // that may still be in use
    std::chrono::system_clock::time_point read_at_;
    std::uint64_t reloads_ok_ = 0;
    std::uint64_t reloads_refused_ = 0;
    Timer turn_changed_;  // never expires: cancelled when it is the next one's turn
    std::string refusal_;
    bool busy_ = false;
    bool signal_waits_ = false;
    bool sweeping_ = false;
    bool stopped_ = false;
    Disposer disposer_;
};

// Whether this process lacks the number of proxies that share Redis: no `replicas`, no heartbeat
// yet, and a policy with `on_store_failure: local`.
bool lacks_replicas(const SharedState& shared, const config::Config& config);

}  // namespace tidegate::app
