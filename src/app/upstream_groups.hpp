// The upstreams of the process: what all threads share of each, and the main thread's watch over
// them. On the main thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "app/metrics.hpp"
#include "config/config.hpp"
#include "net/asio.hpp"
#include "upstream/group.hpp"
#include "upstream/watch.hpp"

namespace tidegate::app {

// In the order of a configuration.
using Groups = std::vector<upstream::GroupPtr>;

std::vector<upstream::UpstreamStatus> status_of(const Groups& groups);

class UpstreamGroups {
  public:
    UpstreamGroups(Executor executor, std::size_t workers)
        : executor_(std::move(executor)), workers_(workers) {}

    // What the upstreams of a configuration speak TLS with, by their positions. Null: the upstream
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
    // Those of `groups` that are not in use yet.
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

}  // namespace tidegate::app
