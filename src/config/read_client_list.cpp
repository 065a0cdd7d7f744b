// `exempt` and `deny` of a policy: networks, users, tiers, `authenticated` and `anonymous`.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "config/read_sections.hpp"
#include "identity/identifier.hpp"

namespace tidegate::config {

namespace {

constexpr std::string_view kUser = "user:";
constexpr std::string_view kTier = "tier:";
constexpr std::string_view kWantedClient =
    "a network such as `10.0.0.0/8`, `user:NAME`, `tier:NAME`, `authenticated` or `anonymous`";

bool is_pattern(std::string_view name) {
    return name.find_first_of("*?") != name.npos || name.starts_with("regex:");
}

// What to write instead of a pattern: names are compared whole. Empty: `text` is no pattern.
std::string advice_about_pattern(std::string_view text) {
    if (text == "user:*") return "for every user with a checked credential, write `authenticated`";
    if (text.starts_with(kUser) && is_pattern(text.substr(kUser.size()))) {
        return "users are compared by their whole name: list each as `user:NAME`, or give them a "
               "tier and write `tier:NAME`";
    }
    if (text.starts_with(kTier) && is_pattern(text.substr(kTier.size()))) {
        return "tiers are compared by their whole name: list each as `tier:NAME`";
    }
    if (text == "*" || text == "all" || text == "any") {
        return "for every client, write `authenticated` and `anonymous`; for every address, "
               "`0.0.0.0/0` and `::/0`";
    }
    if (text.find('*') != text.npos) return "write an address range as a network: `10.0.0.0/8`";
    return {};
}

// The words that people try for `authenticated` and `anonymous`; empty: none of these.
std::string_view word_meant(std::string_view text) {
    if (text == "user" || text == "users" || text == "authorized") return "authenticated";
    if (text == "anon" || text == "guest" || text == "unauthenticated") return "anonymous";
    return {};
}

class ClientListReader {
  public:
    explicit ClientListReader(identity::ClientList& list) : list_(list) {}

    void read(const Value& item, const std::string& text) {
        const std::string advice = advice_about_pattern(text);
        if (!advice.empty()) return item.fault(quote(text) + " is a pattern: " + advice);
        if (text == "authenticated") return add_word(item, text, list_.authenticated);
        if (text == "anonymous") return add_word(item, text, list_.anonymous);
        if (text.size() > kUser.size() && text.starts_with(kUser)) return add_user(item, text);
        if (text.size() > kTier.size() && text.starts_with(kTier)) return add_tier(item, text);
        if (const auto network = parse_network(text)) {
            networks_.push_back(*network);
            return;
        }
        const std::string right = advice_about_network(text);
        if (!right.empty()) return item.fault(quote(text) + " is not a network: " + right);
        std::string fault = quote(text) + " is not " + std::string(kWantedClient);
        const std::string_view meant = word_meant(text);
        if (!meant.empty()) fault += "; did you mean " + quote(meant) + "?";
        item.fault(fault);
    }

    void finish() {
        list_.networks = IpNetworks(std::move(networks_));
        std::sort(list_.users.begin(), list_.users.end());
        std::sort(list_.tiers.begin(), list_.tiers.end());
        list_.by_user =
            list_.authenticated || list_.anonymous || !list_.users.empty() || !list_.tiers.empty();
    }

  private:
    static void add_word(const Value& item, const std::string& text, bool& is_listed) {
        if (is_listed) return item.fault(quote(text) + " is listed twice");
        is_listed = true;
    }

    void add_user(const Value& item, const std::string& text) {
        std::string name = text.substr(kUser.size());
        if (!identity::is_plain_name(name)) {
            return item.fault(quote(text) + " is not a user: " + std::string(kPlainNames));
        }
        list_.users.push_back(std::move(name));
    }

    void add_tier(const Value& item, const std::string& text) {
        std::string name = text.substr(kTier.size());
        if (!identity::is_tier_name(name)) {
            return item.fault(quote(text) +
                              " is not a tier: names of tiers are letters, digits, `-`, `_` and "
                              "`.`, at most 64");
        }
        list_.tiers.push_back(std::move(name));
    }

    identity::ClientList& list_;
    std::vector<IpNetwork> networks_;
};

}  // namespace

void read_client_list(const Value& value, identity::ClientList& list) {
    constexpr ListRule kMembers{"a list of networks, users and tiers: `[10.0.0.0/8]`",
                                "networks, users and tiers", 10'000};
    ClientListReader reader(list);
    for (const Value& item : value.one_or_more(kMembers)) {
        if (const auto text = item.text(kWantedClient)) reader.read(item, *text);
    }
    reader.finish();
}

}  // namespace tidegate::config
