// A cluster of servers that answer what a test says: which node gets which command, and how often.
#include <array>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "redis/cluster.hpp"
#include "unit/fake_redis.hpp"
#include "unit/redis_asker.hpp"

namespace tidegate::redis::cluster_test {
namespace {

using namespace std::chrono_literals;
using test::FakeRedis;
using test::run_until;
using test::Words;

// Three nodes, a third of the slots each, until a test says otherwise. A node answers EVALSHA with
// its number.
struct Rig {
    static constexpr std::array<std::uint16_t, 3> kSlotOf{100, 6'000, 16'000};

    Rig() {
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            nodes[i].other = [this](const Words& words) { return other(words); };
            nodes[i].evalsha = [i](const Words&) { return "+" + std::to_string(i) + "\r\n"; };
        }
        list = whole_list();
    }
    ~Rig() {
        if (!cluster) return;
        cluster->stop();
        if (running) CHECK(run_until(io, [&] { return ended; }));
    }

    std::string place(std::size_t node) const {
        return "127.0.0.1:" + std::to_string(nodes[node].port());
    }
    std::string line(std::size_t node, const std::string& slots) const {
        return "0123456789 " + place(node) + "@1 master - 0 0 1 connected " + slots + "\n";
    }
    std::string whole_list() const {
        return line(0, "0-5460") + line(1, "5461-10922") + line(2, "10923-16383");
    }
    std::string other(const Words& words) {
        if (words[0] != "CLUSTER") return "+OK\r\n";
        return "$" + std::to_string(list.size()) + "\r\n" + list + "\r\n";
    }
    std::string moved(std::size_t slot, std::size_t node, const std::string& word = "MOVED") const {
        return "-" + word + " " + std::to_string(slot) + " " + place(node) + "\r\n";
    }

    void make(const std::vector<std::size_t>& seeds = {0}) {
        ClusterOptions options;
        for (const std::size_t seed : seeds) {
            options.seeds.push_back({"127.0.0.1", static_cast<std::uint16_t>(nodes[seed].port())});
        }
        options.node.timeout = timeout;
        options.node.probe_every = 40ms;
        options.node.scripts = {&kScript};
        cluster = std::make_shared<Cluster>(
            io.get_executor(), options, [this](bool up, std::string_view reason) {
                states.push_back((up ? "up: " : "down: ") + std::string(reason));
            });
    }
    void run() {
        running = true;
        spawn(io.get_executor(), Cluster::run(cluster),
              [this](const std::exception_ptr&) { ended = true; });
    }
    // Until every node has had a command.
    void run_whole(const std::vector<std::size_t>& seeds = {0}) {
        make(seeds);
        run();
        CHECK(wait([&] {
            return nodes[0].count("SCRIPT") * nodes[1].count("SCRIPT") * nodes[2].count("SCRIPT") >
                   0;
        }));
    }
    template <class Done>
    bool wait(Done done) {
        return run_until(io, done);
    }
    Asker& ask(std::size_t slot, const std::string& name = "one") {
        Asker& asker = askers.emplace_back(name);
        if (const auto failure = cluster->send(asker, static_cast<std::uint16_t>(slot))) {
            asker.on_failure(*failure);
        }
        return asker;
    }
    Asker& answer_to(std::size_t slot) {
        Asker& asker = ask(slot);
        CHECK(wait([&] { return asker.told > 0; }));
        return asker;
    }
    std::size_t lists_read() const {
        // Each connection begins with one.
        std::size_t read = 0;
        for (const FakeRedis& node : nodes) {
            read += node.count("CLUSTER") - static_cast<std::size_t>(node.connections);
        }
        return read;
    }

    asio::io_context io;
    std::array<FakeRedis, 3> nodes{FakeRedis{io}, FakeRedis{io}, FakeRedis{io}};
    std::string list;
    std::chrono::milliseconds timeout = 5s;  // tests that are about time choose their own
    std::shared_ptr<Cluster> cluster;
    std::vector<std::string> states;
    std::deque<Asker> askers;
    bool running = false;
    bool ended = false;
};

// The commands of a node, but for how connections begin.
std::vector<std::string> asked(const FakeRedis& node) {
    std::vector<std::string> words;
    for (const Words& one : node.seen) {
        if (one[0] == "EVALSHA" || one[0] == "ASKING") words.push_back(one[0]);
    }
    return words;
}

}  // namespace

TEST_CASE("cluster: one seed is enough, and each command goes to the node that serves its slot") {
    Rig rig;
    rig.run_whole({1});
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(rig.answer_to(Rig::kSlotOf[i]).answered(std::to_string(i)));
        CHECK(rig.nodes[i].count("EVALSHA") == 1);
        CHECK_FALSE(rig.cluster->is_away(Rig::kSlotOf[i]));
    }
    CHECK(rig.states.empty());
    CHECK(rig.cluster->is_up());
}

TEST_CASE("cluster: a seed that is away is passed over") {
    Rig rig;
    rig.nodes[0].refuse();
    rig.list = rig.line(1, "0-10922") + rig.line(2, "10923-16383");
    rig.make({0, 1});
    rig.run();
    CHECK(rig.wait([&] { return rig.nodes[2].count("SCRIPT") > 0; }));
    CHECK(rig.answer_to(100).answered("1"));
    CHECK(rig.cluster->is_up());
}

TEST_CASE("cluster: before the slots are known any node is asked, and names their owners") {
    Rig rig;
    rig.make({0});
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(Rig::kSlotOf[2], 2); };
    Asker& asker = rig.ask(Rig::kSlotOf[2]);
    rig.run();
    CHECK(rig.wait([&] { return asker.told > 0; }));
    CHECK(asker.answered("2"));
    CHECK(asker.written <= 2);
}

TEST_CASE("cluster: MOVED is followed at once, the slot is known, and the list is read again") {
    Rig rig;
    rig.run_whole();
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 2); };
    const std::size_t before = rig.lists_read();
    rig.list =
        rig.line(0, "0-99") + rig.line(1, "5461-10922") + rig.line(2, "100-5460 10923-16383");
    CHECK(rig.answer_to(100).answered("2"));
    CHECK(rig.answer_to(100).answered("2"));
    CHECK(rig.nodes[0].count("EVALSHA") == 1);
    CHECK(rig.wait([&] { return rig.lists_read() > before; }));
    // Its neighbour moved with it, without a MOVED of its own.
    CHECK(rig.wait([&] { return rig.ask(101).told == 0 && rig.nodes[2].count("EVALSHA") > 2; }));
}

TEST_CASE("cluster: a thousand commands that are moved read the list once") {
    Rig rig;
    rig.run_whole();
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 2); };
    CHECK(rig.wait([&] { return rig.lists_read() >= 2; }));  // the first one was new
    const std::size_t before = rig.lists_read();
    for (int i = 0; i < 1'000; ++i) rig.ask(static_cast<std::size_t>(i));
    CHECK(rig.wait([&] { return rig.lists_read() > before; }));
    CHECK(rig.wait([&] { return rig.askers.back().told > 0; }));
    for (const Asker& one : rig.askers) CHECK(one.answered("2"));
    CHECK(rig.lists_read() == before + 1);
}

TEST_CASE("cluster: a list that has changed is read again, until it stays the same") {
    Rig rig;
    rig.run_whole();
    CHECK(rig.wait([&] { return rig.lists_read() >= 2; }));
    // No node reports it, as no request needs a slot that has moved.
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 2); };
    rig.list =
        rig.line(0, "0-99 101-5460") + rig.line(1, "5461-10922") + rig.line(2, "100 10923-16383");
    const std::size_t before = rig.lists_read();
    CHECK(rig.answer_to(100).answered("2"));
    CHECK(rig.wait([&] { return rig.lists_read() > before; }));
    rig.list = rig.line(1, "5461-10922") + rig.line(2, "0-5460 10923-16383");
    CHECK(rig.wait([&] { return rig.lists_read() > before + 1; }));
    CHECK(rig.wait([&] { return rig.answer_to(5'000).answered("2"); }));
}

TEST_CASE("cluster: a command that nodes send back and forth is refused in the end") {
    Rig rig;
    rig.run_whole();
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 1); };
    rig.nodes[1].evalsha = [&](const Words&) { return rig.moved(100, 0); };
    Asker& asker = rig.answer_to(100);
    CHECK(asker.failed(Failure::not_ready));
    CHECK(asker.written == 5);
}

TEST_CASE("cluster: ASK is followed with ASKING, once, and the slot stays where it was") {
    Rig rig;
    rig.run_whole();
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 2, "ASK"); };
    CHECK(rig.answer_to(100).answered("2"));
    CHECK(asked(rig.nodes[2]) == std::vector<std::string>{"ASKING", "EVALSHA"});
    rig.nodes[0].evalsha = [](const Words&) { return "+0\r\n"; };
    CHECK(rig.answer_to(100).answered("0"));
    CHECK(asked(rig.nodes[2]).size() == 2);
}

TEST_CASE(
    "cluster: a node that is asked with ASKING and does not know the script is asked again so") {
    Rig rig;
    rig.run_whole();
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 2, "ASK"); };
    int calls = 0;
    rig.nodes[2].evalsha = [&](const Words&) {
        return ++calls == 1 ? "-NOSCRIPT no\r\n" : "+2\r\n";
    };
    CHECK(rig.answer_to(100).answered("2"));
    CHECK(asked(rig.nodes[2]) ==
          std::vector<std::string>{"ASKING", "EVALSHA", "ASKING", "EVALSHA"});
}

TEST_CASE("cluster: moved, moved again and then asked for elsewhere") {
    Rig rig;
    rig.run_whole();
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 1); };
    rig.nodes[1].evalsha = [&](const Words&) { return rig.moved(100, 2); };
    rig.nodes[2].evalsha = [&, first = true](const Words&) mutable {
        return std::exchange(first, false) ? rig.moved(100, 0, "ASK") : "+2\r\n";
    };
    rig.nodes[0].evalsha = [&, first = true](const Words&) mutable {
        return std::exchange(first, false) ? rig.moved(100, 1) : "+0\r\n";
    };
    CHECK(rig.answer_to(100).answered("0"));
    CHECK(asked(rig.nodes[0]) == std::vector<std::string>{"EVALSHA", "ASKING", "EVALSHA"});
}

TEST_CASE("cluster: no other error sends a command anywhere again") {
    for (const std::string error :
         {"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN The cluster is",
          "READONLY You can't write against a read only replica.", "LOADING Redis is loading",
          "MOVED 100 nowhere", "ASK ", "OOM command not allowed"}) {
        CAPTURE(error);
        Rig rig;
        rig.run_whole();
        rig.nodes[0].evalsha = [&](const Words&) { return "-" + error + "\r\n"; };
        Asker& asker = rig.answer_to(100);
        CHECK(asker.failed(Failure::not_ready));
        CHECK(asker.written == 1);
    }
}

TEST_CASE("cluster: a redirection does not extend the deadline") {
    Rig rig;
    rig.timeout = 400ms;
    rig.run_whole();
    rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 2); };
    rig.nodes[2].evalsha = [](const Words&) { return ""; };
    const SteadyTime begin = std::chrono::steady_clock::now();
    Asker& asker = rig.answer_to(100);
    CHECK(asker.failed(Failure::timeout));
    CHECK(asker.told_at - begin < 700ms);
}

TEST_CASE("cluster: a lost node fails its slots alone, and its replica is found") {
    Rig rig;
    rig.run_whole();
    rig.nodes[1].refuse();
    CHECK(rig.wait([&] { return rig.cluster->is_away(Rig::kSlotOf[1]); }));
    CHECK(rig.answer_to(Rig::kSlotOf[1]).failed(Failure::unavailable));
    CHECK(rig.answer_to(Rig::kSlotOf[0]).answered("0"));
    CHECK(rig.answer_to(Rig::kSlotOf[2]).answered("2"));
    CHECK(rig.wait([&] { return !rig.states.empty(); }));
    REQUIRE(rig.states.size() == 1);
    CHECK(rig.states[0].starts_with("down: Redis at " + rig.place(1)));
    CHECK_FALSE(rig.cluster->is_up());
    rig.list = rig.line(0, "0-10922") + rig.line(2, "10923-16383");
    CHECK(rig.wait([&] { return rig.cluster->is_up(); }));
    CHECK(rig.answer_to(Rig::kSlotOf[1]).answered("0"));
    CHECK(rig.states.size() == 2);
}

TEST_CASE("cluster: a node that leaves after its slots have moved is no failure") {
    Rig rig;
    rig.run_whole();
    CHECK(rig.wait([&] { return rig.lists_read() >= 2; }));
    // No request needed these slots meanwhile.
    rig.list = rig.line(0, "0-10922") + rig.line(2, "10923-16383");
    rig.nodes[1].refuse();
    CHECK(rig.wait([&] { return !rig.cluster->is_away(Rig::kSlotOf[1]); }));
    CHECK(rig.wait([&] { return rig.answer_to(Rig::kSlotOf[1]).answered("0"); }));
    CHECK(rig.states.empty());
}

TEST_CASE("cluster: a node that comes back serves its slots") {
    Rig rig;
    rig.run_whole();
    rig.nodes[1].refuse();
    CHECK(rig.wait([&] { return !rig.cluster->is_up(); }));
    rig.nodes[1].listen();
    CHECK(rig.wait([&] { return rig.cluster->is_up(); }));
    CHECK(rig.answer_to(Rig::kSlotOf[1]).answered("1"));
    CHECK(rig.states.size() == 2);
}

TEST_CASE("cluster: slots without a node are reported, and asked of any node") {
    Rig rig;
    rig.list =
        rig.line(0, "0-99 101-5460") + rig.line(1, "5461-10922") + rig.line(2, "10923-16383");
    rig.run_whole();
    CHECK(rig.wait([&] { return !rig.states.empty(); }));
    CHECK(rig.states[0].find("no node serves 1 of 16384 slots") != std::string::npos);
    rig.nodes[0].evalsha = [](const Words&) { return "-CLUSTERDOWN Hash slot not served\r\n"; };
    CHECK(rig.answer_to(100).failed(Failure::not_ready));
    rig.list = rig.whole_list();
    CHECK(rig.wait([&] { return rig.cluster->is_up(); }));
}

TEST_CASE("cluster: a node that left the list answers its last commands, and is dropped") {
    Rig rig;
    rig.run_whole();
    rig.nodes[2].evalsha = [](const Words&) { return ""; };
    Asker& waiting = rig.ask(Rig::kSlotOf[2]);
    rig.nodes[1].evalsha = [&](const Words&) { return rig.moved(6'000, 0); };
    rig.list = rig.line(0, "0-16383");
    CHECK(rig.answer_to(Rig::kSlotOf[1]).answered("0"));
    CHECK(rig.wait([&] { return waiting.told > 0; }));
    // The node that serves it now got the command.
    CHECK(rig.wait([&] { return rig.answer_to(Rig::kSlotOf[2]).answered("0"); }));
}

TEST_CASE("cluster: when all that were known are gone, the seeds lead to the others") {
    Rig rig;
    rig.list = rig.line(1, "0-16383");
    rig.make({0});
    rig.run();
    CHECK(rig.wait([&] { return rig.nodes[1].count("SCRIPT") > 0; }));
    CHECK(rig.answer_to(100).answered("1"));
    rig.nodes[1].refuse();
    rig.list = rig.line(2, "0-16383");
    CHECK(rig.wait([&] { return rig.nodes[2].count("SCRIPT") > 0; }));
    CHECK(rig.wait([&] { return rig.cluster->is_up(); }));
    CHECK(rig.answer_to(100).answered("2"));
}

TEST_CASE("cluster: a list that makes no sense changes nothing") {
    Rig rig;
    rig.run_whole();
    for (const std::string list : {"", "nonsense\n", "0123456789 127.0.0.1:1@1 master"}) {
        rig.list = list;
        const std::size_t before = rig.lists_read();
        rig.nodes[0].evalsha = [&](const Words&) { return rig.moved(100, 2); };
        rig.ask(100);
        rig.ask(101);
        CHECK(rig.wait([&] { return rig.lists_read() > before; }));
        CHECK(rig.answer_to(Rig::kSlotOf[1]).answered("1"));
    }
    CHECK(rig.cluster->is_up());
}

TEST_CASE("cluster: without any node commands are refused, and stop() ends at once") {
    Rig rig;
    for (FakeRedis& node : rig.nodes) node.refuse();
    rig.make({0, 1, 2});
    rig.run();
    CHECK(rig.wait([&] { return !rig.states.empty(); }));
    CHECK(rig.states[0].starts_with("down: Redis at 127.0.0.1:"));
    CHECK(rig.answer_to(100).failed(Failure::unavailable));
    CHECK(rig.cluster->is_away(100));
}

TEST_CASE("cluster: stop fails all that wait") {
    Rig rig;
    rig.run_whole();
    for (FakeRedis& node : rig.nodes) node.evalsha = [](const Words&) { return ""; };
    for (const std::size_t slot : Rig::kSlotOf) rig.ask(slot);
    rig.cluster->stop();
    for (const Asker& one : rig.askers) CHECK(one.told == 1);
    CHECK(rig.answer_to(100).failed(Failure::unavailable));
}

TEST_CASE("cluster: threads share what they know of a node that does not answer") {
    UnansweredByNode unanswered;
    const auto first = unanswered.of({"10.0.0.1", 7000});
    CHECK(unanswered.of({"10.0.0.1", 7000}) == first);
    CHECK(unanswered.of({"10.0.0.1", 7001}) != first);
}

}  // namespace tidegate::redis::cluster_test
