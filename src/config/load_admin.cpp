#include "config/load_admin.hpp"

#include <filesystem>
#include <utility>

#include "base/file_work.hpp"
#include "config/file_text.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/section.hpp"
#include "config/yaml_document.hpp"

namespace tidegate::config {

namespace {

std::vector<Diagnostic> diagnostics_of(const std::vector<Fault>& faults, const std::string& file) {
    std::vector<Diagnostic> out;
    out.reserve(faults.size());
    for (const Fault& fault : faults) {
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
    std::vector<Fault> faults;
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
