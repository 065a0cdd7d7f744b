// `rls`: the files of Envoy's rate limit service (envoyproxy/ratelimit), as they are.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

namespace {

using limit::Algorithm;
using rls::Rule;
using rls::RuleLevel;
using rls::Unit;

constexpr std::size_t kRlsFilesMax = 1'000;
constexpr std::size_t kRulesMax = 100'000;
constexpr std::size_t kTextBytesMax = 1'024;  // of a key or a value

constexpr std::pair<std::string_view, Unit> kUnitNames[] = {
    {"second", Unit::second}, {"minute", Unit::minute}, {"hour", Unit::hour}, {"day", Unit::day},
    {"week", Unit::week},     {"month", Unit::month},   {"year", Unit::year}};

// Names of policies are printed, and stand in fields and in lists that `;` separates.
void append_printable(std::string_view text, std::string& out) {
    constexpr std::string_view kReserved = "\"\\%;";
    for (const char c : text) {
        if (c > ' ' && c <= '~' && kReserved.find(c) == kReserved.npos) {
            out += c;
        } else {
            append_percent_encoded(c, out);
        }
    }
}

// One limit a unit, as in that service.
std::optional<limit::Limit> limit_of(std::int64_t requests, Unit unit, Algorithm algorithm) {
    limit::LimitSpec spec;
    spec.algorithm = algorithm;
    spec.quota = requests;
    spec.duration = rls::duration_of(unit);
    auto made = limit::make_limit(spec);
    if (!made) return std::nullopt;
    return std::move(*made);
}

// That service counts first and looks then. The ids stay: a change of `rls.count` keeps the counts.
void count_all(limit::Policy& policy) {
    for (limit::Limit& limit : policy.limits) limit.count = limit::Count::all;
}

class FileReader {
  public:
    FileReader(Config& config, Rls& made, const Declared& declared)
        : config_(config), made_(made), declared_(declared) {}

    // `files`: of domains that were read, by domain.
    void read(const Value& root, const std::string& file,
              std::map<std::string, std::string>& files) {
        Section section(root, "a map: `{domain: ..., descriptors: [...]}`");
        const auto name = section.need("domain", "`domain: mongo_cps`");
        const auto descriptors = section.find("descriptors");
        section.refuse_others();
        if (!name) return;
        const auto domain = name->text("the name of the domain");
        if (!domain) return;
        RuleLevel* const level = made_.domains.add(*domain);
        if (level == nullptr) {
            name->fault("the domain " + quote(*domain) + " is in " + quote(files[*domain]) +
                        ", too: write all its descriptors into one of the two files");
            return;
        }
        files[*domain] = file;
        std::string path;
        append_printable(*domain, path);
        if (descriptors) read_level(*descriptors, path, *level);
    }

  private:
    void read_level(const Value& value, const std::string& path, RuleLevel& level) {
        constexpr ListRule kDescriptors{"a list of descriptors: `[{key: remote_address}]`",
                                        "descriptors", kRulesMax};
        for (const Value& item : value.items(kDescriptors)) read_rule(item, path, level);
    }

    std::optional<std::string> read_text(Section& section, std::string_view key) {
        const auto value = section.find(key);
        if (!value) return std::string();
        auto text = value->any_text();
        if (text && text->size() > kTextBytesMax) {
            value->fault("longer than " + std::to_string(kTextBytesMax) + " bytes");
            return std::nullopt;
        }
        return text;
    }

    void read_rule(const Value& value, const std::string& above, RuleLevel& level) {
        Section section(value, "a descriptor: `{key: remote_address}`");
        if (!section.need("key", "`key: remote_address`")) return;
        const auto key = section.find("key")->text("the key of a descriptor");
        const auto text = read_text(section, "value");
        Rule rule;
        bool is_shadow = false;
        bool is_told_by_value = false;
        const auto limit = section.find("rate_limit");
        const auto limits = section.find("rate_limits");
        const auto below = section.find("descriptors");
        section.toggle("shadow_mode", is_shadow);
        section.toggle("quota_mode", rule.is_quota);
        section.toggle("share_threshold", rule.shares_threshold);
        for (const std::string_view name : {"detailed_metric", "value_to_metric"}) {
            section.toggle(name, is_told_by_value);
            if (!is_told_by_value || std::exchange(has_warned_, true)) continue;
            section.find(name)->warn("has no effect: values of descriptors never become labels");
        }
        section.find("metadata");  // for dynamic_metadata, which is not sent
        section.refuse_others();
        if (!key || !text) return;
        rule.key = *key;
        rule.value = *text;
        if (key->find('*') != std::string::npos) {
            section.find("key")->fault("`*` stands for any text in a value, not in a key");
            return;
        }
        if (rule.shares_threshold && !rule.is_wildcard()) {
            section.find("share_threshold")
                ->fault("only with a `value` that has a `*`: `value: files/*`");
        }
        if (++rules_ > kRulesMax) {
            value.fault("more than " + std::to_string(kRulesMax) + " descriptors in all files");
            return;
        }
        std::string path = above + ".";
        append_printable(rule.key, path);
        if (!rule.value.empty()) {
            path += '_';
            append_printable(rule.value, path);
        }
        PolicySettings policy;
        policy.shadow = is_shadow;
        if (limit) read_limit_block(*limit, rule, policy);
        if (limits) read_more_limits(*limits, rule, policy);
        if (!policy.limits.empty()) rule.policy = add(path, std::move(policy));
        if (below) {
            rule.below = std::make_unique<RuleLevel>();
            read_level(*below, path, *rule.below);
        }
        if (!level.add(std::move(rule))) {
            value.fault("a descriptor with this key and value is in the list already");
        }
    }

    void read_limit_block(const Value& value, Rule& rule, PolicySettings& policy) {
        Section section(value, "a map: `{unit: second, requests_per_unit: 10}`");
        section.toggle("unlimited", rule.is_unlimited);
        if (const auto name = section.find("name")) rule.name = name->any_text().value_or("");
        if (const auto replaces = section.find("replaces")) read_replaces(*replaces, rule);
        const auto unit_value = section.find("unit");
        const auto requests_value = section.find("requests_per_unit");
        section.refuse_others();
        if (rule.is_unlimited) {
            if (unit_value) unit_value->fault("not beside `unlimited: true`");
            return;
        }
        if (!value.is_map()) return;
        if (!unit_value) {
            value.fault("the key `unit` is missing: write `unit: second`");
            return;
        }
        const auto unit = read_unit(*unit_value);
        // Without a number no request is admitted, as in that service.
        std::optional<std::int64_t> requests = 0;
        if (requests_value) requests = requests_value->integer({0, limit::kQuotaMax});
        if (!unit || !requests) return;
        auto made = limit_of(*requests, *unit, made_.algorithm);
        if (made) policy.limits.push_back(std::move(*made));
    }

    static std::optional<Unit> read_unit(const Value& value) {
        const auto text = value.text("a unit such as `second`");
        if (!text) return std::nullopt;
        for (const auto& [name, unit] : kUnitNames) {
            if (to_lower(*text) == name) return unit;
        }
        value.fault("unknown unit " + quote(*text) +
                    "; allowed here: `second`, `minute`, `hour`, `day`, `week`, `month`, `year`");
        return std::nullopt;
    }

    static void read_replaces(const Value& value, Rule& rule) {
        constexpr ListRule kNames{"a list of names: `[{name: other_limit}]`", "names", 64};
        for (const Value& item : value.items(kNames)) {
            Section section(item, "a map: `{name: other_limit}`");
            if (const auto name = section.need("name", "`name: other_limit`")) {
                auto text = name->text("the name of a limit");
                if (text && *text == rule.name) {
                    name->fault("a limit cannot replace itself");
                } else if (text) {
                    rule.replaces.push_back(std::move(*text));
                }
            }
            section.refuse_others();
        }
    }

    // A list of Tidegate's own limits, beside the one of `rate_limit` or in its place.
    static void read_more_limits(const Value& value, Rule& rule, PolicySettings& policy) {
        if (rule.is_unlimited) {
            value.fault("not beside `unlimited: true`");
            return;
        }
        Limits list = read_limits(value);
        report_notes(value, list);
        for (limit::Limit& one : list.limits) {
            if (one.settles() || one.traits().has_moments) {
                value.fault(
                    "Envoy does not say how a request ends: use another algorithm than "
                    "concurrency, leaky_bucket and schedule, and no `count` by status");
                return;
            }
            const bool is_known =
                std::any_of(policy.limits.begin(), policy.limits.end(),
                            [&](const limit::Limit& other) { return other.id == one.id; });
            if (is_known) {
                value.fault("`rate_limit` has the limit " + quote(one.name) + " already");
                return;
            }
            policy.limits.push_back(std::move(one));
        }
    }

    const PolicySettings* add(const std::string& path, PolicySettings&& policy) {
        if (made_.counts_all) count_all(policy);
        policy.name = std::string(kRlsPolicy) + path;
        // `a_b` may be a key, or a key with a value.
        for (int number = 2; !names_.insert(policy.name).second; ++number) {
            policy.name = std::string(kRlsPolicy) + path + "#" + std::to_string(number);
        }
        policy.key = {limit::single_key(limit::KeyPart::Kind::constant)};
        policy.on_store_failure = declared_.on_store_failure;
        return config_.policies[add_policy(std::move(policy), config_)].get();
    }

    Config& config_;
    Rls& made_;
    const Declared& declared_;
    std::set<std::string> names_;
    std::size_t rules_ = 0;
    bool has_warned_ = false;
};

// The files that a pattern names, in order. `--watch` looks for others, too.
std::vector<std::string> files_of(const Value& value, const std::string& pattern) {
    std::string path = value.context().resolve(pattern);
    std::vector<std::string> matches = files_that_match(path);
    note_pattern(std::move(path), matches, value.context().files_read);
    return matches;
}

void read_rls_file(const Value& value, const std::string& path, FileReader& reader,
                   std::map<std::string, std::string>& domains) {
    auto content = read_file_text(path, kFileBytesMax, FileKind::no_device);
    note_file(path, content ? std::optional<std::string_view>(content->text) : std::nullopt,
              value.context().files_read);
    if (!content || content->is_larger) {
        value.fault("the file " + quote(path) + " " +
                    (content ? "is larger than 1 MiB" : "cannot be read: " + content.error()));
        return;
    }
    const ReferencedFile file{path, std::move(content->text)};
    Context context = context_of(file, value.context());
    // That service's files are not ours: a dollar is a dollar, and YAML's anchors are YAML's.
    context.expands_variables = false;
    TreeNode tree = parse_document(file.text, context.faults, {.anchors = Anchors::read});
    const Place top = tree.kind == TreeNode::Kind::null ? Place{1, 1} : tree.place;
    reader.read(Value(context, tree, "", top), path, domains);
    for (const ConfigFault& warning : context.warnings) {
        value.warn(path + ":" + std::to_string(warning.place.line) + ": " + warning.message);
    }
    report_faults(std::move(context), value.context());
    value.context().rls_files.push_back(std::move(tree));
}

void read_files(const Value& value, FileReader& reader) {
    constexpr ListRule kFiles{"a file, or a list of them: `[\"ratelimit/*.yaml\"]`", "files",
                              kRlsFilesMax, "the list is empty: write `[\"ratelimit/*.yaml\"]`"};
    std::set<std::string> seen;
    std::map<std::string, std::string> domains;
    for (const Value& item : value.one_or_more(kFiles)) {
        const auto pattern = item.text("the path of a file, in which `*` may stand");
        if (!pattern) continue;
        const auto paths = files_of(item, *pattern);
        if (paths.empty()) item.fault("there is no file " + quote(*pattern));
        for (const std::string& path : paths) {
            if (!seen.insert(path).second) continue;
            if (seen.size() > kRlsFilesMax) {
                item.fault("more than " + std::to_string(kRlsFilesMax) + " files");
                return;
            }
            read_rls_file(item, path, reader, domains);
        }
    }
}

void add_override_policies(Config& config, Rls& made, const Declared& declared) {
    for (const auto& [name, unit] : kUnitNames) {
        PolicySettings policy;
        policy.name = std::string(kRlsOverridePolicy) + std::string(name);
        policy.key = {limit::single_key(limit::KeyPart::Kind::constant)};
        policy.on_store_failure = declared.on_store_failure;
        policy.limits.push_back(*limit_of(1, unit, made.algorithm));
        if (made.counts_all) count_all(policy);
        made.override_policies[static_cast<std::size_t>(unit)] =
            config.policies[add_policy(std::move(policy), config)].get();
    }
}

}  // namespace

const Keys<Rls>& rls_keys() {
    static const auto keys =
        Keys<Rls>("a map: `{files: [\"ratelimit/*.yaml\"]}`")
            .key("files", kind::one_or_more(kind::type("pattern"), {1, kRlsFilesMax}),
                 {"the files of Envoy's [rate limit service](envoy-grpc.md#the-files), paths in "
                  "which `*` may stand; only where a listener has `face: envoy_grpc`",
                  "required", "1,000 files, 100,000 descriptors in all"})
            .required("`files: [\"ratelimit/*.yaml\"]`")
            .word<Algorithm>(
                "algorithm", &Rls::algorithm,
                {{"fixed_window", Algorithm::fixed_window},
                 {"sliding_window", Algorithm::sliding_window}},
                {"how a `rate_limit` of these files counts: `fixed_window` or `sliding_window`"})
            .toggle(
                "overrides", &Rls::takes_overrides,
                {"whether a limit that a descriptor brings holds in place of the one in the files"})
            .word<bool>("unmatched", &Rls::denies_unmatched, {{"ok", false}, {"deny", true}},
                        {"what becomes of a descriptor that no rule is for: `ok` or `deny`"})
            .word<bool>(
                "count", &Rls::counts_all, {{"admitted", false}, {"all", true}},
                {"`admitted`: a call that one limit refuses takes nothing; `all`: each limit "
                 "counts it all the same, also the one that refuses"});
    return keys;
}

void read_rls(const Value& value, Config& config, Declared& declared) {
    declared.rls = value.place();
    auto made = std::make_unique<Rls>();
    Section section(value, rls_keys());
    section.not_available({"dynamic_metadata"});
    rls_keys().read(section, *made);
    const auto files = section.need("files");
    if (!config.has_face(Face::envoy_grpc)) {
        value.fault("has no effect: no listener has `face: envoy_grpc`");
        return;
    }
    FileReader reader(config, *made, declared);
    if (files) read_files(*files, reader);
    if (made->takes_overrides) add_override_policies(config, *made, declared);
    config.rls = std::move(made);
}

}  // namespace tidegate::config
