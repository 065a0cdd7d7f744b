#include "app/certificate_list.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/timestamp.hpp"
#include "tls/certificate.hpp"

namespace tidegate::app {

namespace {

// Nothing where `pem` has no certificate, which the reader of the configuration refuses.
std::optional<ListedCertificate> listed(std::string place, const std::string& pem) {
    const auto chain = parse_certificates(pem);
    if (!chain) return std::nullopt;
    CertificateFacts facts = facts_of(*chain->front());
    ListedCertificate one{.place = std::move(place),
                          .file = {},
                          .names = std::move(facts.names),
                          .key = std::move(facts.key.text),
                          .until = facts.until};
    if (one.names.empty() && !facts.subject.empty()) one.names.push_back(std::move(facts.subject));
    return one;
}

void add_of_listener(const config::Listen& listen, std::vector<ListedCertificate>& all) {
    for (const ServerCertificate& shown : listen.tls->certificates) {
        auto one = listed("listen " + listen.address.to_string(), shown.certificate);
        if (!one) continue;
        one->file = shown.file;
        for (const std::string& name : shown.names) {
            if (std::find(one->names.begin(), one->names.end(), name) == one->names.end()) {
                one->names.push_back(name);
            }
        }
        all.push_back(std::move(*one));
    }
}

void add_of_client(std::string place, const std::optional<TlsSettings>& tls,
                   std::vector<ListedCertificate>& all) {
    if (!tls || tls->certificate.empty()) return;
    auto one = listed(std::move(place), tls->certificate);
    if (!one) return;
    one->is_of_listener = false;
    all.push_back(std::move(*one));
}

}  // namespace

const std::string& ListedCertificate::name() const {
    if (!names.empty()) return names.front();
    return file.empty() ? place : file;
}

std::string ListedCertificate::names_text() const {
    constexpr std::size_t kShown = 8;
    std::string text;
    for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) {
        text += (i == 0 ? "for " : ", ") + names[i];
    }
    if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
    return text;
}

std::string ListedCertificate::time_left_text(system_clock::time_point now) const {
    const std::string day = format_day(until);
    if (until < now) return "expired on " + day;
    const long days = days_left(now);
    return fmt::format("{} day{} left (until {})", days, days == 1 ? "" : "s", day);
}

long ListedCertificate::days_left(system_clock::time_point now) const {
    return tidegate::days_left(until, now);
}

std::vector<ListedCertificate> listed_certificates(const config::Config& config) {
    std::vector<ListedCertificate> all;
    for (const config::Listen& listen : config.listen) {
        if (listen.tls) add_of_listener(listen, all);
    }
    for (const config::Upstream& upstream : config.upstreams) {
        add_of_client("upstreams." + upstream.name + ".tls", upstream.tls, all);
    }
    if (const auto* const redis = std::get_if<config::RedisSettings>(&config.store)) {
        add_of_client("store.redis.tls", redis->tls, all);
        if (redis->sentinel) add_of_client("store.redis.sentinel.tls", redis->sentinel->tls, all);
    }
    return all;
}

std::optional<ListedCertificate> first_to_expire(const config::Config& config) {
    std::vector<ListedCertificate> all = listed_certificates(config);
    const auto first = std::min_element(
        all.begin(), all.end(), [](const auto& a, const auto& b) { return a.until < b.until; });
    return first == all.end() ? std::nullopt : std::optional(std::move(*first));
}

void CertificateExpiries::fill_in(const std::shared_ptr<const config::Config>& config,
                                  Gauges& gauges) {
    if (of_.lock() != config) {
        std::map<std::string, system_clock::time_point> by_name;
        for (const ListedCertificate& one : listed_certificates(*config)) {
            const auto [at, is_new] = by_name.emplace(one.name(), one.until);
            if (!is_new) at->second = std::min(at->second, one.until);
        }
        expiry_.clear();
        for (const auto& [name, until] : by_name) expiry_.push_back({name, until});
        of_ = config;
    }
    gauges.certificate_expiry = expiry_;
}

}  // namespace tidegate::app
