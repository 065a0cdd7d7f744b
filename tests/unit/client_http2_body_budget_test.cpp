#include <cstddef>
#include <list>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "client/http2_body_budget.hpp"

namespace tidegate::client_http2_body_budget_test {

using client::BodyBudget;

namespace {

struct Request final : BodyBudget::Holder {
    explicit Request(BodyBudget& of) : budget(of) {}
    ~Request() { budget.leave(*this); }

    void grant() override { ++granted; }
    void give_way() override {
        gave_way = true;
        budget.drop(*this, held);
        held = 0;
    }
    bool hold(std::size_t bytes) {
        if (!budget.hold(*this, bytes)) return false;
        held += bytes;
        return true;
    }
    // The upstream has taken them. Whether the client may send as much again.
    bool drop(std::size_t bytes) {
        budget.drop(*this, bytes);
        held -= bytes;
        if (budget.has_room(*this)) return true;
        budget.wait(*this);
        return false;
    }

    BodyBudget& budget;
    std::size_t held = 0;
    int granted = 0;
    bool gave_way = false;
};

struct Worker {
    Worker() { budget.set_bound(1'000); }

    Request& request(const std::string& address) {
        Request& made = all.emplace_back(budget);
        budget.use(made, budget.account_of(parse_ip(address)));
        return made;
    }

    BodyBudget budget;
    std::list<Request> all;
};

}  // namespace

TEST_CASE("body budget: within the bound each client gets as much room again as was taken") {
    Worker worker;
    Request& one = worker.request("192.0.2.1");
    CHECK(one.hold(1'000));
    CHECK(one.drop(10));
    CHECK(worker.budget.held() == 990);
}

TEST_CASE("body budget: beyond it, an address with most waits, and one with less does not") {
    Worker worker;
    Request& greedy = worker.request("192.0.2.1");
    Request& also_greedy = worker.request("192.0.2.1");
    CHECK(greedy.hold(900));
    CHECK(also_greedy.hold(900));
    CHECK_FALSE(greedy.drop(100));
    CHECK_FALSE(also_greedy.drop(100));
    for (const std::string address : {"192.0.2.2", "2001:db8::1"}) {
        Request& other = worker.request(address);
        CHECK(other.hold(100));
        CHECK(other.drop(50));
    }
    CHECK(greedy.granted == 0);
    greedy.drop(800);
    CHECK(worker.budget.held() == 900);
    CHECK(greedy.granted == 1);
    CHECK(also_greedy.granted == 1);
}

TEST_CASE("body budget: an address gets room again once it holds less than its share") {
    Worker worker;
    Request& greedy = worker.request("192.0.2.1");
    CHECK(greedy.hold(1'500));
    Request& other = worker.request("192.0.2.2");
    CHECK(other.hold(300));
    CHECK_FALSE(other.drop(10));  // a share is a quarter of the bound
    CHECK(other.is_waiting());
    other.drop(60);
    CHECK(other.granted == 1);
    CHECK_FALSE(other.is_waiting());
    CHECK(greedy.granted == 0);
}

TEST_CASE("body budget: beyond twice the bound, the address with most makes room for others") {
    Worker worker;
    Request& small = worker.request("192.0.2.1");
    Request& large = worker.request("192.0.2.1");
    CHECK(small.hold(500));
    CHECK(large.hold(1'500));
    CHECK_FALSE(small.hold(1));
    Request& other = worker.request("192.0.2.2");
    CHECK(other.hold(100));
    CHECK(large.gave_way);
    CHECK_FALSE(small.gave_way);
    CHECK(worker.budget.held() == 600);
}

TEST_CASE("body budget: where all addresses hold their share, one more byte is kept for none") {
    Worker worker;
    for (int i = 0; i < 8; ++i) {
        CHECK(worker.request("192.0.2." + std::to_string(i)).hold(250));
    }
    CHECK_FALSE(worker.request("192.0.2.100").hold(250));
    CHECK_FALSE(worker.all.front().hold(1));
    CHECK(worker.budget.held() == 2'000);
}

TEST_CASE("body budget: what a request holds goes with it to another address, and with its end") {
    Worker worker;
    Request& one = worker.request("192.0.2.1");
    CHECK(one.hold(1'200));
    CHECK_FALSE(one.drop(100));
    worker.budget.use(one, worker.budget.account_of(parse_ip("192.0.2.2")));
    CHECK(one.is_waiting());
    CHECK(worker.budget.held() == 1'100);
    Request& former = worker.request("192.0.2.1");
    CHECK(former.hold(100));
    CHECK(former.drop(50));
    CHECK_FALSE(one.drop(10));
    worker.budget.leave(one);
    one.held = 0;
    CHECK(worker.budget.held() == 50);
    CHECK_FALSE(one.has_account());
}

TEST_CASE("body budget: clients without an address are one") {
    Worker worker;
    Request& one = worker.all.emplace_back(worker.budget);
    worker.budget.use(one, worker.budget.account_of(std::nullopt));
    CHECK(one.hold(1'100));
    CHECK_FALSE(one.drop(50));
    const bool is_one =
        worker.budget.account_of(std::nullopt) == worker.budget.account_of(std::nullopt);
    CHECK(is_one);
}

}  // namespace tidegate::client_http2_body_budget_test
