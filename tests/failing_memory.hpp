// operator new that fails when a test wants it to. It replaces that of a program whose tests use
// it.
#pragma once

#include <new>

namespace tidegate::test {

// While it lives, this thread gets `allocations` and then no memory.
class FailingMemory {
  public:
    explicit FailingMemory(int allocations);
    ~FailingMemory();
    FailingMemory(const FailingMemory&) = delete;
    FailingMemory& operator=(const FailingMemory&) = delete;
};

// Calls `attempt` with an allocation that fails: the first, the second, and so on, until all that
// it needs are there. After each failure calls `check`. How many failed.
template <class Attempt, class Check>
int fail_each_allocation(Attempt attempt, Check check) {
    for (int allocations = 0;; ++allocations) {
        try {
            const FailingMemory memory(allocations);
            attempt();
            return allocations;
        } catch (const std::bad_alloc&) {
            check();
        }
    }
}

}  // namespace tidegate::test
