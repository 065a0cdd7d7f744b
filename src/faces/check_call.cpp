#include "faces/check_call.hpp"

#include <algorithm>
#include <initializer_list>

#include <nlohmann/json.hpp>

#include "base/quote.hpp"
#include "base/strict_json.hpp"
#include "limit/algorithm.hpp"

namespace tidegate::faces {

namespace {

// Thrown while a body is read, and caught before the reader returns.
struct Wrong {
    std::string sentence;
};

[[noreturn]] void wrong(const std::string& place, const std::string& sentence) {
    throw Wrong{place.empty() ? sentence : place + ": " + sentence};
}

std::string below(const std::string& place, std::string_view name) {
    return place.empty() ? std::string(name) : place + "." + std::string(name);
}

void refuse_others(const JsonValue& object, std::initializer_list<std::string_view> known,
                   const std::string& place) {
    for (const auto& [name, value] : object.items()) {
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        std::string names;
        for (const std::string_view one : known) {
            names.append(names.empty() ? "" : ", ").append("`").append(one).append("`");
        }
        wrong(place, "there is no member " + quote(name) + " here; there may be " + names);
    }
}

void refuse_controls(std::string_view text, const std::string& place) {
    const bool has_control = std::any_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    });
    if (has_control) wrong(place, "a control character cannot stand here");
}

std::string text_at(const JsonValue& value, const std::string& place) {
    if (!value.is_string()) wrong(place, "write a string");
    refuse_controls(text_of(value), place);
    return std::string(text_of(value));
}

std::int64_t cost_at(const JsonValue& value, const std::string& place) {
    const bool is_whole =
        value.is_number_unsigned() && value.get<std::uint64_t>() <= std::uint64_t{limit::kQuotaMax};
    if (!is_whole) {
        wrong(place, "write a whole number from 0 to " + std::to_string(limit::kQuotaMax));
    }
    return value.get<std::int64_t>();
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs pairs_at(const JsonValue& value, const std::string& place) {
    if (!value.is_object()) wrong(place, "write an object of strings");
    Pairs pairs;
    for (const auto& [name, one] : value.items()) {
        refuse_controls(name, place);
        pairs.emplace_back(name, text_at(one, below(place, name)));
    }
    return pairs;
}

CheckItem::Request request_at(const JsonValue& value, const std::string& place) {
    if (!value.is_object()) wrong(place, "write an object: `{\"path\": \"/v1/x\"}`");
    refuse_others(value, {"method", "path", "host", "from", "headers"}, place);
    CheckItem::Request request;
    for (const auto& [name, one] : value.items()) {
        const std::string at = below(place, name);
        if (name == "headers") {
            request.headers = pairs_at(one, at);
        } else if (name == "from") {
            request.from = parse_ip(text_at(one, at));
            if (!request.from) wrong(at, "write an IP address such as `203.0.113.7`");
        } else {
            std::string& member = name == "method" ? request.method
                                  : name == "path" ? request.path
                                                   : request.host;
            member = text_at(one, at);
        }
    }
    return request;
}

// At the top of a reservation its own members stand beside those of the item.
CheckItem item_at(const JsonValue& value, bool reserves, const std::string& place) {
    if (!value.is_object()) wrong(place, "write an object: `{\"policy\": \"per-user\", ...}`");
    const bool has_ttl = reserves && place.empty();
    if (has_ttl) {
        refuse_others(value, {"policy", "identifiers", "request", "cost", "ttl"}, place);
    } else {
        refuse_others(value, {"policy", "identifiers", "request", "cost"}, place);
    }
    CheckItem item;
    const JsonValue* const policy = find_member(value, "policy");
    const JsonValue* const identifiers = find_member(value, "identifiers");
    const JsonValue* const request = find_member(value, "request");
    if (const JsonValue* const cost = find_member(value, "cost")) {
        item.cost = cost_at(*cost, below(place, "cost"));
    }
    if ((policy != nullptr) == (request != nullptr)) {
        wrong(place, "write `policy` with `identifiers`, or `request`");
    }
    if (request != nullptr) {
        if (identifiers != nullptr) {
            wrong(below(place, "identifiers"), "a `request` says by itself who asks: leave it out");
        }
        item.request = request_at(*request, below(place, "request"));
        return item;
    }
    item.policy = text_at(*policy, below(place, "policy"));
    if (item.policy.empty()) wrong(below(place, "policy"), "write the name of a policy");
    if (identifiers != nullptr) {
        item.identifiers = pairs_at(*identifiers, below(place, "identifiers"));
    }
    return item;
}

std::vector<CheckItem> list_at(const JsonValue& value, const std::string& name) {
    if (!value.is_array() || value.empty() || value.size() > kCheckItemsMax) {
        wrong(name, "write a list of 1 to " + std::to_string(kCheckItemsMax) + " questions");
    }
    std::vector<CheckItem> items;
    for (std::size_t i = 0; i < value.size(); ++i) {
        items.push_back(item_at(value[i], false, name + "[" + std::to_string(i) + "]"));
    }
    return items;
}

std::chrono::seconds ttl_at(const JsonValue& value) {
    const std::string text = text_at(value, "ttl");
    const std::string_view digits =
        std::string_view(text).substr(0, text.find_first_not_of("0123456789"));
    const std::string_view unit = std::string_view(text).substr(digits.size());
    if (!digits.empty() && digits.size() <= 3 && (unit == "s" || unit == "min")) {
        const std::chrono::seconds ttl{std::stoi(std::string(digits)) * (unit == "s" ? 1 : 60)};
        if (ttl.count() > 0 && ttl <= kReserveTimeMax) return ttl;
    }
    wrong("ttl", "write a time from `1s` to `10min`");
}

JsonValue object_of(std::string_view body) {
    auto parsed = parse_json_object(body);
    if (!parsed) throw Wrong{"the body is no JSON object: " + parsed.error()};
    return std::move(*parsed);
}

CheckCall check_call_of(const JsonValue& object, bool reserves) {
    CheckCall call;
    if (reserves) {
        if (const JsonValue* const ttl = find_member(object, "ttl")) call.ttl = ttl_at(*ttl);
    }
    const JsonValue* const all = find_member(object, "all");
    const JsonValue* const each = find_member(object, "each");
    if (each != nullptr && reserves) {
        wrong("each", "reserve takes all or nothing: write `all`, or a call for each");
    }
    if (all == nullptr && each == nullptr) {
        call.items.push_back(item_at(object, reserves, ""));
        return call;
    }
    const std::string name = all != nullptr ? "all" : "each";
    if (reserves) {
        refuse_others(object, {"all", "ttl"}, "");
    } else {
        refuse_others(object, {name}, "");
    }
    call.form = all != nullptr ? CheckCall::Form::all : CheckCall::Form::each;
    call.items = list_at(all != nullptr ? *all : *each, name);
    return call;
}

template <class Call, class Read>
Result<Call, std::string> guarded(Read read) {
    try {
        return read();
    } catch (Wrong& fault) {
        return {boost::system::in_place_error, std::move(fault.sentence)};
    }
}

}  // namespace

Result<CheckCall, std::string> read_check_call(std::string_view body, bool reserves) {
    return guarded<CheckCall>([&] { return check_call_of(object_of(body), reserves); });
}

Result<SettleCall, std::string> read_settle_call(std::string_view body) {
    return guarded<SettleCall>([&] {
        const JsonValue object = object_of(body);
        refuse_others(object, {"id", "cost"}, "");
        const JsonValue* const id = find_member(object, "id");
        const JsonValue* const cost = find_member(object, "cost");
        if (id == nullptr || cost == nullptr) {
            wrong("", "write `id`, which a reservation was answered with, and its true `cost`");
        }
        return SettleCall{text_at(*id, "id"), cost_at(*cost, "cost")};
    });
}

}  // namespace tidegate::faces
