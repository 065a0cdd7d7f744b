// The file that `identity.users` names: `alice: {tier: pro}`. As strict as the configuration.
#include <utility>

#include "base/quote.hpp"
#include "config/read_sections.hpp"
#include "config/referenced_file.hpp"
#include "identity/name_rules.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kUserBytesMax = 1'024;

void read_one(const std::string& user, const Value& value, Config& config, Declared& declared) {
    Section section(value, "a map: `{tier: pro}`");
    std::optional<std::string> tier;
    if (const auto name = section.need("tier", "`tier: pro`")) tier = name->identifier();
    section.refuse_others();
    if (user.empty() || user.size() > kUserBytesMax) {
        value.fault("the name of a user has 1 to " + std::to_string(kUserBytesMax) + " bytes");
        return;
    }
    if (!identity::is_plain_name(user)) {
        value.fault("this is not a valid name: " + std::string(kPlainNames));
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
    const auto file = read_referenced_file(value, "users.yaml", kListBytesMax);
    if (!file) return;
    warn_if_world_writable(value, *file);
    Context context = context_of(*file, value.context());
    const TreeNode tree =
        parse_document(file->text, context.faults, {MapKeys::shown, kListBytesMax});
    if (tree.kind != TreeNode::Kind::null) {
        const Value root(context, tree, "", tree.place);
        constexpr ListRule kUsers{"a map of users: `alice: {tier: pro}`"};
        for (const auto& [user, entry] : root.named(kUsers, false)) {
            read_one(user, entry, config, declared);
        }
    }
    report_faults(std::move(context), value.context());
}

}  // namespace tidegate::config
