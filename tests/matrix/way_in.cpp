#include "matrix/way_in.hpp"

#include <functional>
#include <stdexcept>
#include <thread>

#include "matrix/alone.hpp"
#include "matrix/cluster.hpp"
#include "matrix/sentinel.hpp"

namespace tidegate::test {
namespace {

// How long a fault lasts that does not end by itself.
constexpr milliseconds kLasts{700};
// Either way, so three times the deadline of a decision.
constexpr milliseconds kDelay{150};
constexpr milliseconds kLongPatience{30'000};

}  // namespace

std::string name_of(Fault fault) {
    switch (fault) {
        case Fault::killed:
            return "killed (`kill -9`)";
        case Fault::paused:
            return "paused (`SIGSTOP`)";
        case Fault::restarted:
            return "restarted (`SHUTDOWN SAVE`)";
        case Fault::failed_over:
            return "failed over by hand";
        case Fault::resharded:
            return "slots moved";
        case Fault::scripts_flushed:
            return "`SCRIPT FLUSH`";
        case Fault::memory_full:
            return "memory full";
        case Fault::cut:
            return "network cut";
        case Fault::swallowed:
            return "network swallows";
        case Fault::delayed:
            return "network delayed by 300 ms";
    }
    return {};
}

bool is_of_network(Fault fault) {
    return fault == Fault::cut || fault == Fault::swallowed || fault == Fault::delayed;
}

void await(const std::string& what, const std::function<bool()>& holds) {
    const auto deadline = Clock::now() + kLongPatience;
    while (!holds()) {
        if (Clock::now() > deadline) throw std::runtime_error("in vain waited for " + what);
        pass(milliseconds{5});
    }
}

void pass(milliseconds time) {
    std::this_thread::sleep_for(time);
}

std::vector<std::string> WayIn::users() const {
    return {"u0", "u1", "u2", "u3", "u4", "u5"};
}

void WayIn::suffer(Fault fault) {
    switch (fault) {
        case Fault::killed:
            victim().stop();
            outlast(fault);
            if (!has_heir(fault)) victim().start();
            break;
        case Fault::paused:
            victim().pause();
            outlast(fault);
            if (!has_heir(fault)) victim().resume();
            break;
        case Fault::restarted:
            restart();
            break;
        case Fault::failed_over:
            fail_over();
            break;
        case Fault::resharded:
            reshard();
            break;
        case Fault::scripts_flushed:
            flush_scripts();
            break;
        case Fault::memory_full:
            victim().command({"CONFIG", "SET", "maxmemory", "1"});
            outlast(fault);
            victim().command({"CONFIG", "SET", "maxmemory", "0"});
            break;
        case Fault::cut:
            network().cut();
            outlast(fault);
            network().heal();
            break;
        case Fault::swallowed:
            network().swallow();
            outlast(fault);
            if (!has_heir(fault)) network().heal();
            break;
        case Fault::delayed:
            network().delay(kDelay);
            outlast(fault);
            network().heal();
            break;
    }
}

void WayIn::mend(Fault fault) {
    if (!has_heir(fault)) return;
    // It takes itself for the master until a sentinel corrects it; no proxy may use it.
    if (fault == Fault::paused) victim().resume();
    if (fault == Fault::swallowed) network().heal();
}

void WayIn::outlast(Fault fault) {
    if (has_heir(fault)) {
        await_heir();
    } else {
        pass(kLasts);
    }
}

// What it held is there again.
void WayIn::restart() {
    try {
        victim().command({"SHUTDOWN", "SAVE"});
    } catch (const std::runtime_error&) {
        // It does not announce that it leaves.
    }
    victim().stop();
    victim().start();
}

void WayIn::flush_scripts() {
    victim().command({"SCRIPT", "FLUSH"});
}

void WayIn::reshard() {
    throw std::logic_error("there are no slots");
}

bool can_suffer(std::string_view way, Fault fault) {
    return fault != Fault::resharded || way == "cluster";
}

std::unique_ptr<WayIn> make_way(std::string_view way, Fault fault) {
    const bool is_fronted = is_of_network(fault);
    if (way == "sentinel") return std::make_unique<SentinelWay>(is_fronted);
    if (way == "cluster") return std::make_unique<ClusterWay>(is_fronted);
    return std::make_unique<AloneWay>(way, fault);
}

}  // namespace tidegate::test
