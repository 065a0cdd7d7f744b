// Reads a whole file: the text, what it includes, all sections, and what is wrong.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/file_work.hpp"
#include "base/text.hpp"
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

// `include`: which files belong to the configuration, and how they become part of its document.
namespace {

constexpr std::size_t kFilesMax = 1'000;
constexpr std::string_view kAllowed = "`upstreams`, `policies` and `routes`";

bool is_same_file(const std::string& path, const std::string& other) {
    std::error_code ec;
    const FileWait wait(path);
    return fs::equivalent(path, other, ec);
}

TreeEntry* entry_of(TreeNode& map, std::string_view key) {
    for (TreeEntry& entry : map.entries) {
        if (entry.key == key) return &entry;
    }
    return nullptr;
}

// Collects the files of all patterns.
class IncludeReader {
  public:
    explicit IncludeReader(Context& context) : context_(context) {}

    void read_pattern(const Value& value) {
        const auto text = value.text("a pattern such as `conf.d/*.yaml`");
        if (!text) return;
        const std::string pattern = context_.resolve(*text);
        const std::vector<std::string> matches = files_that_match(pattern);
        note_pattern(pattern, matches, context_.files_read);
        if (matches.empty()) return report_nothing(value, *text, pattern);
        for (const std::string& path : matches) read_file(value, path);
    }

    std::vector<IncludedFile> take() {
        std::sort(files_.begin(), files_.end(),
                  [](const IncludedFile& a, const IncludedFile& b) { return a.path < b.path; });
        return std::move(files_);
    }

  private:
    // A folder may be empty; but one that is not there, or a file, is rather misspelt. glob() takes
    // one that it may not read for an empty one.
    static void report_nothing(const Value& value, const std::string& text,
                               const std::string& pattern) {
        std::error_code ec;
        const fs::path folder = fs::path(pattern).parent_path();
        if (text.find_first_of("*?[") == text.npos) {
            return value.fault("there is no file " + quote(text));
        }
        const bool is_pattern = folder.string().find_first_of("*?[") != std::string::npos;
        if (folder.empty() || is_pattern) return;
        const std::string shown = quote(fs::path(text).parent_path().string());
        const FileWait wait(folder.string());
        if (!fs::is_directory(folder, ec)) {
            value.fault("there is no folder " + shown + ": create it, or correct the path");
        } else if (::access(folder.c_str(), R_OK) != 0) {
            value.fault("the folder " + shown +
                        " cannot be read: " + std::generic_category().message(errno));
        }
    }

    void read_file(const Value& value, const std::string& path) {
        const auto same = [&](const IncludedFile& other) { return other.path == path; };
        if (std::any_of(files_.begin(), files_.end(), same)) return;
        if (is_same_file(path, context_.file)) {
            return value.fault("this names " + quote(path) +
                               ", the file itself: put included files in a folder of their own, "
                               "such as `conf.d/*.yaml`");
        }
        if (files_.size() == kFilesMax) {
            return value.fault("more than " + std::to_string(kFilesMax) + " files");
        }
        auto file = read_file_text(path, kFileBytesMax, FileKind::no_device);
        if (!file) {
            note_file(path, std::nullopt, context_.files_read);
            return value.fault("the file " + quote(path) + " cannot be read: " + file.error());
        }
        note_file(path, file->text, context_.files_read);
        bytes_ += file->text.size();
        if (file->is_larger)
            return value.fault("the file " + quote(path) + " is larger than 1 MiB");
        if (bytes_ > kListBytesMax) return value.fault("the files together are larger than 16 MiB");
        files_.push_back({path, std::move(file->text)});
    }

    Context& context_;
    std::vector<IncludedFile> files_;
    std::size_t bytes_ = 0;
};

void set_file(TreeNode& node, int file) {
    node.place.file = file;
    for (TreeNode& item : node.items) set_file(item, file);
    for (TreeEntry& entry : node.entries) {
        entry.place.file = file;
        set_file(entry.value, file);
    }
}

// Puts what files have into one document.
class Merger {
  public:
    Merger(TreeNode& document, Context& context) : document_(document), context_(context) {}

    void add(const IncludedFile& included) {
        context_.included.push_back(included.path);
        const int file = static_cast<int>(context_.included.size());
        std::vector<ConfigFault> faults;
        TreeNode part = parse_document(included.text, faults);
        set_file(part, file);
        for (ConfigFault& fault : faults) {
            fault.place.file = file;
            context_.faults.push_back(std::move(fault));
        }
        if (part.kind == TreeNode::Kind::null) return;
        if (part.kind != TreeNode::Kind::map) {
            return value_of(part, "").wrong_kind("a map of " + std::string(kAllowed));
        }
        for (TreeEntry& entry : part.entries) add(std::move(entry));
    }

    // Last: the routes of all files come before those of the document.
    void finish() {
        if (routes_.empty()) return;
        TreeEntry& whole = *entry_of(document_, "routes");
        std::vector<TreeNode>& items = whole.value.items;
        items.insert(items.begin(), std::make_move_iterator(routes_.begin()),
                     std::make_move_iterator(routes_.end()));
    }

  private:
    Value value_of(const TreeNode& node, const std::string& name) {
        return {context_, node, name, node.place};
    }

    void add(TreeEntry&& entry) {
        if (entry.key == "upstreams" || entry.key == "policies") {
            add_named(std::move(entry));
        } else if (entry.key == "routes") {
            add_routes(std::move(entry));
        } else if (entry.key == "include") {
            context_.faults.push_back(
                {entry.place,
                 "an included file includes no other: list the file in " + quote(context_.file)});
        } else {
            context_.faults.push_back(
                {entry.place, quote(entry.key) + " cannot be in an included file: write it in " +
                                  quote(context_.file) +
                                  ". Allowed here: " + std::string(kAllowed)});
        }
    }

    // The document's own value of that key, of the same type. Null: it is of another type, which
    // its reader reports.
    TreeNode* counterpart(const TreeEntry& entry) {
        TreeEntry* const own = entry_of(document_, entry.key);
        if (own != nullptr) return own->value.kind == entry.value.kind ? &own->value : nullptr;
        TreeNode empty;
        empty.kind = entry.value.kind;
        empty.place = entry.value.place;
        document_.entries.push_back({entry.key, entry.place, std::move(empty)});
        return &document_.entries.back().value;
    }

    void add_named(TreeEntry&& entry) {
        if (entry.value.kind != TreeNode::Kind::map) {
            return value_of(entry.value, entry.key).wrong_kind("a map of " + entry.key);
        }
        TreeNode* const whole = counterpart(entry);
        if (whole == nullptr) return;
        for (TreeEntry& named : entry.value.entries) {
            const TreeEntry* const same = entry_of(*whole, named.key);
            if (same == nullptr) {
                whole->entries.push_back(std::move(named));
                continue;
            }
            context_.faults.push_back({named.place, entry.key + "." + named.key + ": " +
                                                        context_.shown(same->place) +
                                                        " has this name already: choose another"});
        }
    }

    void add_routes(TreeEntry&& entry) {
        if (entry.value.kind != TreeNode::Kind::sequence) {
            return value_of(entry.value, entry.key).wrong_kind("a list of routes");
        }
        if (counterpart(entry) == nullptr) return;
        routes_.insert(routes_.end(), std::make_move_iterator(entry.value.items.begin()),
                       std::make_move_iterator(entry.value.items.end()));
    }

    TreeNode& document_;
    Context& context_;
    std::vector<TreeNode> routes_;
};

}  // namespace

std::vector<IncludedFile> read_included(const TreeNode& document, Context& context) {
    constexpr ListRule kPatterns{"a pattern such as `conf.d/*.yaml`, or a list of these",
                                 "patterns", 64};
    IncludeReader reader(context);
    for (const TreeEntry& entry : document.entries) {
        if (entry.key != "include") continue;
        const Value value(context, entry.value, entry.key, entry.value.place);
        for (const Value& item : value.one_or_more(kPatterns)) reader.read_pattern(item);
    }
    return reader.take();
}

void merge_included(const std::vector<IncludedFile>& files, TreeNode& document, Context& context) {
    Merger merger(document, context);
    for (const IncludedFile& file : files) merger.add(file);
    merger.finish();
}

// The configurations of `tidegate quickstart`, which the program contains.
std::string_view quickstart_text() {
    return R"yaml(# yaml-language-server: $schema=tidegate.schema.json
# What `tidegate quickstart` runs: copy it and begin to change.
# Ten requests a minute for each client, in front of the built-in echo upstream; the eleventh
# request within a minute is answered 429.
listen: 127.0.0.1:8080       # this machine only; `8080` for every address
admin: 127.0.0.1:9901        # /metrics, /healthz, /readyz
upstream: http://127.0.0.1:9000
limits: [10/min]
)yaml";
}

std::string_view quickstart_text(Face face) {
    switch (face) {
        case Face::proxy:
            return quickstart_text();
        case Face::forward_auth:
            return R"yaml(listen: {address: "127.0.0.1:8181", face: forward_auth, dialect: nginx}
admin: 127.0.0.1:9901
limits: [10/min]
)yaml";
        case Face::check:
        case Face::envoy_grpc:  // has none: Envoy's own configuration is the long one
            break;
    }
    return R"yaml(listen: {address: "127.0.0.1:8181", face: check}
admin: 127.0.0.1:9901
policies: {per-user: {key: [user], limits: [10/min]}}
)yaml";
}

Loaded quickstart(Face face) {
    return load_text(quickstart_text(face), "quickstart");
}

std::string_view quickstart_tls_text() {
    return R"yaml(listen:
  - address: 127.0.0.1:8443
    tls: {certificates: [{certificate: tidegate-quickstart.pem, key: tidegate-quickstart.key}]}
  - {address: "127.0.0.1:8080", redirect: https}
admin: 127.0.0.1:9901
upstream: http://127.0.0.1:9000
limits: [10/min]
)yaml";
}

Loaded quickstart_tls() {
    return load_text(quickstart_tls_text(), "quickstart");
}

}  // namespace tidegate::config
