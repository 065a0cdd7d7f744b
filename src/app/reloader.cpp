#include "app/reloader.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "app/listener.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "net/deadline.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::app {

namespace {

constexpr std::chrono::milliseconds kReadyPoll{2};

}  // namespace

std::vector<upstream::UpstreamStatus> status_of(const Groups& groups) {
    std::vector<upstream::UpstreamStatus> all;
    for (const auto& group : groups) all.push_back(group->status());
    return all;
}

upstream::GroupPtr UpstreamGroups::former_of(const config::Upstream& settings) const {
    const auto found = std::find_if(in_use_.begin(), in_use_.end(), [&](const auto& group) {
        return group->settings().name == settings.name;
    });
    return found == in_use_.end() ? nullptr : *found;
}

std::vector<std::size_t> UpstreamGroups::new_positions(const config::Config& config) const {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < config.upstreams.size(); ++i) {
        const upstream::GroupPtr former = former_of(config.upstreams[i]);
        if (!former || former->settings() != config.upstreams[i]) positions.push_back(i);
    }
    return positions;
}

UpstreamGroups::Tls UpstreamGroups::make_tls(const config::Config& config,
                                             const std::vector<std::size_t>& positions) {
    Tls tls(config.upstreams.size());
    for (const std::size_t i : positions) tls[i] = upstream::Group::make_tls(config.upstreams[i]);
    return tls;
}

Groups UpstreamGroups::make(const config::Config& config, const Tls& tls) {
    Groups groups;
    for (std::size_t i = 0; i < config.upstreams.size(); ++i) {
        const config::Upstream& settings = config.upstreams[i];
        const upstream::GroupPtr former = former_of(settings);
        if (former && former->settings() == settings) {
            groups.push_back(former);
            continue;
        }
        groups.push_back(
            std::make_shared<upstream::Group>(settings, workers_, former.get(), tls[i]));
        watches_.push_back(std::make_unique<upstream::Watch>(executor_, groups.back()));
    }
    return groups;
}

Groups UpstreamGroups::new_of(Groups groups) const {
    std::erase_if(groups, [&](const auto& group) {
        return std::find(in_use_.begin(), in_use_.end(), group) != in_use_.end();
    });
    return groups;
}

bool UpstreamGroups::are_names_tried() const {
    return std::all_of(in_use_.begin(), in_use_.end(),
                       [](const auto& group) { return group->are_names_tried(); });
}

// A reload may put others in use meanwhile.
Task<> UpstreamGroups::names_tried(std::chrono::milliseconds patience) {
    const SteadyTime until = steady_now() + patience;
    Timer pause(executor_);
    while (!are_names_tried() && steady_now() < until) {
        pause.expires_after(kReadyPoll);
        co_await pause.async_wait(as_values);
    }
}

Task<> UpstreamGroups::ready(Groups groups, std::chrono::milliseconds patience) {
    const SteadyTime until = steady_now() + patience;
    const auto is_done = [&] {
        return std::all_of(groups.begin(), groups.end(), [](const auto& group) {
            return group->is_resolved() && group->is_checked();
        });
    };
    Timer pause(executor_);
    while (!is_done() && steady_now() < until) {
        pause.expires_after(kReadyPoll);
        co_await pause.async_wait(as_values);
    }
}

void UpstreamGroups::use(Groups groups) {
    in_use_ = std::move(groups);
    std::erase_if(watches_, [&](const auto& watch) {
        return std::find(in_use_.begin(), in_use_.end(), watch->group()) == in_use_.end();
    });
}

void UpstreamGroups::fill_in(Gauges& gauges) const {
    gauges.upstreams = status_of(in_use_);
}

void set_log_level(config::LogLevel level) {
    using telemetry::Level;
    switch (level) {
        case config::LogLevel::debug:
            return telemetry::set_log_level(Level::debug);
        case config::LogLevel::info:
            return telemetry::set_log_level(Level::info);
        case config::LogLevel::warn:
            return telemetry::set_log_level(Level::warn);
        case config::LogLevel::error:
            return telemetry::set_log_level(Level::error);
    }
}

namespace {

using admin::ReloadReport;
using telemetry::Level;
using telemetry::log;

// New upstreams get so long to be resolved before requests may meet them.
constexpr std::chrono::milliseconds kLookupPatience{3'000};
// For the look-ups of the start. The system's resolver asks again after five seconds where a packet
// was lost. A name server that stays silent must not keep clients of other upstreams waiting for
// longer.
constexpr std::chrono::milliseconds kFirstLookupPatience{6'000};
// Workers adopt a configuration within a turn of their loops. The reloader logs one that has not by
// then.
constexpr std::chrono::milliseconds kReloadPatience{5'000};
constexpr std::chrono::milliseconds kReloadPoll{2};
constexpr std::chrono::milliseconds kGenerationSweepEvery{500};

}  // namespace

Reloader::Reloader(Executor executor, SharedState& shared, Workers& workers,
                   std::shared_ptr<const config::Config> config, ConfigOrigin origin)
    : executor_(executor),
      shared_(shared),
      workers_(workers),
      file_(std::move(origin.file)),
      files_read_(std::move(origin.files_read)),
      access_logs_(shared.workers),
      trace_exporters_(shared.workers, shared.name),
      jwks_fetcher_(executor),
      upstreams_(executor, shared.workers),
      turn_changed_(executor, Timer::time_point::max()) {
    config = disposer_.adopt(std::move(config));
    kept_ = {config, files_read_, std::chrono::system_clock::now(), {config, files_read_}};
    config = disposer_.adopt(kept_.config);
    auto first = std::make_shared<ConfigSnapshot>();
    first->access_log = access_logs_.open(config->log);
    access_logs_.use(first->access_log, config->log);
    first->traces = trace_exporters_.open(*config);
    first->slots = *shared.metrics.admit(metric_names(*config));  // they are its first names
    jwks_fetcher_.use(key_sources(*config));
    first->upstreams = upstreams_.make(
        *config, UpstreamGroups::make_tls(*config, upstreams_.new_positions(*config)));
    upstreams_.use(first->upstreams);
    auto tls = make_listener_tls(*config, {}, steady_now());
    if (!tls) throw std::runtime_error(tls.error());
    first->tls = std::move(*tls);
    first->config = std::move(config);
    current_ = std::move(first);
}

Task<ReloadReport> Reloader::reload() {
    return change(Change::reload);
}

Task<ReloadReport> Reloader::rollback() {
    return change(Change::rollback);
}

Task<ReloadReport> Reloader::change(Change kind) {
    co_await await_turn();
    observer_.on_begin();
    ReloadReport report;
    try {
        // Not in one expression: GCC 12 frees what a conditional operator awaits twice.
        if (kind == Change::rollback) {
            report = co_await rollback_now();
        } else {
            report = co_await reload_now();
        }
    } catch (const std::exception& error) {
        report.errors.push_back({file_, 0, 0, error.what()});
    }
    report.generation = current_->number;
    report.hash = config().shown.hash;
    log_report(report, kind);
    access_logs_.sweep();  // one may have been opened for a configuration that is refused
    trace_exporters_.sweep();
    if (!report.ok) {  // and files that only the refused configuration named are watched no more
        jwks_fetcher_.use(key_sources(config()));
        upstreams_.use(current_->upstreams);
    }
    observer_.on_end(report);
    end_turn();
    co_return report;
}

Task<> Reloader::await_turn() {
    while (busy_) co_await turn_changed_.async_wait(as_values);
    busy_ = true;
}

void Reloader::end_turn() {
    busy_ = false;
    turn_changed_.cancel();
}

Task<bool> Reloader::renew_certificates() {
    co_await await_turn();
    bool is_renewed = stopped_;
    try {
        if (!stopped_) is_renewed = co_await renew_now();
    } catch (const std::exception& error) {
        log_renewal_faults({error.what()});
    }
    upstreams_.use(current_->upstreams);
    end_turn();
    co_return is_renewed;
}

Task<bool> Reloader::renew_now() {
    std::function<config::Loaded()> load = [config = current_->config] {
        return config::reread(*config);
    };
    const config::Loaded loaded = co_await load_apart("certificates: Tidegate", std::move(load));
    if (!loaded.config) {
        std::vector<std::string> faults;
        for (const auto& error : loaded.errors) faults.push_back(error.to_string());
        log_renewal_faults(std::move(faults));
        co_return false;
    }
    const auto next = co_await prepare_renewal(loaded.config);
    renewal_faults_.clear();
    if (!next || stopped_) co_return true;
    for (const auto& warning : loaded.warnings) {
        log(Level::warn, "certificates: {}", warning.to_string());
    }
    co_await put_in_force(next);
    keep_renewed({loaded.config, loaded.files_read});
    log(Level::info, "certificates: Tidegate uses the changed files for new connections");
    co_return true;
}

// A reload that finds the renewed files, and else what is in force, has not changed anything. A
// renewal takes no other file of those that it has read.
void Reloader::keep_renewed(CertifiedConfig renewed) {
    const std::vector<std::string>& certificates = config().files;
    std::unordered_map<std::string_view, std::uint64_t> contents;
    for (const config::FileRead& file : renewed.files) contents[file.path] = file.content;
    for (config::FileRead& file : kept_.files) {
        if (!std::binary_search(certificates.begin(), certificates.end(), file.path)) continue;
        const auto found = contents.find(file.path);
        if (found != contents.end()) file.content = found->second;
    }
    kept_.certified = std::move(renewed);
}

void Reloader::log_renewal_faults(std::vector<std::string> faults) {
    if (faults == renewal_faults_) return;
    for (const std::string& fault : faults) log(Level::error, "certificates: {}", fault);
    log(Level::error,
        "certificates: Tidegate keeps all former certificates until these faults are mended, and "
        "looks again every minute");
    renewal_faults_ = std::move(faults);
}

// What a configuration speaks TLS with; what it leaves as it was is that in force.
struct Reloader::MadeTls {
    Result<std::vector<ListenerTls>, std::string> listeners;
    UpstreamGroups::Tls upstreams;
    bool is_same_store = true;
    std::shared_ptr<const TlsClient> redis;  // null: as it was, like the next one
    std::shared_ptr<const TlsClient> sentinel;
};

Task<Reloader::MadeTls> Reloader::make_tls(std::string what,
                                           const std::shared_ptr<const config::Config>& next) {
    auto make = [next, before = current_->tls, certified = kept_.certified.config,
                 positions = upstreams_.new_positions(*next)] {
        MadeTls made{.listeners = make_listener_tls(*next, before, steady_now()),
                     .upstreams = UpstreamGroups::make_tls(*next, positions),
                     .is_same_store = next->store == certified->store,
                     .redis = {},
                     .sentinel = {}};
        if (!made.is_same_store) {
            made.redis = make_redis_tls(*next);
            made.sentinel = make_sentinel_tls(*next);
        }
        return made;
    };
    return apart(executor_, std::move(what), std::move(make));
}

Task<std::shared_ptr<const ConfigSnapshot>> Reloader::prepare_renewal(
    std::shared_ptr<const config::Config> read) {
    auto next = std::make_shared<ConfigSnapshot>(*current_);
    MadeTls tls = co_await make_tls("certificates: Tidegate", read);
    if (!tls.listeners) throw std::runtime_error(tls.listeners.error());
    next->tls = std::move(*tls.listeners);
    next->upstreams = upstreams_.make(*read, tls.upstreams);
    next->redis_tls = tls.redis;
    next->sentinel_tls = tls.sentinel;
    // The configuration's text is the same: both trace, or neither does.
    const bool is_same_tracing =
        !read->tracing || *read->tracing == *kept_.certified.config->tracing;
    const bool is_same = next->tls == current_->tls && next->upstreams == current_->upstreams &&
                         tls.is_same_store && is_same_tracing;
    if (is_same) co_return nullptr;
    co_await upstreams_.ready(upstreams_.new_of(next->upstreams), kLookupPatience);
    if (!is_same_tracing) next->traces = trace_exporters_.open(*read);
    co_return next;
}

void Reloader::rotate_ticket_keys() const {
    app::rotate_ticket_keys(current_->tls, steady_now());
}

void Reloader::reload_on_signal() {
    if (std::exchange(signal_waits_, true)) return;
    spawn_vital(executor_, reload());
}

Task<> Reloader::first_keys() {
    return jwks_fetcher_.prepare(key_sources(config()));
}

Task<> Reloader::first_names() {
    return upstreams_.names_tried(kFirstLookupPatience);
}

Task<> Reloader::first_upstreams() {
    return upstreams_.ready(upstreams_.in_use(), kLookupPatience);
}

void Reloader::stop() {
    stopped_ = true;
}

Task<ReloadReport> Reloader::reload_now() {
    signal_waits_ = false;
    ReloadReport report;
    config::Loaded loaded = co_await read();
    if (!loaded.files_read.empty()) files_read_ = std::move(loaded.files_read);
    report.errors = std::move(loaded.errors);
    report.warnings = std::move(loaded.warnings);
    if (!loaded.config) co_return report;
    Kept read{
        loaded.config, files_read_, std::chrono::system_clock::now(), {loaded.config, files_read_}};
    report.errors = faults_of(*read.config);
    if (!report.errors.empty()) co_return report;
    const ConfigPtr config = disposer_.adopt(read.config);
    const auto next = co_await prepare(config, config, report.errors);
    if (!report.errors.empty()) co_return report;
    co_await put_in_force(next);
    renewal_faults_.clear();
    keep(std::move(read));
    report.ok = true;
    co_return report;
}

// A reload of files that have not changed leaves the one before the last change to go back to.
void Reloader::keep(Kept next) {
    const bool is_same =
        next.files == kept_.files && next.config->shown.hash == kept_.config->shown.hash;
    Kept former = std::exchange(kept_, std::move(next));
    if (!is_same) previous_ = std::move(former);
    is_rolled_back_ = false;
}

std::string Reloader::objection_to_rollback() const {
    if (stopped_) return "Tidegate is stopping and does not roll back";
    if (!refusal_.empty()) return refusal_;
    if (previous_) return {};
    if (is_rolled_back_) {
        return "there is nothing to go back to: the configuration in force was put there by a "
               "rollback, and only the one before the last reload is kept";
    }
    return "there is nothing to go back to: this process has put no other configuration in force "
           "since its start";
}

Task<ReloadReport> Reloader::rollback_now() {
    ReloadReport report;
    if (std::string refused = objection_to_rollback(); !refused.empty()) {
        report.errors.push_back({"tidegate", 0, 0, std::move(refused)});
        co_return report;
    }
    Kept former = *previous_;
    report.errors = faults_of(*former.config);
    if (!report.errors.empty()) co_return report;
    const ConfigPtr config = disposer_.adopt(former.config);
    former.certified = co_await with_certificates_of_now(former, report);
    const auto next = co_await prepare(config, former.certified.config, report.errors);
    if (!report.errors.empty()) co_return report;
    // `--watch` looks at these no more, and the file's configuration must not come back because one
    // of them is renewed.
    const std::vector<std::string> certificates = this->config().files;
    std::erase_if(files_read_, [&](const config::FileRead& file) {
        return std::find(certificates.begin(), certificates.end(), file.path) != certificates.end();
    });
    co_await put_in_force(next);
    renewal_faults_.clear();
    kept_ = std::move(former);
    previous_.reset();
    is_rolled_back_ = true;
    report.ok = true;
    co_return report;
}

// Certificates may have been renewed since. Where the files cannot be read, those in force are used
// that came from the same files, and else those of `former`.
Task<CertifiedConfig> Reloader::with_certificates_of_now(const Kept& former, ReloadReport& report) {
    std::function<config::Loaded()> load = [config = former.config] {
        return config::reread(*config);
    };
    config::Loaded loaded = co_await load_apart("rollback: Tidegate", std::move(load));
    if (loaded.config) {
        co_return CertifiedConfig{std::move(loaded.config), std::move(loaded.files_read)};
    }
    for (config::Diagnostic& fault : loaded.errors) {
        fault.message += "; the certificates are those that Tidegate has read before";
        report.warnings.push_back(std::move(fault));
    }
    CertifiedConfig certified = with_newer_certificates(former.certified, kept_.certified);
    certified.config = disposer_.adopt(std::move(certified.config));
    co_return certified;
}

admin::ConfigInForce Reloader::in_force() const {
    return {.generation = current_->number,
            .config = current_->config,
            .read_at = kept_.read_at,
            .is_rolled_back = is_rolled_back_,
            .has_former = previous_.has_value()};
}

std::string Reloader::objection() const {
    if (stopped_) return "Tidegate is stopping and does not reload";
    if (!refusal_.empty()) return refusal_;
    if (file_.empty()) return "the built-in quickstart has no file to reload";
    if (file_ == config::kStandardInput) {
        return "the configuration came from standard input, which cannot be read again: restart "
               "Tidegate";
    }
    return {};
}

Task<config::Loaded> Reloader::read() {
    std::string refused = objection();
    config::Loaded loaded;
    if (refused.empty()) {
        std::function<config::Loaded()> load = [file = file_] {
            return config::load_file(file, config::process_environment, config::Occasion::reload);
        };
        loaded = co_await load_apart("reload: Tidegate", std::move(load));
        if (stopped_) refused = objection();
    }
    if (!refused.empty()) {
        loaded = {};
        loaded.errors.push_back({"tidegate", 0, 0, std::move(refused)});
    }
    co_return loaded;
}

Task<config::Loaded> Reloader::load_apart(std::string what, std::function<config::Loaded()> load) {
    config::Loaded loaded;
    try {
        loaded = co_await apart(executor_, std::move(what), std::move(load));
    } catch (const NoAnswerFromFile& silent) {
        loaded.errors.push_back({file_, 0, 0, silent.what()});
    }
    loaded.config = disposer_.adopt(std::move(loaded.config));
    co_return loaded;
}

Reloader::Faults Reloader::faults_of(const config::Config& next) const {
    Faults faults;
    const config::ConfigChange change{config(), next, shared_.workers, worker_count(next)};
    for (std::string& part : config::needs_restart(change)) {
        faults.push_back({file_, 0, 0, std::move(part)});
    }
    return faults;
}

// Every step that can fail. A failure leaves no visible change behind.
Task<std::shared_ptr<const ConfigSnapshot>> Reloader::prepare(ConfigPtr next, ConfigPtr certified,
                                                              Faults& faults) {
    auto snapshot = std::make_shared<ConfigSnapshot>();
    snapshot->access_log = co_await open_access_log(next->log);
    MadeTls tls = co_await make_tls("reload: Tidegate", certified);
    if (!tls.listeners) {
        faults.push_back({file_, 0, 0, tls.listeners.error()});
        co_return nullptr;
    }
    // A request that meets an upstream whose name leads nowhere yet fails, and reloads lose none. A
    // name that cannot be resolved is no fault of the file.
    snapshot->upstreams = upstreams_.make(*certified, tls.upstreams);
    co_await upstreams_.ready(upstreams_.new_of(snapshot->upstreams), kLookupPatience);
    // Requests must not meet a method that has no keys yet either. If there are none to be had,
    // that is no fault of the file.
    co_await jwks_fetcher_.prepare(key_sources(*next));
    if (stopped_) {
        faults.push_back({"tidegate", 0, 0, "Tidegate is stopping and does not reload"});
        co_return nullptr;
    }
    auto slots = shared_.metrics.admit(metric_names(*next));
    if (!slots) {
        faults.push_back({file_, 0, 0, slots.error()});
        co_return nullptr;
    }
    snapshot->slots = std::move(*slots);
    snapshot->tls = std::move(*tls.listeners);
    snapshot->redis_tls = std::move(tls.redis);
    snapshot->sentinel_tls = std::move(tls.sentinel);
    snapshot->traces = trace_exporters_.open(*certified);
    // Last: it cannot be undone.
    std::string wrong = co_await set_socket_files(*next);
    if (!wrong.empty()) {
        faults.push_back({file_, 0, 0, std::move(wrong)});
        co_return nullptr;
    }
    snapshot->config = std::move(next);
    snapshot->number = current_->number + 1;
    co_return snapshot;
}

Task<std::string> Reloader::set_socket_files(const config::Config& next) {
    std::vector<std::pair<config::Address, config::SocketFile>> changed;
    for (const config::Listen& listen : next.listen) {
        if (!listen.address.is_unix()) continue;
        const auto& running = config().listen;
        const bool is_same = std::any_of(running.begin(), running.end(), [&](const auto& other) {
            return other.address == listen.address && other.socket_file == listen.socket_file;
        });
        if (!is_same) changed.emplace_back(listen.address, listen.socket_file);
    }
    const auto& admin = config().admin;
    if (next.admin && next.admin->address.is_unix() &&
        (!admin || admin->socket_file != next.admin->socket_file)) {
        changed.emplace_back(next.admin->address, next.admin->socket_file);
    }
    if (changed.empty()) co_return std::string();
    auto set = [changed = std::move(changed)] {
        for (const auto& [address, file] : changed) {
            std::string wrong = set_socket_file(address.unix_path, file);
            if (!wrong.empty()) return address.to_string() + ": " + wrong;
        }
        return std::string();
    };
    co_return co_await apart(executor_, "reload: Tidegate", std::move(set));
}

Task<std::shared_ptr<telemetry::AccessLog>> Reloader::open_access_log(
    config::LogSettings settings) {
    if (settings.access_path.empty()) co_return nullptr;
    auto log = access_logs_.find(settings);
    if (log) co_return log;
    auto make = [settings, threads = shared_.workers] {
        return AccessLogs::make(settings, threads);
    };
    log = co_await apart(executor_, "reload: Tidegate", std::move(make));
    access_logs_.add(settings, log);
    co_return log;
}

Task<> Reloader::put_in_force(std::shared_ptr<const ConfigSnapshot> next) {
    const config::Config& config = *next->config;
    set_log_level(config.log.level);
    access_logs_.use(next->access_log, config.log);
    const store::MemoryStore::Options bounds = memory_options(config);
    shared_.memory_store.set_bounds(bounds.max_keys, bounds.on_full);
    shared_.memory_store.set_policies(policy_names(config));
    jwks_fetcher_.use(key_sources(config));
    upstreams_.use(next->upstreams);
    if (next->redis_tls) shared_.redis_tls->replace_with(*next->redis_tls);
    if (next->sentinel_tls) shared_.sentinel_tls->replace_with(*next->sentinel_tls);
    use_ticket_keys(next->tls, steady_now());
    if (next->config != current_->config) former_.push_back(current_->config);
    current_ = next;

    const auto left = std::make_shared<std::atomic<std::size_t>>(workers_.size());
    for (const auto& worker : workers_) worker->reload(next, [left] { --*left; });
    const auto until = std::chrono::steady_clock::now() + kReloadPatience;
    Timer pause(executor_);
    while (*left > 0 && !stopped_) {
        if (std::chrono::steady_clock::now() > until) {
            log(Level::warn, "reload: {} threads do not use configuration {} yet", left->load(),
                next->number);
            break;
        }
        pause.expires_after(kReloadPoll);
        co_await pause.async_wait(as_values);
    }
    if (!std::exchange(sweeping_, true)) spawn_vital(executor_, sweep_outputs());
}

// Ends the access logs and exporters of former configurations, once no request has one of these.
Task<> Reloader::sweep_outputs() {
    Timer pause(executor_);
    while (!stopped_) {
        // A reload that is under way may take them up again.
        if (!busy_ && configs_in_use() == 1) {
            access_logs_.sweep();
            const bool goes_on = trace_exporters_.sweep();
            if (!goes_on) break;
        }
        pause.expires_after(kGenerationSweepEvery);
        co_await pause.async_wait(as_values);
    }
    sweeping_ = false;
}

void Reloader::log_report(const ReloadReport& report, Change kind) {
    const bool is_rollback = kind == Change::rollback;
    ++(is_rollback ? rollbacks_ : reloads_)[report.ok ? ReloadResult::ok : ReloadResult::refused];
    const std::string_view what = is_rollback ? "rollback" : "reload";
    for (const auto& warning : report.warnings) {
        log(Level::warn, "{}: {}", what, warning.to_string());
    }
    for (const auto& error : report.errors) log(Level::error, "{}: {}", what, error.to_string());
    if (report.ok) {
        log(Level::info, "{}: configuration {} is in force, hash {}", what, report.generation,
            report.hash);
    } else {
        log(Level::error, "{} refused, {} {}: configuration {} stays in force", what,
            report.errors.size(), report.errors.size() == 1 ? "fault" : "faults",
            report.generation);
    }
}

std::uint64_t Reloader::configs_in_use() {
    std::erase_if(former_, [](const auto& config) { return config.expired(); });
    return former_.size() + 1;
}

void Reloader::fill_in(Gauges& gauges) {
    ProcessFigures& process = gauges.process;
    process.access_log_dropped.value = access_logs_.dropped();
    process.config_generation.value = current_->number;
    process.configs_in_use.value = configs_in_use();
    process.config_info.value = config().shown.hash;
    process.config_rolled_back.value = is_rolled_back_ ? 1 : 0;
    for (const ReloadResult result : kEnumerators<ReloadResult>) {
        process.reloads[result].value = reloads_[result];
        process.rollbacks[result].value = rollbacks_[result];
    }
    process.config_read_at.value =
        std::chrono::duration<double>(kept_.read_at.time_since_epoch()).count();
    jwks_fetcher_.fill_in(gauges);
    trace_exporters_.fill_in(gauges);
    upstreams_.fill_in(gauges);
    certificate_expiry_.fill_in(kept_.certified.config, gauges);
}

}  // namespace tidegate::app
