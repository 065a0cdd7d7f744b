// A Tidegate whose listener takes HTTP/2 and HTTP/1 in the clear, the floods of attackers, and a
// check that it serves others meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "free_port.hpp"
#include "integration/h2_client.hpp"
#include "integration/limiter_world.hpp"
#include "integration/load.hpp"
#include "integration/soon.hpp"

namespace tidegate::test {

// One worker, which attackers and others share.
class Http2Proxy {
  public:
    // `rest` is the configuration but for `listen` and `threads`.
    explicit Http2Proxy(const std::string& rest)
        : port_(free_port()), tidegate_(std::in_place, yaml(rest)) {}

    std::uint16_t port() const { return port_; }
    Tidegate& tidegate() { return *tidegate_; }
    const Tidegate& tidegate() const { return *tidegate_; }
    void write_configuration(const std::string& rest) const {
        tidegate_->write_configuration(yaml(rest));
    }
    double ended(const std::string& reason) const {
        return tidegate_->metric("tidegate_http2_connections_ended_total{reason=\"" + reason +
                                 "\"}");
    }
    // It lives, has given all connections back, and serves clients of either protocol.
    void check_alive() {
        CHECK(tidegate_->running());
        CHECK_SOON(tidegate_->metric("tidegate_client_connections") == 0);
        CHECK(H2Client(port_).get().status() == 200);
        CHECK(http_get(port_).status() == 200);
    }

  private:
    std::string yaml(const std::string& rest) const {
        return "listen: {address: '127.0.0.1:" + std::to_string(port_) +
               "', http: [h2, http1]}\nthreads: 1\n" + rest;
    }

    std::uint16_t port_;
    std::optional<Tidegate> tidegate_;
};

// Clients of HTTP/1 and of HTTP/2 that ask one request after the other, on connections of their
// own, until check() is called.
class Others {
  public:
    explicit Others(std::uint16_t port) : load_(port, 2), http2_([this, port] { run(port); }) {}
    ~Others() { stop(); }
    Others(const Others&) = delete;
    Others& operator=(const Others&) = delete;

    // Each was answered with 200.
    void check() {
        const int before = served_;
        CHECK_SOON(served_ > before + 3);
        stop();
        CHECK(failed_ == 0);
        const Statuses statuses = load_.stop();
        CHECK(statuses.size() == 1);
        CHECK(statuses.count(200) == 1);
    }

  private:
    void stop() {
        is_over_ = true;
        if (http2_.joinable()) http2_.join();
    }
    void run(std::uint16_t port) {
        try {
            H2Client client(port);
            while (!is_over_) {
                const bool is_well = client.get().status() == 200;
                ++(is_well ? served_ : failed_);
                std::this_thread::sleep_for(milliseconds{5});
            }
        } catch (const std::exception&) {
            ++failed_;
        }
    }

    BackgroundLoad load_;
    std::atomic<bool> is_over_{false};
    std::atomic<int> served_{0};
    std::atomic<int> failed_{0};
    std::thread http2_;
};

// Watches how much memory a Tidegate takes from now on.
class MemoryBound {
  public:
    explicit MemoryBound(const Tidegate& tidegate)
        : tidegate_(tidegate), before_(tidegate.peak_memory_kib()) {}

    // Sanitizers keep for a while what was given back.
    void check(long mebibytes) const {
        const long grown = tidegate_.peak_memory_kib() - before_;
        CHECK(grown < (sanitized() ? 512L : mebibytes) * 1'024);
    }

  private:
    const Tidegate& tidegate_;
    long before_;
};

// Watches how much processor time a Tidegate takes from now on.
class ProcessorBound {
  public:
    explicit ProcessorBound(const Tidegate& tidegate)
        : tidegate_(tidegate), before_(tidegate.processor_time()) {}

    // Sanitizers make all of it several times as dear.
    void check(milliseconds time) const {
        CHECK((tidegate_.processor_time() - before_).count() <
              (sanitized() ? 10 : 1) * time.count());
    }

  private:
    const Tidegate& tidegate_;
    milliseconds before_;
};

// What has come until the connection ended, while frames were sent.
struct Flooded {
    std::vector<H2Frame> frames{};
    bool has_ended = false;

    // Of the last GOAWAY; -1: there was none.
    std::int64_t goaway() const {
        std::int64_t error = -1;
        for (const H2Frame& frame : frames) {
            if (frame.is(NGHTTP2_GOAWAY)) error = frame.error();
        }
        return error;
    }
    std::size_t count(std::uint8_t type) const {
        std::size_t all = 0;
        for (const H2Frame& frame : frames) all += frame.is(type) ? 1 : 0;
        return all;
    }
};

// Sends what `make` gives for 0, 1, 2, ..., at most `count` of it, and reads until the server
// closes. has_ended is false where the server does not.
inline Flooded flood(H2Wire& wire, std::uint32_t count,
                     const std::function<std::string(std::uint32_t)>& make) {
    Flooded result;
    std::thread reader([&] {
        try {
            while (auto frame = wire.next()) result.frames.push_back(std::move(*frame));
            result.has_ended = true;
        } catch (const std::exception&) {
            wire.socket().shutdown();  // nothing comes: the sender shall not wait, either
        }
    });
    for (std::uint32_t i = 0; i < count; ++i) {
        if (!wire.send(make(i))) break;
    }
    reader.join();
    return result;
}

// What the first GOAWAY of two says is the last stream.
inline constexpr std::uint32_t kLastOfAll = 0x7fffffff;

// The stream of the i-th request.
inline std::uint32_t stream_of(std::uint32_t i) {
    return 2 * i + 1;
}

// HPACK: a literal that enters the table; its name has less than 127 bytes.
inline std::string h2_indexed_literal(const std::string& name, const std::string& value) {
    std::string text = '\x40' + std::string(1, static_cast<char>(name.size())) + name;
    std::size_t size = value.size();
    if (size < 127) return text + static_cast<char>(size) + value;
    text += '\x7f';
    for (size -= 127; size >= 128; size /= 128) text += static_cast<char>(size % 128 + 128);
    return text + static_cast<char>(size) + value;
}

// A block as HEADERS and as many CONTINUATION as it needs.
inline std::string h2_long_headers(std::uint32_t stream, const std::string& block,
                                   std::size_t part = 16'384) {
    std::string bytes;
    for (std::size_t at = 0; at < block.size(); at += part) {
        const bool is_last = at + part >= block.size();
        const int end = is_last ? NGHTTP2_FLAG_END_HEADERS : 0;
        const int flags = at == 0 ? end | NGHTTP2_FLAG_END_STREAM : end;
        bytes += h2_frame(at == 0 ? NGHTTP2_HEADERS : NGHTTP2_CONTINUATION,
                          static_cast<std::uint8_t>(flags), stream, block.substr(at, part));
    }
    return bytes;
}

}  // namespace tidegate::test
