// All examinations talk to servers through this: how long they wait, several at once, where a name
// leads, one handshake of TLS, the beginning of HTTP/2.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "doctor/doctor.hpp"
#include "net/asio.hpp"
#include "net/deadline.hpp"
#include "tls/certificate.hpp"
#include "tls/tls_client.hpp"

namespace tidegate::doctor {

struct TimeLimit {
    SteadyTime end;                         // of everything
    std::chrono::milliseconds step{2'000};  // for one thing

    // How long a step that begins now may take; not nothing.
    std::chrono::milliseconds for_step() const {
        // Rounded up: a step that takes all of it ends no sooner than everything.
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        return std::max(std::min(left, step), std::chrono::milliseconds{1});
    }
};

// Returns what `task` returns, or throws what it throws. It runs on `io`, which no other thread
// runs, and has a deadline of its own.
template <class T>
T wait_for(asio::io_context& io, Task<T> task) {
    std::optional<T> result;
    spawn(io.get_executor(), std::move(task), [&](const std::exception_ptr& failure, T value) {
        if (failure) std::rethrow_exception(failure);
        result = std::move(value);
    });
    io.restart();
    while (!result && io.run_one() > 0) {
    }
    return std::move(*result);
}

// Calls `examine(index)` for each index below `count`, on up to sixteen threads of which the
// caller's is one, and returns what was found in the order of the indices. What it throws is a
// finding, too: no memory, no descriptors. Where no thread can be had, those that are there do all.
template <class Examine>
Findings in_parallel(std::size_t count, Examine examine) {
    constexpr std::size_t kThreadsMax = 16;
    std::vector<Findings> found(count);
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
        for (std::size_t index = next++; index < count; index = next++) {
            try {
                found[index] = examine(index);
            } catch (const std::exception& error) {
                found[index].fault("here", std::string("the check failed: ") + error.what(),
                                   "see the limits of this process (ulimit -a) and the memory of "
                                   "this machine");
            }
        }
    };
    {
        std::vector<std::jthread> threads;
        try {
            threads.reserve(kThreadsMax);
            while (threads.size() + 1 < std::min(count, kThreadsMax)) threads.emplace_back(work);
        } catch (const std::exception&) {
            // Fewer take longer, and find the same.
        }
        work();
    }
    Findings all;
    for (Findings& one : found) all.append(std::move(one));
    return all;
}

using Endpoints = std::vector<StreamProtocol::endpoint>;

// Looks up `address`: a name has all its addresses, in the system's order. Or says why it has none.
Result<Endpoints, std::string> find_endpoints(const config::Address& address,
                                              std::chrono::milliseconds time);

// `10.0.0.1:6379`, `[::1]:6379`; of a Unix socket its path.
std::string endpoint_text(const StreamProtocol::endpoint& endpoint);

// Connects and closes. Returns why that failed, a clause, or nothing.
std::string try_connect(const StreamProtocol::endpoint& endpoint, std::chrono::milliseconds time);

struct TlsAnswer {
    std::string fault{};             // why it failed, a clause; empty: it did not
    bool wants_certificate = false;  // the server refuses clients without one, and none is there
    bool speaks_no_tls = false;      // what came was something else

    std::string version{};  // `TLS 1.3`; empty where the handshake did not get that far
    std::string cipher{};   // OpenSSL's name
    // Chosen by the server of what was offered (ALPN); empty: it chose nothing.
    std::string protocol{};
    bool asks_for_certificate = false;
    // The server has shown these, its own certificate first; also where the handshake then failed.
    std::vector<SharedCertificate> chain{};
};

struct TlsTrial {
    StreamProtocol::endpoint endpoint;
    std::string host;      // which it is; asked for
    std::string before{};  // sent in the clear first: a PROXY header
    std::chrono::milliseconds time;
    // Says whether to wait a moment for a server that refuses the client only after the handshake,
    // as servers do in TLS 1.3.
    bool awaits_refusal = true;
    bool offers_http = false;  // kAlpnHttp2, then kAlpnHttp1
};

inline constexpr std::string_view kAlpnHttp2 = "h2";
inline constexpr std::string_view kAlpnHttp1 = "http/1.1";

// Connects, shakes hands and closes. Blocks.
TlsAnswer try_tls(const TlsTrial& trial, const TlsClient& client);

struct Http2Answer {
    std::string fault{};  // why nothing came, a clause; empty: something did
    std::string bytes{};  // what came first
};

struct Http2Trial {
    StreamProtocol::endpoint endpoint;
    std::string before{};  // sent first: a PROXY header
    std::chrono::milliseconds time;
};

// Connects, sends the client's preface with empty SETTINGS, reads until a frame's head is there,
// and closes. Blocks.
Http2Answer try_http2(const Http2Trial& trial);

// Says whether `bytes` begin as a server does that speaks HTTP/2: with the head of SETTINGS. Pure.
bool begins_with_settings(std::string_view bytes);

}  // namespace tidegate::doctor
