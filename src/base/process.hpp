// The process as a whole has one version, and blocks or takes signals for all its threads.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <string_view>

namespace tidegate {

#ifndef TIDEGATE_VERSION
#error "the build says which version this is"
#endif
inline constexpr std::string_view kVersion = TIDEGATE_VERSION;

// The kernel delivers no signal to the calling thread: event loops take them.
inline void block_all_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace tidegate
