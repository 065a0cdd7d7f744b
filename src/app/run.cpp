#include "app/run.hpp"

#include <csignal>
#include <utility>

#include <boost/asio/signal_set.hpp>

#include "app/life.hpp"
#include "app/log_level.hpp"
#include "app/own_program.hpp"
#include "app/predecessor.hpp"
#include "net/asio.hpp"
#include "telemetry/log.hpp"

namespace tidegate::app {

namespace {

// A signal with a handler does not kill the process. This handler stays to the very end, when Life
// no longer listens, so a second TERM does not make the exit a failure. Never destroyed.
class LateSignals {
  public:
    static void ignore() {
        static LateSignals* const ignored = new LateSignals;
        static_cast<void>(ignored);
    }

  private:
    asio::io_context io_{1};
    asio::signal_set signals_{io_, SIGINT, SIGTERM};
    asio::signal_set other_signals_{io_, SIGHUP, SIGUSR1, SIGUSR2};
};

}  // namespace

int run(std::shared_ptr<const config::Config> config, Origin origin) {
    leave_parent(config::process_environment);
    OwnProgram program = OwnProgram::of_this_process();
    set_log_level(config->log.level);
    Life life(std::move(config), std::move(origin), std::move(program));
    LateSignals::ignore();  // after Life listens: none is lost
    const int code = life.run();
    telemetry::flush_log();
    return code;
}

}  // namespace tidegate::app
