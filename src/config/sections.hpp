// The sections of a configuration file, one reading function each. They report what is wrong to
// the value's context and leave the rest of `config` as it was.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/reader.hpp"

namespace tidegate::config {

// What later sections must know of earlier ones and the Config does not tell: names that are
// defined but broken are no "unknown name", and where things were written, for warnings.
struct Declared {
    struct Named {
        Place place;
        std::optional<std::size_t> position;  // in the Config; absent: broken
        bool used = false;
    };
    std::map<std::string, Named, std::less<>> policies;
    std::map<std::string, Named, std::less<>> upstreams;
    std::vector<std::string> default_policies;
    std::vector<Place> routes;  // as Config::routes
    // A user of each tier of the users' file: where that stands.
    std::map<std::string, Diagnostic, std::less<>> user_tiers;
    limit::OnStoreFailure on_store_failure = limit::OnStoreFailure::local;
};

// Makes the path of a Unix socket, if that is what `address` is, relative to the configuration's
// folder. Reports one that is too long for a socket then.
bool resolve_socket(const Value& value, Address& address);

// There is no `kind` of that name; perhaps another was meant.
void unknown_name(const Value& value, std::string_view kind, const std::string& name,
                  const std::map<std::string, Declared::Named, std::less<>>& known);

void read_listen(const Value& value, Config& config);
void read_admin(const Value& value, Config& config);
void read_store(const Value& value, Config& config);
void read_deny_cache(const Value& value, Config& config);
// Requires that `listen` has been read.
void read_identity(const Value& value, Config& config, Declared& declared);
void read_forwarding(const Value& value, Config& config);
void read_response(const Value& value, Config& config);
void read_limits_on_requests(const Value& value, Config& config);
void read_connections(const Value& value, Config& config);
void read_timeouts(const Value& value, Config& config);
void read_log(const Value& value, Config& config);

std::optional<limit::OnStoreFailure> read_on_store_failure(const Value& value);

// A list of limits, and where its schedules find the moment.
struct Limits {
    std::vector<limit::Limit> limits;
    std::optional<MomentSource> moment;
};
// At least one, no two the same.
Limits read_limits(const Value& value);
// Takes `other` for `moment`, or reports that they differ.
bool agree_on_moment(const Value& value, const std::optional<MomentSource>& other,
                     std::optional<MomentSource>& moment);

// Requires that `identity` has been read. `on_missing`: of every key; else each has its default.
std::vector<limit::Key> read_key(const Value& value,
                                 const std::optional<limit::OnMissing>& on_missing,
                                 const Config& config);
// For a warning: whoever varies a field, a parameter or a path is not limited by it.
bool counts_only_what_clients_choose(const limit::Policy& policy);

void read_policies(const Value& value, Config& config, Declared& declared);
// The policy's position in the Config; nothing when it is broken.
std::optional<std::size_t> read_policy(const Value& value, const std::string& name, Config& config,
                                       const Declared& declared);
// Gives the policy and its tiers their indices. Where it stands among Config::policies.
std::size_t add_policy(Policy&& policy, Config& config);
void read_default_policies(const Value& value, Declared& declared);

void read_upstreams(const Value& value, Config& config, Declared& declared);
// `upstream: http://...` of the short form.
std::optional<UpstreamServer> read_server(const Value& value);

void read_routes(const Value& value, Config& config, Declared& declared);
// `cost` of a route: a number, or a map that says which field holds it.
void read_cost(const Value& value, Route& route);
// Reports a cost that could never pass one of the route's limits.
void check_cost(const Value& value, const Route& route);

// `users` of `identity`: the file with each user's tier.
void read_users(const Value& value, Config& config, Declared& declared);

// What is legal but hardly meant.
void warn_about(const Config& config, const Declared& declared, Context& context);
// Tiers of users that no policy knows, with their places in the users' file.
std::vector<Diagnostic> warnings_about_tiers(const Config& config, const Declared& declared);

}  // namespace tidegate::config
