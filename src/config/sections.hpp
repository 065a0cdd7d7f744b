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
// Requires that `listen` has been read.
void read_identity(const Value& value, Config& config);
void read_forwarding(const Value& value, Config& config);
void read_response(const Value& value, Config& config);
void read_limits_on_requests(const Value& value, Config& config);
void read_connections(const Value& value, Config& config);
void read_timeouts(const Value& value, Config& config);
void read_log(const Value& value, Config& config);

std::optional<limit::OnStoreFailure> read_on_store_failure(const Value& value);

// One item of `limits`: a rate, a list `[seconds, quota, precision]` or a map.
std::optional<limit::Limit> read_limit(const Value& value);
// A list of them: at least one, no two the same.
std::vector<limit::Limit> read_limits(const Value& value);

void read_policies(const Value& value, Config& config, Declared& declared);
// The policy's position in the Config; nothing when it is broken.
std::optional<std::size_t> read_policy(const Value& value, const std::string& name, Config& config,
                                       const Declared& declared);
// A policy made of `limits` alone, key `[ip, user]`.
void add_policy(const std::string& name, std::vector<limit::Key> key,
                std::vector<limit::Limit> limits, limit::OnStoreFailure on_store_failure,
                Config& config);
void read_default_policies(const Value& value, Declared& declared);

void read_upstreams(const Value& value, Config& config, Declared& declared);
// `upstream: http://...` of the short form.
std::optional<UpstreamServer> read_server(const Value& value);

void read_routes(const Value& value, Config& config, Declared& declared);

// What is legal but hardly meant.
void warn_about(const Config& config, const Declared& declared, Context& context);

}  // namespace tidegate::config
