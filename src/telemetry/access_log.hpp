// One line a request, written by a thread of its own.
//
// Lines go through a bounded ring a thread; when it is full they are dropped and counted, never
// waited for. What cannot be written (a full disk, a reader that has gone) is dropped and counted
// too, and said once in the error log. log_line.hpp has the format.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/face.hpp"
#include "base/http_version.hpp"
#include "base/log_format.hpp"
#include "telemetry/outcome.hpp"

namespace tidegate::telemetry {

// What is known of a request when it ends. Views need to live only through the call. Strings that
// come from a client are escaped by the log, not by the caller.
struct RequestRecord {
    std::chrono::system_clock::time_point time;  // when it began
    std::string_view request_id;
    std::string_view client;  // address, or empty
    std::string_view method;
    HttpVersion version = HttpVersion::http_1_1;
    std::string_view path;  // without the query
    std::string_view user_agent;
    std::string_view host;
    std::string_view route;  // empty: none matched
    std::span<const std::string_view> identifiers;
    std::string_view
        verdict;  // admitted | limited | unlimited | local | allowed | unavailable | ""
    std::string_view limited_by;         // `POLICY-LIMIT` that refused, or empty
    std::string_view shadow_limited_by;  // the same of policies in shadow, which refuse no request
    std::string_view store;              // memory | redis | local | ""
    std::string_view upstream;           // the server as it is configured, or empty
    std::string_view upstream_server;    // the address of that server, which was chosen last
    std::string_view error;              // whose fault and what, or empty
    Outcome outcome = Outcome::forwarded;
    Face face = Face::proxy;
    int status = 0;
    int grpc_status = -1;              // of an answer of gRPC; negative: none
    std::uint32_t tries = 0;           // connections that were used, or could not be made
    std::uint64_t bytes_received = 0;  // body
    std::uint64_t bytes_sent = 0;      // body
    std::chrono::nanoseconds duration{0};
    std::chrono::nanoseconds decision{0};  // waiting for the store
    std::chrono::nanoseconds upstream_time{
        0};                                  // from sending the request to the head of the answer
    std::chrono::nanoseconds queue_time{0};  // waiting for one of max_connections
};

class AccessLog {
  public:
    struct Options {
        std::string path = "-";  // "-": standard output; empty: nothing is written
        LogFormat format = LogFormat::json;
        // Share of requests written; those with an error, or not forwarded, always are.
        double sample = 1.0;
        std::size_t ring_bytes = 1 << 20;  // each thread's
        // How long the end of the log waits for whoever reads it.
        std::chrono::milliseconds stop_patience{2'000};
    };

    // Opens the file (append) and starts the writer. Throws std::runtime_error naming the path. May
    // wait: see LogOutput.
    AccessLog(const Options& options, std::size_t threads);
    // Writes what is left, within `stop_patience`.
    ~AccessLog();
    AccessLog(const AccessLog&) = delete;
    AccessLog& operator=(const AccessLog&) = delete;

    // Formats and hands over the line; at the latest 100 ms later it is being written. `thread` is
    // the caller's number, below `threads`, and no other caller's; no lock, no allocation.
    void write(std::size_t thread, const RequestRecord& record);

    // The form and share of lines from now on. Any thread.
    void change_lines(LogFormat format, double sample);
    // Opens the path anew (USR1); if that fails, the old file stays and the error log says so. Any
    // thread.
    void reopen();
    // Lines that were not written. Any thread.
    std::uint64_t dropped() const;

  private:
    struct Impl;
    std::shared_ptr<Impl> impl_;  // the writer's too
};

}  // namespace tidegate::telemetry
