// One line a request, written by a thread of its own.
//
// Lines go through a bounded ring; when it is full they are dropped and counted, never waited for.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "telemetry/metrics.hpp"

namespace tidegate::telemetry {

// What is known of a request when it ends. Views need to live only through the call. Strings that
// come from a client are escaped by the log, not by the caller.
struct RequestRecord {
    std::chrono::system_clock::time_point time;  // when it began
    std::string_view request_id;
    std::string_view client;   // address, or empty
    std::string_view method;
    std::string_view path;     // without the query
    std::string_view host;
    std::string_view route;    // empty: none matched
    std::span<const std::string_view> identifiers;
    std::string_view verdict;  // admitted | limited | unlimited | local | allowed | unavailable | ""
    std::string_view limited_by;  // `policy/limit` that refused, or empty
    std::string_view store;    // memory | redis | local | ""
    std::string_view upstream; // address of the server, or empty
    std::string_view error;    // whose fault and what, or empty
    Outcome outcome = Outcome::forwarded;
    int status = 0;
    std::uint64_t bytes_received = 0;  // body
    std::uint64_t bytes_sent = 0;      // body
    nanoseconds duration{0};
    nanoseconds decision{0};  // waiting for the store
    nanoseconds upstream_time{0};  // from sending the request to the head of the answer
};

class AccessLog {
  public:
    struct Options {
        std::string path = "-";  // "-": standard output
        bool json = true;        // else one line of text, common log format and what follows it
        double sample = 1.0;     // share of requests written; errors and denials always are
        std::size_t ring_bytes = 1 << 20;  // each thread's
    };

    // Opens the file (append) and starts the writer. Throws std::system_error naming the path.
    AccessLog(const Options& options, std::size_t threads);
    // Writes what is left.
    ~AccessLog();

    // Formats and hands over the line. `thread` is the caller's number; no lock, no allocation.
    void write(std::size_t thread, const RequestRecord& record);

    // Opens the path anew (USR1). Any thread.
    void reopen();
    std::uint64_t dropped() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

// Appends `text` as the inside of a JSON string: quotes, backslashes, controls and invalid UTF-8
// are escaped.
void append_json_escaped(std::string_view text, std::string& out);

}  // namespace tidegate::telemetry
