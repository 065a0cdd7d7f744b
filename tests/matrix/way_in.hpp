// The ways in which Tidegate uses Redis, each with servers of its own that can be broken.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fault_proxy.hpp"
#include "integration/socket.hpp"
#include "redis_server.hpp"

namespace tidegate::test {

enum class Fault {
    killed,
    paused,
    restarted,
    failed_over,
    resharded,
    scripts_flushed,
    memory_full,
    cut,
    swallowed,
    delayed,
};

inline constexpr std::array<Fault, 10> kFaults{
    Fault::killed,    Fault::paused,          Fault::restarted,   Fault::failed_over,
    Fault::resharded, Fault::scripts_flushed, Fault::memory_full, Fault::cut,
    Fault::swallowed, Fault::delayed};

// As the table has it.
std::string name_of(Fault fault);

// One server, or several. The victim is the server that fails; it decides about some users at
// least. Faults are its own, or those of the network in front of it.
class WayIn {
  public:
    virtual ~WayIn() = default;

    // Where Redis is, in the section `redis` of a configuration.
    virtual std::string address() const = 0;
    // The users that send requests; the victim decides about some of them at least.
    virtual std::vector<std::string> users() const;

    // Breaks it, under load. Returns when Redis can decide again: the server runs, the network is
    // whole, or another has taken over. Throws std::runtime_error when that does not come.
    void suffer(Fault fault);
    // The part of a fault that is mended only after everything has found the new master.
    void mend(Fault fault);
    // How often data may have been lost: the bound on what is admitted.
    virtual int losses(Fault fault) = 0;

  protected:
    virtual RedisServer& victim() = 0;
    // Everything that passes between the victim and others. Requires a network that was asked for.
    virtual FaultProxy& network() = 0;
    virtual void flush_scripts();
    virtual void fail_over() = 0;
    virtual void reshard();
    // Whether another server takes over; then this waits for it.
    virtual bool has_heir(Fault fault) const = 0;
    virtual void await_heir() = 0;

  private:
    void restart();
    void outlast(Fault fault);
};

// Which ways there are, as their names begin in the filter of scripts/matrix.
inline constexpr std::array<std::string_view, 5> kWays{"redis", "tls", "acl", "sentinel",
                                                       "cluster"};

bool can_suffer(std::string_view way, Fault fault);
// The servers of `way`, ready for `fault`, which it can suffer. Throws std::runtime_error when they
// do not start.
std::unique_ptr<WayIn> make_way(std::string_view way, Fault fault);

// Faults of a network, which must be in front of every server from the start.
bool is_of_network(Fault fault);
// Waits until `holds`; throws std::runtime_error when that does not come.
void await(const std::string& what, const std::function<bool()>& holds);
void pass(milliseconds time);

}  // namespace tidegate::test
