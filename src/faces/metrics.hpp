// What the faces count. For the ways of counting, see telemetry/counters.hpp.
#pragma once

#include "telemetry/counters.hpp"
#include "telemetry/exposition.hpp"

namespace tidegate::faces {

// What one thread counts.
class Metrics {
  public:
    // tidegate_questions_without_address_total: a gateway did not name the client's address
    void count_question_without_address() { without_address_.add(); }

    static void write(telemetry::Exposition& out, telemetry::Threads<Metrics> threads);

  private:
    telemetry::Counter without_address_;
};

}  // namespace tidegate::faces
