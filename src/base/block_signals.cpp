#include "base/block_signals.hpp"

#include <pthread.h>
#include <signal.h>

namespace tidegate {

void block_all_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace tidegate
