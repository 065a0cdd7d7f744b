#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>

#include <doctest/doctest.h>

#include "store/memory_store_table.hpp"

namespace tidegate::store::memory_store_table_test {
namespace {

// A table and the names that it should hold, with hashes of which many share buckets.
struct TableRig {
    static StateName name_of(const std::string& identifier, std::uint64_t hash) {
        StateName name{};
        name.policy = "p";
        name.identifier = identifier;
        name.hash = hash;
        return name;
    }

    void insert(std::uint64_t number, std::uint64_t hash) {
        const std::string identifier = "user:" + std::to_string(number);
        auto state = std::make_unique<State>();
        state->name = "p" + std::string(1, '\0') + identifier;
        state->hash = hash;
        model.emplace(identifier, state.get());
        table.insert(std::move(state));
    }
    void erase(std::map<std::string, State*>::iterator place) {
        table.erase(*place->second);
        model.erase(place);
    }
    std::set<const State*> walk() const {
        std::set<const State*> found;
        for (std::size_t bucket = 0; bucket < table.buckets(); ++bucket) {
            for (State* state = table.first(bucket); state != nullptr; state = state->next.get()) {
                CHECK(found.insert(state).second);
            }
        }
        return found;
    }

    StateTable table;
    std::map<std::string, State*> model;
};

}  // namespace

TEST_CASE("memory_store_table: holds what a map holds, whatever comes and goes") {
    std::mt19937_64 random(7);
    // Of few hashes many names share a bucket; of many, buckets have one name or none.
    for (const std::uint64_t hashes : {std::uint64_t{3}, std::uint64_t{1} << 40}) {
        TableRig rig;
        for (std::uint64_t step = 0; step < 6'000; ++step) {
            if (rig.model.empty() || random() % 4 != 0) {
                rig.insert(step, (random() % hashes) << 8);
                continue;
            }
            auto place = rig.model.lower_bound("user:" + std::to_string(random() % step));
            rig.erase(place == rig.model.end() ? rig.model.begin() : place);
        }
        for (const auto& [identifier, state] : rig.model) {
            CHECK(rig.table.find(TableRig::name_of(identifier, state->hash)) == state);
        }
        CHECK(rig.table.find(TableRig::name_of("user:none", 0)) == nullptr);
        CHECK(rig.walk().size() == rig.model.size());
    }
}

TEST_CASE("memory_store_table: a name adds two buckets at most, however many there are") {
    TableRig rig;
    std::mt19937_64 random(8);
    std::size_t before = rig.table.buckets();
    for (std::uint64_t number = 0; number < 20'000; ++number) {
        const bool grows = rig.table.grows_next();
        rig.insert(number, random());
        const std::size_t added = rig.table.buckets() - before;
        CHECK(added <= 2);
        CHECK((added != 0) == grows);
        before = rig.table.buckets();
    }
    CHECK(rig.table.buckets() >= 2 * rig.model.size());
    CHECK(rig.walk().size() == rig.model.size());
}

}  // namespace tidegate::store::memory_store_table_test
