#include "app/certificate_list.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/doc.hpp"
#include "base/timestamp.hpp"
#include "config/files.hpp"

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
                          .validity = facts.validity};
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
    return names.empty() ? "" : "for " + shown_names(names, kShown);
}

std::string ListedCertificate::time_left_text(system_clock::time_point now) const {
    const std::string day = format_day(validity.until);
    if (validity.until < now) return "expired on " + day;
    const long days = days_left(now);
    return fmt::format("{} day{} left (until {})", days, days == 1 ? "" : "s", day);
}

long ListedCertificate::days_left(system_clock::time_point now) const {
    return tidegate::days_left(validity.until, now);
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

std::optional<ListedCertificate> first_to_renew(const config::Config& config,
                                                system_clock::time_point now) {
    std::vector<ListedCertificate> all = listed_certificates(config);
    const auto first = std::min_element(
        all.begin(), all.end(),
        [now](const auto& a, const auto& b) { return a.validity.is_more_urgent(b.validity, now); });
    return first == all.end() ? std::nullopt : std::optional(std::move(*first));
}

namespace {

// What `newer` has in place of texts of `former` that came from the same files. The texts that a
// configuration keeps are those of its files, whole.
class NewerTexts {
  public:
    NewerTexts(const std::vector<config::FileRead>& former, const CertifiedConfig& newer)
        : files_(former) {
        for (const config::FileRead& file : files_) paths_.emplace(file.content, file.path);
        for (const config::FileRead& file : newer.files) newer_[file.path] = file.content;
        const config::Config& config = *newer.config;
        for (const config::Listen& listen : config.listen) {
            if (listen.tls) add(*listen.tls);
        }
        for (const config::Upstream& upstream : config.upstreams) add(upstream.tls);
        if (config.tracing) add(config.tracing->tls);
        const auto* const redis = std::get_if<config::RedisSettings>(&config.store);
        if (redis == nullptr) return;
        if (redis->tls) add(*redis->tls);
        if (redis->sentinel && redis->sentinel->tls) add(*redis->sentinel->tls);
    }

    void renew(TlsSettings& tls) {
        renew_text(tls.ca);
        renew_pair(tls.certificate, tls.key);
    }

    void renew(TlsServerSettings& tls) {
        for (ServerCertificate& one : tls.certificates) renew_pair(one.certificate, one.key);
        renew_text(tls.client_auth.ca);
        renew_text(tls.client_auth.crl);
        if (tls.ticket_keys.empty()) return;
        const std::size_t bytes = tls.ticket_keys.front().size();
        std::string keys = joined(tls.ticket_keys);
        renew_text(keys);
        tls.ticket_keys.clear();
        for (std::size_t at = 0; at < keys.size(); at += bytes) {
            tls.ticket_keys.push_back(keys.substr(at, bytes));
        }
    }

    // Those of the former configuration, with the contents that were renewed.
    std::vector<config::FileRead> files() && {
        for (config::FileRead& file : files_) {
            const auto renewed = renewed_.find(file.content);
            if (renewed != renewed_.end()) file.content = renewed->second;
        }
        return std::move(files_);
    }

  private:
    using Pair = std::pair<std::uint64_t, std::uint64_t>;  // a certificate and its key

    static std::string joined(const std::vector<std::string>& parts) {
        std::string whole;
        for (const std::string& part : parts) whole += part;
        return whole;
    }

    void add_text(std::string text) {
        if (!text.empty()) texts_.insert_or_assign(config::content_of(text), std::move(text));
    }

    void add_pair(const std::string& certificate, const std::string& key) {
        pairs_.insert({config::content_of(certificate), config::content_of(key)});
        add_text(certificate);
        add_text(key);
    }

    void add(const TlsSettings& tls) {
        add_text(tls.ca);
        add_pair(tls.certificate, tls.key);
    }

    void add(const TlsServerSettings& tls) {
        for (const ServerCertificate& one : tls.certificates) add_pair(one.certificate, one.key);
        add_text(tls.client_auth.ca);
        add_text(tls.client_auth.crl);
        add_text(joined(tls.ticket_keys));
    }

    // The content that the file of `text` had for `newer`. Nothing: `newer` has not used it, or
    // `text` is that of two files which differ by now.
    std::optional<std::uint64_t> newer_content(const std::string& text) const {
        if (text.empty()) return std::nullopt;
        std::optional<std::uint64_t> found;
        const auto [begin, end] = paths_.equal_range(config::content_of(text));
        for (auto file = begin; file != end; ++file) {
            const auto same = newer_.find(file->second);
            if (same == newer_.end() || !texts_.contains(same->second)) return std::nullopt;
            if (found && *found != same->second) return std::nullopt;
            found = same->second;
        }
        return found;
    }

    void put(std::string& text, std::uint64_t content) {
        const std::uint64_t former = config::content_of(text);
        text = texts_.at(content);
        renewed_[former] = content;
    }

    void renew_text(std::string& text) {
        if (const auto content = newer_content(text)) put(text, *content);
    }

    void renew_pair(std::string& certificate, std::string& key) {
        const auto content = newer_content(certificate);
        const auto key_content = newer_content(key);
        if (!content || !key_content || !pairs_.contains({*content, *key_content})) return;
        put(certificate, *content);
        put(key, *key_content);
    }

    std::vector<config::FileRead> files_;              // of the former configuration
    std::multimap<std::uint64_t, std::string> paths_;  // of these, by their content
    std::map<std::string, std::uint64_t> newer_;       // the contents for the newer one, by path
    std::map<std::uint64_t, std::string> texts_;       // of the newer one, by their content
    std::set<Pair> pairs_;
    std::map<std::uint64_t, std::uint64_t> renewed_;  // contents by the former ones
};

}  // namespace

CertifiedConfig with_newer_certificates(const CertifiedConfig& former,
                                        const CertifiedConfig& newer) {
    NewerTexts texts(former.files, newer);
    auto config = std::make_shared<config::Config>();
    config->listen = former.config->listen;
    config->upstreams = former.config->upstreams;
    config->store = former.config->store;
    for (config::Listen& listen : config->listen) {
        if (listen.tls) texts.renew(*listen.tls);
    }
    for (config::Upstream& upstream : config->upstreams) texts.renew(upstream.tls);
    if (former.config->tracing) {
        auto tracing = std::make_unique<config::Tracing>(*former.config->tracing);
        texts.renew(tracing->tls);
        config->tracing = std::move(tracing);
    }
    if (auto* const redis = std::get_if<config::RedisSettings>(&config->store)) {
        if (redis->tls) texts.renew(*redis->tls);
        if (redis->sentinel && redis->sentinel->tls) texts.renew(*redis->sentinel->tls);
    }
    return {std::move(config), std::move(texts).files()};
}

void CertificateExpiries::fill_in(const std::shared_ptr<const config::Config>& config,
                                  Gauges& gauges) {
    if (of_.lock() != config) {
        std::map<std::string, system_clock::time_point> by_name;
        for (const ListedCertificate& one : listed_certificates(*config)) {
            const auto [at, is_new] = by_name.emplace(one.name(), one.validity.until);
            if (!is_new) at->second = std::min(at->second, one.validity.until);
        }
        expiry_.clear();
        for (const auto& [name, until] : by_name) expiry_.push_back({name, until});
        of_ = config;
    }
    gauges.certificate_expiry = expiry_;
}

}  // namespace tidegate::app
