#include "app/run.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <boost/asio/signal_set.hpp>

#include "app/life.hpp"
#include "app/own_program.hpp"
#include "app/predecessor.hpp"
#include "app/reloader.hpp"
#include "base/file_work.hpp"
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
    int code = 0;
    {
        Life life(std::move(config), std::move(origin), std::move(program));
        LateSignals::ignore();  // after Life listens: none is lost
        code = life.run();
        telemetry::flush_log();
    }
    // A thread may still wait for a file that does not answer. It cannot be ended, and must not run
    // on while the program's statics are taken down.
    if (FileWork::threads() != 0) {
        telemetry::flush_log();
        std::fflush(nullptr);
        std::_Exit(code);
    }
    return code;
}

}  // namespace tidegate::app
