// Reads a whole file: the text, what it includes, all sections, and what is wrong.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/file_work.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "base/utf8.hpp"
#include "config/config.hpp"
#include "config/files.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/value.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTooLarge = "the file is larger than 1 MiB";
static_assert(kFileBytesMax == 1'048'576);

bool is_before(const ConfigFault& a, const ConfigFault& b) {
    return std::tie(a.place.file, a.place.line, a.place.column) <
           std::tie(b.place.file, b.place.line, b.place.column);
}

// Those of the file itself first, then those of each included one.
std::vector<Diagnostic> diagnostics(std::vector<ConfigFault>&& faults, const Context& context) {
    std::stable_sort(faults.begin(), faults.end(), is_before);
    std::vector<Diagnostic> out;
    out.reserve(faults.size());
    for (ConfigFault& fault : faults) {
        out.push_back({context.file_of(fault.place), fault.place.line, fault.place.column,
                       std::move(fault.message)});
    }
    return out;
}

std::vector<std::string> each_once(std::vector<std::string>&& files) {
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    return std::move(files);
}

std::string about_idle(const std::string& name, const IdleRule& rule) {
    return name + ": has no effect: " + rule.why;
}

// Routes are often shared with a Tidegate that is a proxy: some rules have one warning for all.
void warn_about_idle_keys(const Config& config, const Declared& declared, Context& context) {
    std::vector<ConfigFault> together;
    const IdleRule* rule = nullptr;
    for (const Context::MaybeIdle& one : context.maybe_idle) {
        if (one.rule->has_effect(config, declared)) continue;
        if (one.rule->warns_for_all) {
            together.push_back(one.key);
            rule = one.rule;
        } else {
            context.warnings.push_back({one.key.place, about_idle(one.key.message, *one.rule)});
        }
    }
    if (rule == nullptr) return;
    const ConfigFault& first = *std::min_element(together.begin(), together.end(), is_before);
    std::string message = about_idle(first.message, *rule);
    if (const std::size_t more = together.size() - 1; more != 0) {
        message += "; the same holds for " +
                   (more == 1 ? "another setting" : std::to_string(more) + " other settings");
    }
    context.warnings.push_back({first.place, std::move(message)});
}

// What a request has to know of each list of limits, computed once.
LimitList list_of(const PolicySettings& policy, const limit::Tier* tier) {
    LimitList list;
    list.policy = &policy;
    list.tier = tier;
    list.horizon = limit::kDurationMax;
    list.settles = policy.cost != nullptr && policy.cost->settles();
    for (const limit::Limit& limit : list.limits()) {
        list.settles = list.settles || limit.settles();
        list.counts_grpc = list.counts_grpc || limit.counts_grpc();
        if (!limit.traits().has_moments) continue;
        list.schedules = true;
        list.horizon = std::min(list.horizon, limit.horizon);
    }
    return list;
}

void list_limits(Config& config) {
    for (const auto& policy : config.policies) {
        config.limit_lists.push_back(list_of(*policy, nullptr));
        for (const limit::Tier& tier : policy->tiers) {
            config.limit_lists.push_back(list_of(*policy, &tier));
        }
    }
}

// `known`: the included files, where they are not to be read again.
Loaded load(std::string_view text, Context context,
            const std::vector<IncludedFile>* known = nullptr) {
    TreeNode tree = parse_document(text, context.faults);
    std::vector<IncludedFile> included = known == nullptr ? read_included(tree, context) : *known;
    merge_included(included, tree, context);
    const Place top = tree.kind == TreeNode::Kind::null ? Place{1, 1} : tree.place;
    auto config = std::make_shared<Config>();
    Declared declared;
    read_root(Value(context, tree, "", top), *config, declared);
    settle_cors(*config, declared);
    settle_overrides(*config, declared);
    settle_bodies(*config, declared);
    list_limits(*config);
    check_limit_names(*config, declared, context);
    tell_methods_what_counts(*config);
    list_credential_fields(*config);
    check_faces(*config, declared, context);
    const bool right = context.faults.empty() && context.other_errors.empty();
    if (right) {
        warn_about_idle_keys(*config, declared, context);
        warn_about(*config, declared, context);
    }

    Loaded loaded;
    loaded.files_read = std::move(context.files_read);
    loaded.errors = diagnostics(std::move(context.faults), context);
    std::move(context.other_errors.begin(), context.other_errors.end(),
              std::back_inserter(loaded.errors));
    loaded.warnings = diagnostics(std::move(context.warnings), context);
    if (!right) return loaded;
    config->files = each_once(std::move(context.files));
    std::vector<Diagnostic> tiers = warnings_about_tiers(*config, declared);
    std::move(tiers.begin(), tiers.end(), std::back_inserter(loaded.warnings));
    config->shown = shown_of(tree, context);
    config->source = {context.file, context.folder, std::string(text)};
    config->included = std::move(included);
    loaded.config = std::move(config);
    return loaded;
}

Loaded unreadable(const std::string& path, std::string message) {
    Loaded loaded;
    if (path != kShownStandardInput) note_file(path, std::nullopt, loaded.files_read);
    loaded.errors.push_back({path, 0, 0, std::move(message)});
    return loaded;
}

// On a thread that may wait for files.
Loaded load_named(const std::string& path, Environment environment, Occasion occasion) {
    if (path == kStandardInput) {
        const auto input = read_standard_input(kFileBytesMax);
        if (!input) return unreadable(kShownStandardInput, "cannot be read: " + input.error());
        if (input->is_larger) return unreadable(kShownStandardInput, std::string(kTooLarge));
        return load_text(input->text, kShownStandardInput, environment, occasion);
    }
    const auto file = read_named_file(path);
    if (!file) return unreadable(path, file.error());

    Context context;
    context.file = path;
    context.folder = std::filesystem::path(path).parent_path().string();
    context.environment = environment;
    context.occasion = occasion;
    note_file(path, file->text, context.files_read);
    return load(file->text, std::move(context));
}

}  // namespace

std::string Diagnostic::to_string() const {
    if (line == 0) return file + ": " + message;
    return file + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + message;
}

Loaded load_file(const std::string& path, Environment environment, Occasion occasion,
                 const FileNotice& notice) try {
    return with_file_patience([=] { return load_named(path, environment, occasion); }, notice);
} catch (const NoAnswerFromFile& silent) {
    Loaded loaded;
    loaded.errors.push_back({path, 0, 0, silent.what()});
    return loaded;
}

Loaded load_text(std::string_view text, const std::string& name, Environment environment,
                 Occasion occasion) {
    Context context;
    context.file = name;
    context.environment = environment;
    context.occasion = occasion;
    return load(text, std::move(context));
}

Loaded reread(const Config& config, Environment environment) {
    Context context;
    context.file = config.source.file;
    context.folder = config.source.folder;
    context.occasion = Occasion::reload;
    context.environment = environment;
    return load(config.source.text, std::move(context), &config.included);
}

namespace {

std::vector<Diagnostic> diagnostics_of(const std::vector<ConfigFault>& faults,
                                       const std::string& file) {
    std::vector<Diagnostic> out;
    out.reserve(faults.size());
    for (const ConfigFault& fault : faults) {
        out.push_back({file, fault.place.line, fault.place.column, fault.message});
    }
    return out;
}

LoadedAdmin load_admin_of(const std::string& path, Environment environment) {
    LoadedAdmin loaded;
    const auto file = read_named_file(path);
    if (!file) {
        loaded.errors.push_back({path, 0, 0, file.error()});
        return loaded;
    }
    std::vector<ConfigFault> faults;
    const TreeNode tree = parse_document(file->text, faults);
    if (tree.kind == TreeNode::Kind::broken) {
        loaded.errors = diagnostics_of(faults, path);
        return loaded;
    }
    Context context;
    context.file = path;
    context.folder = std::filesystem::path(path).parent_path().string();
    context.environment = environment;
    Config config;
    config.admin = default_admin();
    const Value root(context, tree, "", tree.place);
    if (root.is_map()) {
        if (const auto admin = Section(root, root_keys()).find("admin")) read_admin(*admin, config);
    }
    loaded.errors = diagnostics_of(context.faults, path);
    if (loaded.errors.empty()) loaded.admin = std::move(config.admin);
    return loaded;
}

}  // namespace

LoadedAdmin load_admin(const std::string& path, Environment environment) try {
    return with_file_patience([=] { return load_admin_of(path, environment); });
} catch (const NoAnswerFromFile& silent) {
    LoadedAdmin loaded;
    loaded.errors.push_back({path, 0, 0, silent.what()});
    return loaded;
}

}  // namespace tidegate::config
