// What follows of the rows of the keys, without a test for each key: its bounds, its default, and
// what the documents made of it.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "config/key_documents.hpp"
#include "config/keys.hpp"
#include "config/read_sections.hpp"
#include "config/suggest.hpp"

namespace tidegate::config::keys_test {

namespace {

// A row, where messages name it, and the text of a configuration around a value of its key.
struct Place {
    const KeyRows::Row* row;
    std::string path;
    std::string before;
    std::string after;
};

void add_places(const KeyRows& keys, const Place& above, std::vector<Place>& places) {
    for (const KeyRows::Row& row : keys.rows()) {
        Place place = above;
        place.row = &row;
        place.path += row.key;
        place.before.append(row.key).append(": ");
        places.push_back(place);
        if (row.kind.below == nullptr) continue;
        for (std::string_view steps = row.kind.steps; !steps.empty();) {
            const bool is_list = steps.starts_with("[]");
            steps.remove_prefix(std::string_view(is_list ? "[]" : ".NAME").size());
            place.path += is_list ? "[0]" : ".x";
            place.before += is_list ? "[" : "{x: ";
            place.after.insert(0, is_list ? "]" : "}");
        }
        place.path += '.';
        place.before += '{';
        place.after.insert(0, "}");
        add_places(*row.kind.below, place, places);
    }
}

std::vector<Place> all_places() {
    std::vector<Place> places;
    add_places(root_keys(), {}, places);
    return places;
}

// What is wrong with `value` as a value of this key, whatever else is wrong.
std::vector<std::string> faults_of(const Place& place, const std::string& value) {
    // Without an upstream, nothing reads `limits`.
    const std::string more = place.path.starts_with("upstream") ? "" : "upstream: http://a:1\n";
    const Loaded loaded = load_text(place.before + value + place.after + "\n" + more, "keys");
    std::vector<std::string> faults;
    for (const Diagnostic& fault : loaded.errors) {
        if (fault.message.starts_with(place.path + ": ")) faults.push_back(fault.message);
    }
    return faults;
}

// Whether the reason is the value itself, and no other key beside it.
bool is_outside(const Place& place, const std::string& value) {
    const std::vector<std::string> faults = faults_of(place, value);
    return std::any_of(faults.begin(), faults.end(), [&](const std::string& fault) {
        return fault.find("`" + value + "`") != fault.npos || fault.find("expected") != fault.npos;
    });
}

std::vector<std::string> messages_about_unknown_key(const Place& place) {
    std::string before = place.before;
    std::string after = place.after;
    for (std::string_view steps = place.row->kind.steps; !steps.empty();) {
        const bool is_list = steps.starts_with("[]");
        steps.remove_prefix(std::string_view(is_list ? "[]" : ".NAME").size());
        before += is_list ? "[" : "{x: ";
        after.insert(0, is_list ? "]" : "}");
    }
    const std::string more = place.path.starts_with("upstream") ? "" : "upstream: http://a:1\n";
    const Loaded loaded = load_text(before + "{qqqqqq: 1}" + after + "\n" + more, "keys");
    std::vector<std::string> messages;
    for (const Diagnostic& fault : loaded.errors) {
        if (fault.message.starts_with("unknown key `qqqqqq`")) messages.push_back(fault.message);
    }
    return messages;
}

}  // namespace

TEST_CASE("keys: each kind refuses what is outside of its bounds, and takes the bounds") {
    int checked = 0;
    for (const Place& place : all_places()) {
        for (const std::string& value : place.row->kind.refuses) {
            CAPTURE(place.path);
            CAPTURE(value);
            CHECK_FALSE(faults_of(place, value).empty());
            ++checked;
        }
        for (const std::string& value : place.row->kind.takes) {
            CAPTURE(place.path);
            CAPTURE(value);
            CHECK_FALSE(is_outside(place, value));
        }
    }
    CHECK(checked > 200);
}

TEST_CASE("keys: a section refuses a key that it does not have, and lists all that it has") {
    int checked = 0;
    for (const Place& place : all_places()) {
        const KeyRows* const section = place.row->kind.below;
        if (section == nullptr) continue;
        std::vector<std::string_view> keys;
        for (const KeyRows::Row& row : section->rows()) keys.push_back(row.key);
        const std::string wanted = "llowed here: " + one_of(keys);
        CAPTURE(place.path);
        CAPTURE(wanted);
        const std::vector<std::string> messages = messages_about_unknown_key(place);
        CHECK(std::any_of(messages.begin(), messages.end(),
                          [&](const std::string& message) { return message.ends_with(wanted); }));
        ++checked;
    }
    CHECK(checked > 40);
}

TEST_CASE("keys: a default that is one value can be written") {
    int checked = 0;
    for (const Place& place : all_places()) {
        const std::string& shown = place.row->unset;
        const bool is_value =
            shown.size() > 2 && shown.front() == '`' && shown.find('`', 1) == shown.size() - 1;
        if (!is_value || shown[1] == '{' || shown[1] == '[') continue;
        const std::string value = shown.substr(1, shown.size() - 2);
        CAPTURE(place.path);
        CAPTURE(value);
        CHECK_FALSE(is_outside(place, '"' + value + '"'));
        ++checked;
    }
    CHECK(checked > 60);
}

TEST_CASE("keys: each key says what it is, and what a required one lacks") {
    for (const Place& place : all_places()) {
        CAPTURE(place.path);
        CHECK_FALSE(place.row->what.empty());
        if (place.row->needed.empty()) continue;
        CHECK(place.row->needed.find(std::string(place.row->key) + ":") != std::string_view::npos);
    }
}

TEST_CASE("keys: a table has the keys of its places, and none for a place that is not there") {
    const std::vector<std::string> places{"telemetry"};
    CHECK(key_table(places).find("| `telemetry.top` |") != std::string::npos);
    const std::vector<std::string> bare{"policies.NAME.limits."};
    CHECK(key_table(bare).find("| `quota` |") != std::string::npos);
    const std::vector<std::string> methods{"identity.user."};
    CHECK(key_table(methods).find("| `jwt.leeway` |") != std::string::npos);
    for (const std::string wrong : {"timeouts.zzz", "zzz", "log.level.*", "", "."}) {
        CAPTURE(wrong);
        CHECK(key_table(std::vector<std::string>{wrong}).empty());
    }
}

}  // namespace tidegate::config::keys_test
