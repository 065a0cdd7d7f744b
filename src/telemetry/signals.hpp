// Which thread a signal may land on.
#pragma once

namespace tidegate::telemetry {

// The calling thread takes no signals: they are the event loops' to take.
void block_all_signals();

}  // namespace tidegate::telemetry
