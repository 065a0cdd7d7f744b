// The rules of Envoy's rate limit service against a slow model that tries them as its documentation
// says.
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "base/text.hpp"
#include "rls/rules.hpp"

namespace tidegate::rls::rules_test {

namespace {

Rule rule(std::string key, std::string value = "", bool shares = false) {
    Rule made;
    made.key = std::move(key);
    made.value = std::move(value);
    made.shares_threshold = shares;
    return made;
}

using Values = std::vector<std::string_view>;

const Rule* find(const RuleLevel& level, std::vector<DescriptorEntry> entries, Values& values) {
    return find_rule(level, entries, values);
}

// The model: every way to cut the value is tried.
bool model_matches(std::string_view pattern, std::string_view value) {
    if (pattern.empty()) return value.empty();
    if (pattern.front() == '*') {
        for (std::size_t i = 0; i <= value.size(); ++i) {
            if (model_matches(pattern.substr(1), value.substr(i))) return true;
        }
        return false;
    }
    return !value.empty() && value.front() == pattern.front() &&
           model_matches(pattern.substr(1), value.substr(1));
}

// As the rules were written, in a plain tree.
struct Plain {
    std::string key;
    std::string value;
    bool shares = false;
    std::vector<Plain> below;
};

const Plain* model_step(const std::vector<Plain>& level, const DescriptorEntry& entry) {
    for (const Plain& one : level) {
        if (!entry.value.empty() && one.key == entry.key && one.value == entry.value) return &one;
    }
    for (const Plain& one : level) {
        const bool is_wildcard = one.value.find('*') != std::string::npos;
        if (is_wildcard && one.key == entry.key && model_matches(one.value, entry.value)) {
            return &one;
        }
    }
    for (const Plain& one : level) {
        if (one.key == entry.key && one.value.empty()) return &one;
    }
    return nullptr;
}

const Plain* model_find(const std::vector<Plain>& top,
                        const std::vector<DescriptorEntry>& entries) {
    const std::vector<Plain>* level = &top;
    const Plain* met = nullptr;
    for (const DescriptorEntry& entry : entries) {
        met = model_step(*level, entry);
        if (met == nullptr) return nullptr;
        level = &met->below;
    }
    return met;
}

class World {
  public:
    explicit World(unsigned seed) : random_(seed) {}

    std::string word(std::string_view letters, std::size_t size_max) {
        std::string made;
        for (std::size_t size = number(size_max + 1); size > 0; --size) {
            made += letters[number(letters.size())];
        }
        return made;
    }
    std::size_t number(std::size_t below) {
        return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_);
    }
    std::vector<Plain> level(int depth) {
        std::vector<Plain> made;
        for (std::size_t count = number(6); count > 0; --count) {
            Plain one{word("k", 1) + "k", word("ab*", 4), false, {}};
            bool is_known = false;
            for (const Plain& other : made) {
                is_known = is_known || (other.key == one.key && other.value == one.value);
            }
            if (is_known) continue;
            one.shares = number(2) == 0;
            if (depth > 0) one.below = level(depth - 1);
            made.push_back(std::move(one));
        }
        return made;
    }

  private:
    std::mt19937 random_;
};

void build(const std::vector<Plain>& plain, RuleLevel& level) {
    for (const Plain& one : plain) {
        Rule made = rule(one.key, one.value, one.shares);
        if (!one.below.empty()) {
            made.below = std::make_unique<RuleLevel>();
            build(one.below, *made.below);
        }
        REQUIRE(level.add(std::move(made)));
    }
}

}  // namespace

TEST_CASE("rls: a key with a value goes before patterns, and these before the key alone") {
    RuleLevel level;
    REQUIRE(level.add(rule("path")));
    REQUIRE(level.add(rule("path", "/a*")));
    REQUIRE(level.add(rule("path", "/ab*")));
    REQUIRE(level.add(rule("path", "/abc")));
    CHECK_FALSE(level.add(rule("path", "/abc")));
    const auto met = [&](std::string_view value) {
        return level.find({"path", value}).rule->value;
    };
    CHECK(met("/abc") == "/abc");
    CHECK(met("/abd") == "/a*");  // the first in the file
    CHECK(met("/b").empty());
    CHECK(met("").empty());
    CHECK(level.find({"other", "/abc"}).rule == nullptr);
    CHECK(level.find({"path_/abc", ""}).rule == nullptr);
}

TEST_CASE("rls: white space around a value leads to no other rule") {
    RuleLevel level;
    REQUIRE(level.add(rule("tenant")));
    REQUIRE(level.add(rule("tenant", "acme")));
    REQUIRE(level.add(rule("tenant", "spaced ")));
    REQUIRE(level.add(rule("tenant", "b*z")));
    const auto met = [&](std::string_view value) {
        return level.find({"tenant", value}).rule->value;
    };
    for (const std::string blank : {" ", "\xc2\xa0", "\xe3\x80\x80", "\xa0"}) {
        CAPTURE(blank);
        CHECK(met("acme" + blank) == "acme");
        CHECK(met(blank + "acme") == "acme");
        CHECK(met("baz" + blank) == "b*z");
        CHECK(met(blank).empty());
    }
    CHECK(met("spaced ") == "spaced ");  // a file may mean it
    CHECK(met("spaced").empty());
}

TEST_CASE("rls: a descriptor meets a rule of its own depth alone") {
    RuleLevel level;
    Rule outer = rule("a", "1");
    outer.below = std::make_unique<RuleLevel>();
    REQUIRE(outer.below->add(rule("b")));
    REQUIRE(level.add(std::move(outer)));
    Values values;
    CHECK(find(level, {{"a", "1"}}, values)->key == "a");
    CHECK(find(level, {{"a", "1"}, {"b", "x"}}, values)->key == "b");
    CHECK(values == Values{"1", "x"});
    CHECK(find(level, {{"a", "1"}, {"b", "x"}, {"c", "y"}}, values) == nullptr);
    CHECK(find(level, {{"a", "2"}, {"b", "x"}}, values) == nullptr);
    CHECK(find(level, {{"b", "x"}}, values) == nullptr);
}

TEST_CASE("rls: all values of a pattern that shares its threshold count as the pattern") {
    RuleLevel level;
    REQUIRE(level.add(rule("file", "docs/*", true)));
    REQUIRE(level.add(rule("file", "img/*")));
    Values values;
    REQUIRE(find(level, {{"file", "docs/a"}}, values) != nullptr);
    CHECK(values == Values{"docs/*"});
    REQUIRE(find(level, {{"file", "img/a"}}, values) != nullptr);
    CHECK(values == Values{"img/a"});
}

TEST_CASE("rls: patterns match as a model that tries every way") {
    World world(22);
    for (int i = 0; i < 20'000; ++i) {
        const std::string pattern = world.word("ab*", 7);
        const std::string value = world.word("ab", 9);
        CAPTURE(pattern);
        CAPTURE(value);
        REQUIRE(matches_wildcard(pattern, value) == model_matches(pattern, value));
    }
}

TEST_CASE("rls: random descriptors meet the rules that a slow model finds") {
    World world(7);
    for (int round = 0; round < 300; ++round) {
        const auto plain = world.level(2);
        RuleLevel level;
        build(plain, level);
        for (int i = 0; i < 30; ++i) {
            std::vector<std::pair<std::string, std::string>> texts;
            for (std::size_t count = 1 + world.number(3); count > 0; --count) {
                texts.emplace_back(world.word("k", 1) + "k", world.word("ab*", 4));
            }
            std::vector<DescriptorEntry> entries;
            for (const auto& [key, value] : texts) entries.push_back({key, value});
            Values values;
            const Rule* const found = find_rule(level, entries, values);
            const Plain* const wanted = model_find(plain, entries);
            REQUIRE((found == nullptr) == (wanted == nullptr));
            if (found == nullptr) continue;
            REQUIRE(found->key == wanted->key);
            REQUIRE(found->value == wanted->value);
            REQUIRE(values.size() == entries.size());
        }
    }
}

TEST_CASE("rls: units last as long as there, and only they have a name") {
    using namespace std::chrono_literals;
    CHECK(duration_of(Unit::week) == 168h);
    CHECK(duration_of(Unit::month) == 720h);
    CHECK(duration_of(Unit::year) == 8'760h);
    for (int i = 1; i < 8; ++i) {
        const auto unit = static_cast<Unit>(i);
        CHECK(unit_of(duration_of(unit)) == unit);
    }
    CHECK(unit_of(2s) == Unit::unknown);
    CHECK(unit_of(0s) == Unit::unknown);
}

TEST_CASE("rls: a domain may occur once") {
    Domains domains;
    CHECK(domains.add("a") != nullptr);
    CHECK(domains.add("a") == nullptr);
    CHECK(domains.find("a") != nullptr);
    CHECK(domains.find("b") == nullptr);
}

}  // namespace tidegate::rls::rules_test
