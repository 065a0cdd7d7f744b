#include "failing_memory.hpp"

#include <cstddef>
#include <cstdlib>

namespace tidegate::test {

namespace {

thread_local int allocations_left = -1;  // before one fails; below 0: none does

void* allocate(std::size_t size) {
    if (allocations_left == 0) throw std::bad_alloc();
    if (allocations_left > 0) --allocations_left;
    if (void* const memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}

}  // namespace

FailingMemory::FailingMemory(int allocations) {
    allocations_left = allocations;
}

FailingMemory::~FailingMemory() {
    allocations_left = -1;
}

}  // namespace tidegate::test

void* operator new(std::size_t size) {
    return tidegate::test::allocate(size);
}

// An allocation that may fail without an exception never fails here: callers have a fallback.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return std::malloc(size);
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
