#include "faces/check_call.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "limit/algorithm.hpp"

namespace tidegate::faces {

namespace {

// The place of a value in a body. Written out only when there is a fault.
struct BodyPlace {
    const BodyPlace* outer = nullptr;  // null: the body itself
    std::string_view name{};
    std::optional<std::size_t> position{};  // in the list of that name

    std::string text() const {
        std::string out = outer != nullptr ? outer->text() : "";
        if (!out.empty()) out += '.';
        out += name;
        if (position) out += "[" + std::to_string(*position) + "]";
        return out;
    }
    BodyPlace below(std::string_view member) const { return {this, member}; }
    bool is_top() const { return outer == nullptr; }
};
constexpr BodyPlace kTop;

// Thrown while a body is read, and caught before the reader returns.
struct WrongCheckCall {
    std::string sentence;
};

[[noreturn]] void wrong(const BodyPlace& place, const std::string& sentence) {
    throw WrongCheckCall{place.is_top() ? sentence : place.text() + ": " + sentence};
}

void refuse_controls(std::string_view text, const BodyPlace& place) {
    if (has_control(text)) wrong(place, "a control character cannot stand here");
}

std::string_view text_at(const JsonNode& value, const BodyPlace& place) {
    if (value.kind != JsonNode::Kind::string) wrong(place, "write a string");
    refuse_controls(value.text, place);
    return value.text;
}

// Whether it may be a decimal depends on its policy: see units_of().
double cost_at(const JsonNode& value, const BodyPlace& place) {
    const bool is_number =
        value.kind == JsonNode::Kind::whole || value.kind == JsonNode::Kind::decimal;
    if (!is_number || value.decimal < 0) wrong(place, cost_rule(false));
    return value.kind == JsonNode::Kind::whole ? static_cast<double>(value.number) : value.decimal;
}

// Of a request, whose cost counts units.
double request_cost_at(const JsonNode& value, const BodyPlace& place) {
    const double cost = cost_at(value, place);
    if (!units_of(cost, false)) wrong(place, cost_rule(false));
    return cost;
}

std::chrono::seconds ttl_at(const JsonNode& value, const BodyPlace& place) {
    constexpr std::array<std::pair<std::string_view, std::chrono::seconds>, 3> kUnits{
        {{"s", std::chrono::seconds{1}},
         {"min", std::chrono::minutes{1}},
         {"h", std::chrono::hours{1}}}};
    constexpr std::size_t kDigitsMax = 5;
    const std::string_view text = text_at(value, place);
    const std::string_view digits = text.substr(0, text.find_first_not_of("0123456789"));
    const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const auto& one) {
        return one.first == text.substr(digits.size());
    });
    if (!digits.empty() && digits.size() <= kDigitsMax && unit != kUnits.end()) {
        const std::chrono::seconds ttl = std::stoi(std::string(digits)) * unit->second;
        if (ttl.count() > 0 && ttl <= kReserveTimeMax) return ttl;
    }
    wrong(place, "write a time from `1s` to `24h`");
}

// One body. A fault in it throws.
class CheckCallReader {
  public:
    explicit CheckCallReader(std::string_view body) : tree_(tree_of(body)) {}

    CheckCall check_call(bool reserves) const {
        CheckCall call;
        const JsonNode* const ttl = top("ttl");
        if (reserves && ttl != nullptr) call.ttl = ttl_at(*ttl, kTop.below("ttl"));
        const JsonNode* const all = top("all");
        const JsonNode* const each = top("each");
        if (each != nullptr && reserves) {
            wrong(kTop.below("each"),
                  "reserve takes all or nothing: write `all`, or a call for each");
        }
        if (all == nullptr && each == nullptr) {
            read_item(tree_.root(), reserves, kTop, call.items.emplace_back());
            return call;
        }
        const std::string_view name = all != nullptr ? "all" : "each";
        if (reserves) {
            refuse_others(tree_.root(), {"all", "ttl"}, kTop);
        } else {
            refuse_others(tree_.root(), {name}, kTop);
        }
        call.form = all != nullptr ? CheckCall::Form::all : CheckCall::Form::each;
        read_list(all != nullptr ? *all : *each, name, call.items);
        return call;
    }

    SettleCall settle_call() const {
        refuse_others(tree_.root(), {"id", "cost", "costs"}, kTop);
        const JsonNode* const id = top("id");
        const JsonNode* const cost = top("cost");
        const JsonNode* const costs = top("costs");
        if (id == nullptr || (cost == nullptr) == (costs == nullptr)) {
            wrong(kTop,
                  "write `id`, which a reservation was answered with, and its true `cost`, or "
                  "`costs`, one for each item");
        }
        SettleCall call{std::string(text_at(*id, kTop.below("id"))), {}, costs != nullptr};
        if (costs != nullptr) {
            read_costs(*costs, call.costs);
        } else {
            call.costs.push_back(cost_at(*cost, kTop.below("cost")));
        }
        return call;
    }

  private:
    static JsonTree tree_of(std::string_view body) {
        auto tree = read_json_tree(body);
        if (!tree) throw WrongCheckCall{"the body is no JSON object: " + tree.error()};
        return std::move(*tree);
    }

    const JsonNode* top(std::string_view name) const { return tree_.member(tree_.root(), name); }

    void refuse_others(const JsonNode& object, std::initializer_list<std::string_view> known,
                       const BodyPlace& place) const {
        for (const JsonNode& one : tree_.children(object)) {
            if (std::find(known.begin(), known.end(), one.name) != known.end()) continue;
            std::string names;
            for (const std::string_view name : known) {
                names.append(names.empty() ? "" : ", ").append("`").append(name).append("`");
            }
            wrong(place, "there is no member " + quote(one.name) + " here; there may be " + names);
        }
    }

    void read_costs(const JsonNode& value, std::vector<double>& costs) const {
        constexpr std::string_view kName = "costs";
        if (value.kind != JsonNode::Kind::array || value.size == 0 || value.size > kCostsMax) {
            wrong(kTop.below(kName), "write a list with the true cost of each item");
        }
        for (const JsonNode& one : tree_.children(value)) {
            costs.push_back(cost_at(one, {&kTop, kName, costs.size()}));
        }
    }

    void read_list(const JsonNode& value, std::string_view name,
                   std::vector<CheckItem>& items) const {
        if (value.kind != JsonNode::Kind::array || value.size == 0 || value.size > kCheckItemsMax) {
            wrong(kTop.below(name),
                  "write a list of 1 to " + std::to_string(kCheckItemsMax) + " questions");
        }
        items.resize(value.size);
        const auto values = tree_.children(value);
        for (std::size_t i = 0; i < values.size(); ++i) {
            read_item(values[i], false, {&kTop, name, i}, items[i]);
        }
    }

    // At the top of a reservation its own members are beside those of the item.
    void read_item(const JsonNode& value, bool reserves, const BodyPlace& place,
                   CheckItem& item) const {
        if (value.kind != JsonNode::Kind::object) {
            wrong(place, "write an object: `{\"policy\": \"per-user\", ...}`");
        }
        if (reserves && place.is_top()) {
            refuse_others(value, {"policy", "identifiers", "request", "cost", "ttl"}, place);
        } else {
            refuse_others(value, {"policy", "identifiers", "request", "cost"}, place);
        }
        const JsonNode* const policy = tree_.member(value, "policy");
        const JsonNode* const identifiers = tree_.member(value, "identifiers");
        const JsonNode* const request = tree_.member(value, "request");
        if (const JsonNode* const cost = tree_.member(value, "cost")) {
            const BodyPlace at = place.below("cost");
            item.cost = policy != nullptr ? cost_at(*cost, at) : request_cost_at(*cost, at);
        }
        if ((policy != nullptr) == (request != nullptr)) {
            wrong(place, "write `policy` with `identifiers`, or `request`");
        }
        if (request != nullptr) {
            if (identifiers != nullptr) {
                wrong(place.below("identifiers"),
                      "a `request` identifies its client by itself: leave this out");
            }
            return read_request(*request, place.below("request"), item.request);
        }
        item.policy = text_at(*policy, place.below("policy"));
        if (item.policy.empty()) wrong(place.below("policy"), "write the name of a policy");
        if (identifiers != nullptr) {
            read_pairs(*identifiers, place.below("identifiers"), item.identifiers);
        }
    }

    using Pairs = std::vector<std::pair<std::string, std::string>>;

    void read_pairs(const JsonNode& value, const BodyPlace& place, Pairs& pairs) const {
        if (value.kind != JsonNode::Kind::object) wrong(place, "write an object of strings");
        pairs.reserve(value.size);
        for (const JsonNode& one : tree_.children(value)) {
            refuse_controls(one.name, place);
            pairs.emplace_back(one.name, text_at(one, place.below(one.name)));
        }
    }

    void read_request(const JsonNode& value, const BodyPlace& place,
                      CheckItem::Request& request) const {
        if (value.kind != JsonNode::Kind::object) {
            wrong(place, "write an object: `{\"path\": \"/v1/x\"}`");
        }
        refuse_others(value, {"method", "path", "host", "from", "headers"}, place);
        for (const JsonNode& one : tree_.children(value)) {
            const BodyPlace at = place.below(one.name);
            if (one.name == "headers") {
                read_pairs(one, at, request.headers);
            } else if (one.name == "from") {
                request.from = parse_ip(text_at(one, at));
                if (!request.from) wrong(at, "write an IP address such as `203.0.113.7`");
            } else {
                std::string& member = one.name == "method" ? request.method
                                      : one.name == "path" ? request.path
                                                           : request.host;
                member = text_at(one, at);
            }
        }
        if (tree_.member(value, "path") == nullptr) {
            wrong(place, "write the `path` of the request: `{\"path\": \"/v1/x\"}`");
        }
    }

    JsonTree tree_;
};

template <class Call, class Read>
Result<Call, std::string> guarded(Read read) {
    try {
        return read();
    } catch (WrongCheckCall& fault) {
        return {boost::system::in_place_error, std::move(fault.sentence)};
    }
}

constexpr std::int64_t kMicroDollars = 1'000'000;
constexpr std::int64_t kDollarsMax = 1'000'000'000;

}  // namespace

std::optional<std::int64_t> units_of(double stated, bool in_money) {
    if (!in_money) {
        const bool is_units =
            stated <= static_cast<double>(limit::kQuotaMax) && std::floor(stated) == stated;
        return is_units ? std::optional(static_cast<std::int64_t>(stated)) : std::nullopt;
    }
    if (stated > static_cast<double>(kDollarsMax)) return std::nullopt;
    // Rounded up, but for what only the binary form of a decimal number adds.
    constexpr double kNoise = 1e-6;
    constexpr double kNoiseShare = 4e-16;
    const double millionths = stated * kMicroDollars;
    const double noise = std::max(kNoise, millionths * kNoiseShare);
    return static_cast<std::int64_t>(std::max(0.0, std::ceil(millionths - noise)));
}

std::string cost_rule(bool in_money) {
    if (in_money) return "write dollars, a number from 0 to " + std::to_string(kDollarsMax);
    return "write a whole number from 0 to " + std::to_string(limit::kQuotaMax);
}

void append_cost(std::int64_t units, bool in_money, std::string& out) {
    out += std::to_string(in_money ? units / kMicroDollars : units);
    if (!in_money || units % kMicroDollars == 0) return;
    std::string decimals = std::to_string(kMicroDollars + units % kMicroDollars);
    while (decimals.ends_with('0')) decimals.pop_back();
    out.append(1, '.').append(decimals, 1);
}

Result<CheckCall, std::string> read_check_call(std::string_view body, bool reserves) {
    return guarded<CheckCall>([&] { return CheckCallReader(body).check_call(reserves); });
}

Result<SettleCall, std::string> read_settle_call(std::string_view body) {
    return guarded<SettleCall>([&] { return CheckCallReader(body).settle_call(); });
}

}  // namespace tidegate::faces
