// A small upstream that answers with the request it received: to try a configuration without
// having anything to protect yet.
//
// It takes what a proxy may send it and more: heads up to 64 KiB, bodies of any size (counted, not
// kept), Expect, pipelining. `?status=404`, `?delay=100ms` and `?bytes=1000` ask for something else
// than the echo; `/healthz` answers 200.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "config/config.hpp"

namespace tidegate::cli {

// Where `run --echo`, the quickstart and `tidegate echo` listen, if not told otherwise.
inline constexpr const char* kEchoAddress = "127.0.0.1:9000";

// The bounds on what a request asks for in its query.
inline constexpr std::chrono::seconds kEchoDelayMax{60};
inline constexpr std::uint64_t kEchoBytesMax = std::uint64_t{1} << 30;

struct EchoOptions {
    int status = 200;                    // `status=404`: 200..599
    std::chrono::microseconds delay{0};  // `delay=100ms`: before the answer begins
    std::optional<std::uint64_t> bytes;  // `bytes=1000`, `bytes=1MiB`: a body of that size instead
};

// Reads the query of `target`; it ignores parameters with other names. An error is a sentence that
// says what to write.
Result<EchoOptions, std::string> read_echo_options(std::string_view target);

// Runs on a thread of its own, which takes no signals.
class EchoServer {
  public:
    // Listens on `address`, whose host is an IP address. Throws std::runtime_error naming it.
    explicit EchoServer(const config::Address& address);
    // Closes everything at once.
    ~EchoServer();
    EchoServer(const EchoServer&) = delete;
    EchoServer& operator=(const EchoServer&) = delete;

    // Where it listens: with the port the system chose when it was 0.
    const config::Address& address() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace tidegate::cli
