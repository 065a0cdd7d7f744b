// `cors` of `response` and of routes.
#include <algorithm>
#include <utility>

#include "base/quote.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kOriginsMax = 256;
constexpr std::string_view kOrigin = "an origin such as `https://app.example.com`";

// With credentials, each page of these hosts acts for the user who looks at it.
void warn_about_wide(const Value& value, const http::OriginPattern& pattern) {
    const bool is_top_level = pattern.subdomains && pattern.host.find('.') == std::string::npos;
    if (!is_top_level || pattern.host == "localhost") return;
    value.warn("allows every host under " + quote(pattern.host) +
               ", which many owners may share: write `https://*.example." + pattern.host + "`");
}

void read_origin(const Value& value, http::OriginList& origins) {
    const auto text = value.text(kOrigin);
    if (!text) return;
    if (*text == "*") {
        origins.any = true;
        return;
    }
    if (*text == "null") {
        origins.opaque = true;
        value.warn(
            "`null` is the origin of local files and of sandboxed frames, which a page of any site "
            "can open: each of them may read these answers");
        return;
    }
    auto pattern = http::parse_origin_pattern(*text);
    if (!pattern) {
        value.fault(quote(*text) + " " + pattern.error());
        return;
    }
    warn_about_wide(value, *pattern);
    add_once(value, quote(*text), std::move(*pattern), origins.patterns);
}

void read_origins(const Value& value, http::OriginList& origins) {
    constexpr ListRule kOrigins{"a list of origins: `[\"https://app.example.com\"]`", "origins",
                                kOriginsMax,
                                "the list is empty: list an origin such as "
                                "`https://app.example.com`, or write `cors: off`"};
    for (const Value& item : value.one_or_more(kOrigins)) read_origin(item, origins);
    if (origins.any && (origins.opaque || !origins.patterns.empty())) {
        value.fault("`*` allows every origin: remove `*`, or all other origins");
    }
}

void read_credentials(const Value& value, Cors& cors) {
    cors.credentials = value.toggle().value_or(false);
    if (!cors.credentials || !cors.origins.any) return;
    value.fault(
        "`on` together with the origin `*` would let a page of any site act for the user who looks "
        "at it, and browsers refuse it: list the origins, or write `credentials: off`");
}

void read_preflight(const Value& value, const std::string& name, Cors& cors, Config& config,
                    const Declared& declared) {
    if (value.is_off()) {
        value.fault(
            "cannot be off: no policy counts preflights, so without a limit of their own they "
            "would be a way around every limit; write a rate such as `50/s`");
        return;
    }
    const std::size_t faults_before = value.context().faults.size();
    Policy policy;
    policy.limits = read_preflight_limits(value);
    if (policy.limits.empty() || value.context().faults.size() != faults_before) return;
    policy.name = name;
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.on_store_failure = declared.on_store_failure;
    // Clients without an address share one count: a preflight never goes uncounted.
    policy.key.front().on_missing = limit::OnMissing::shared;
    cors.preflight = config.policies[add_policy(std::move(policy), config)].get();
}

// The limit of preflights where the configuration has none.
const Policy* default_preflight(Config& config) {
    Policy policy;
    policy.name = kPreflight;
    policy.key = {limit::single_key(limit::KeyPart::Kind::ip)};
    policy.key.front().on_missing = limit::OnMissing::shared;
    policy.limits = {default_preflight_limit()};
    policy.on_store_failure = limit::OnStoreFailure::local_or_alone;
    return config.policies[add_policy(std::move(policy), config)].get();
}

// The fields that Tidegate adds to answers. Browsers show them to scripts only if the answer lists
// them.
std::string exposed_fields(const Response& response) {
    std::string out;
    if (response.ratelimit_fields) out += "RateLimit, RateLimit-Policy, ";
    out += "Retry-After, ";
    if (response.x_ratelimit_fields) {
        out += "X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, ";
    }
    return out += "X-Request-Id";
}

std::string lines_without_request(const Response& response) {
    std::string out = response.extra_lines;
    if (response.cors == nullptr) return out;
    out += "Vary: Origin\r\n";
    if (!response.cors->origins.any) return out;
    return out += "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: " +
                  response.exposed_fields + "\r\n";
}

}  // namespace

Cors* read_cors(const Value& value, const std::string& policy, Config& config, Declared& declared) {
    using std::chrono::hours;
    using std::chrono::seconds;
    if (value.is_off()) return nullptr;
    auto cors = std::make_unique<Cors>();
    Section section(value, "`off` or a map: `{origins: [\"https://app.example.com\"]}`");
    if (const auto origins = section.need("origins", "`origins: [\"https://app.example.com\"]`")) {
        read_origins(*origins, cors->origins);
    }
    if (const auto credentials = section.find("credentials")) {
        read_credentials(*credentials, *cors);
    }
    milliseconds max_age{0};
    section.duration("max_age", max_age, {seconds{1}, hours{24}});
    cors->max_age = std::chrono::duration_cast<seconds>(max_age);
    if (const auto preflight = section.find("preflight")) {
        read_preflight(*preflight, policy, *cors, config, declared);
    }
    section.refuse_others();
    return declared.cors.all.emplace_back(std::move(cors)).get();
}

void settle_cors(Config& config, Declared& declared) {
    Declared::Cors& read = declared.cors;
    const Policy* shared = read.of_response != nullptr ? read.of_response->preflight : nullptr;
    for (const auto& cors : read.all) {
        if (cors->preflight != nullptr) continue;
        if (shared == nullptr) shared = default_preflight(config);
        cors->preflight = shared;
    }
    Response& response = config.response;
    response.cors = read.of_response;
    for (std::size_t i = 0; i < config.routes.size(); ++i) {
        const auto own = read.own.find(i);
        config.routes[i].cors = own != read.own.end() ? own->second : response.cors;
    }
    for (auto& cors : read.all) config.cors.push_back(std::move(cors));
    response.exposed_fields = exposed_fields(response);
    response.lines_without_request = lines_without_request(response);
}

}  // namespace tidegate::config
