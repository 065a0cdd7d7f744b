// The file that `identity.users` names: `alice: {tier: pro}`. As strict as the configuration.
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/quote.hpp"
#include "config/sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kUserBytesMax = 1'024;

// Not more than one byte beyond what parse_document() takes.
std::optional<std::string> content_of(const std::string& path) {
    std::error_code ec;
    // Whatever else opens may never end.
    if (!std::filesystem::is_regular_file(path, ec)) return std::nullopt;
    std::ifstream file(path, std::ios::binary);
    std::string text(kFileBytesMax + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.is_open() || file.bad()) return std::nullopt;
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

void read_one(const std::string& user, const Value& value, Config& config, Declared& declared) {
    Section section(value, "a map: `{tier: pro}`");
    std::optional<std::string> tier;
    if (const auto name = section.need("tier", "`tier: pro`")) tier = name->identifier();
    section.refuse_others();
    if (user.empty() || user.size() > kUserBytesMax) {
        value.fault("the name of a user has 1 to " + std::to_string(kUserBytesMax) + " bytes");
        return;
    }
    if (!tier) return;
    const Place place = section.find("tier")->place();
    declared.user_tiers.try_emplace(
        *tier, Diagnostic{value.context().file, place.line, place.column,
                          value.name() + ".tier: no policy has a tier " + quote(*tier)});
    config.user_tiers.insert_or_assign(user, std::move(*tier));
}

}  // namespace

void read_users(const Value& value, Config& config, Declared& declared) {
    const auto path = value.text("the path of a file such as `users.yaml`");
    if (!path) return;
    Context& outer = value.context();
    Context context;
    context.file = outer.resolve(*path);
    context.folder = outer.folder;
    context.environment = outer.environment;
    const auto text = content_of(context.file);
    if (!text) {
        value.fault("the file " + quote(*path) + " cannot be read");
        return;
    }
    const TreeNode tree = parse_document(*text, context.faults);
    if (tree.kind != TreeNode::Kind::null) {
        const Value root(context, tree, "", tree.place);
        for (const auto& [user, entry] :
             root.named("a map of users: `alice: {tier: pro}`", false)) {
            read_one(user, entry, config, declared);
        }
    }
    for (Fault& fault : context.faults) {
        outer.other_errors.push_back(
            {context.file, fault.place.line, fault.place.column, std::move(fault.message)});
    }
}

}  // namespace tidegate::config
