// Keeps signals away from a thread.
#pragma once

namespace tidegate {

// The kernel delivers no signal to the calling thread: event loops take them.
void block_all_signals();

}  // namespace tidegate
