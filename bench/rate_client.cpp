// A client that asks at a constant rate, however long the answers take, or as fast as they come.
//
// At a rate, request i is due at i / rate, and its time counts from then, not from when a
// connection was free to send it: a server that stalls is charged for every request that would
// have come meanwhile (many clients send none then, which is called coordinated omission).
// Everything is bounded: connections, requests, time. One thread, one loop; prints one line of
// JSON.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr std::size_t kReadBytes = 65'536;
constexpr std::size_t kHeadBytesMax = 65'536;
constexpr std::string_view kHeadEnd = "\r\n\r\n";
// A placeholder in a head for the number of the request, which is as long.
constexpr std::string_view kNumber = "@number@";

struct Options {
    std::string address = "127.0.0.1";
    std::uint16_t port = 0;
    std::string heads_file;
    std::size_t connections = 64;
    double rate = 0;  // a second; 0: as fast as the answers come
    double seconds = 2;
    std::uint64_t requests_max = 10'000'000;
    std::uint64_t numbers = 1;
    double patience = 5;  // seconds for the last answers
};

// Counts of times, to one part in 64 of each.
class Histogram {
  public:
    void add(nanoseconds time) {
        const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
        ++counts_[bucket_of(ns)];
        ++total_;
        longest_ = std::max(longest_, ns);
    }

    // In microseconds; 0 when there is none.
    double percentile(double share) const {
        const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(total_));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            seen += counts_[i];
            if (seen > wanted) return static_cast<double>(std::min(middle_of(i), longest_)) / 1e3;
        }
        return static_cast<double>(longest_) / 1e3;
    }

  private:
    static constexpr unsigned kFineBits = 6;
    static constexpr std::uint64_t kFine = 1U << kFineBits;

    // Below 64 ns each has its own; above, 64 for each power of two.
    static std::size_t bucket_of(std::uint64_t ns) {
        if (ns < kFine) return static_cast<std::size_t>(ns);
        const auto shift = static_cast<unsigned>(std::bit_width(ns)) - kFineBits - 1;
        return static_cast<std::size_t>((shift + 1) * kFine + ((ns >> shift) - kFine));
    }
    static std::uint64_t middle_of(std::size_t bucket) {
        if (bucket < kFine) return bucket;
        const auto shift = bucket / kFine - 1;
        return ((bucket % kFine + kFine) << shift) + ((std::uint64_t{1} << shift) >> 1);
    }

    std::array<std::uint64_t, (64 - kFineBits + 1) * kFine> counts_{};
    std::uint64_t total_ = 0;
    std::uint64_t longest_ = 0;
};

[[noreturn]] void fail(const std::string& what) {
    throw std::system_error(errno, std::generic_category(), what);
}

// ---- what is sent

// How many bytes of body follow a head, as load.py writes it.
std::size_t body_bytes_of(std::string_view head) {
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    const std::size_t at = head.find(kLength);
    std::size_t bytes = 0;
    if (at == std::string_view::npos) return bytes;
    const std::string_view digits = head.substr(at + kLength.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), bytes);
    return bytes;
}

// The requests of the file, one after the other, each with its number written in.
class Heads {
  public:
    Heads(const std::string& file, std::uint64_t numbers) : numbers_(numbers) {
        std::ifstream in(file, std::ios::binary);
        std::string text{std::istreambuf_iterator<char>(in), {}};
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = text.find(kHeadEnd, at);
            if (end == std::string::npos) break;
            const std::size_t size = end + kHeadEnd.size() - at;
            const std::size_t body = body_bytes_of(std::string_view(text).substr(at, size));
            heads_.push_back(text.substr(at, size + body));
            at += size + body;
        }
        if (heads_.empty()) throw std::runtime_error(file + " has no request");
        for (const std::string& head : heads_) number_at_.push_back(head.find(kNumber));
    }

    // Good until the next call.
    std::string_view next() {
        const std::size_t i = count_ % heads_.size();
        if (number_at_[i] != std::string::npos) {
            std::uint64_t left = count_ % numbers_;
            for (std::size_t digit = kNumber.size(); digit-- > 0; left /= 10) {
                heads_[i][number_at_[i] + digit] = static_cast<char>('0' + left % 10);
            }
        }
        ++count_;
        return heads_[i];
    }

  private:
    std::vector<std::string> heads_;
    std::vector<std::size_t> number_at_;
    std::uint64_t numbers_;
    std::uint64_t count_ = 0;
};

// ---- what comes back

// How far an answer has been read; its body is counted, not kept.
struct Answer {
    std::string head;
    std::uint64_t body_left = 0;
    int status = 0;  // 0: the head is not complete
};

bool equal_nocase(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
        return (x >= 'A' && x <= 'Z' ? x + 32 : x) == (y >= 'A' && y <= 'Z' ? y + 32 : y);
    });
}

// The status and the length. False: not an answer that a keep-alive client can read.
bool read_head(Answer& answer) {
    const std::string_view head = answer.head;
    if (!head.starts_with("HTTP/1.1 ") || head.size() < 12) return false;
    std::from_chars(head.data() + 9, head.data() + 12, answer.status);
    bool has_length = answer.status == 204 || answer.status == 304;
    for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
        const std::size_t end = head.find("\r\n", at);
        const std::string_view line = head.substr(at, end - at);
        const std::size_t colon = line.find(':');
        if (colon != std::string_view::npos &&
            equal_nocase(line.substr(0, colon), "content-length")) {
            const std::size_t digits = line.find_first_not_of(' ', colon + 1);
            if (digits == std::string_view::npos) return false;
            std::from_chars(line.data() + digits, line.data() + line.size(), answer.body_left);
            has_length = true;
        }
        at = end + 2;
    }
    return has_length && answer.status >= 200;
}

enum class Progress { wants_more, complete, broken };

Progress take(Answer& answer, std::string_view bytes) {
    if (answer.status == 0) {
        const std::size_t had = answer.head.size();
        answer.head.append(bytes);
        const std::size_t end = answer.head.find(kHeadEnd, had < 3 ? 0 : had - 3);
        if (end == std::string::npos) {
            return answer.head.size() > kHeadBytesMax ? Progress::broken : Progress::wants_more;
        }
        const std::size_t head_bytes = end + kHeadEnd.size();
        bytes.remove_prefix(head_bytes - had);
        answer.head.resize(head_bytes);
        if (!read_head(answer)) return Progress::broken;
    }
    if (bytes.size() > answer.body_left) return Progress::broken;  // bytes behind the answer
    answer.body_left -= bytes.size();
    return answer.body_left == 0 ? Progress::complete : Progress::wants_more;
}

// ---- the loop

struct Connection {
    int fd = -1;
    Clock::time_point since;  // from when the time of its request counts
    Answer answer;
};

class Client {
  public:
    explicit Client(const Options& options)
        : options_(options), heads_(options.heads_file, options.numbers), epoll_(epoll_create1(0)) {
        if (epoll_ < 0) fail("epoll");
        // Or the kernel may sleep 50 us longer than asked.
        prctl(PR_SET_TIMERSLACK, 1);
        connections_.resize(options.connections);
        for (Connection& connection : connections_) open(connection);
        total_ = options.requests_max;
        if (options.rate > 0) {
            total_ = std::min(total_, static_cast<std::uint64_t>(options.rate * options.seconds));
        }
    }
    ~Client() {
        for (const Connection& connection : connections_) {
            if (connection.fd >= 0) close(connection.fd);
        }
        close(epoll_);
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    nlohmann::json run() {
        begin_ = Clock::now();
        const Clock::time_point end = begin_ + in_seconds(options_.seconds);
        const Clock::time_point last = end + in_seconds(options_.patience);
        while (!all_lost()) {
            now_ = Clock::now();
            // At a rate every due request is sent, even late; else the run ends when its time is
            // over.
            const bool more = sent_ < total_ && now_ < (options_.rate > 0 ? last : end);
            if (more) send_what_is_due();
            if ((!more && waiting_ == 0) || now_ >= last) break;
            wait(more ? std::min(next_due(), last) : last);
        }
        return report();
    }

  private:
    static nanoseconds in_seconds(double seconds) {
        return nanoseconds(static_cast<std::int64_t>(seconds * 1e9));
    }

    void open(Connection& connection) {
        connection.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connection.fd < 0) fail("socket");
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(options_.port);
        if (inet_pton(AF_INET, options_.address.c_str(), &address.sin_addr) != 1) {
            throw std::runtime_error(options_.address + " is not an IPv4 address");
        }
        if (connect(connection.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
            0) {
            fail("connect");
        }
        const int on = 1;
        setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = static_cast<std::uint64_t>(&connection - connections_.data());
        if (epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &event) != 0) fail("epoll_ctl");
        idle_.push_back(&connection);
    }

    bool all_lost() const { return lost_ == connections_.size(); }

    Clock::time_point due(std::uint64_t request) const {
        return begin_ + in_seconds(static_cast<double>(request) / options_.rate);
    }

    Clock::time_point next_due() const {
        // Without a connection the client waits for an answer, not for a time.
        return options_.rate > 0 && !idle_.empty() ? due(sent_) : Clock::time_point::max();
    }

    void send_what_is_due() {
        while (sent_ < total_ && !idle_.empty()) {
            const Clock::time_point since = options_.rate > 0 ? due(sent_) : now_;
            if (since > now_) return;
            Connection& connection = *idle_.front();
            idle_.pop_front();
            ++sent_;
            ++waiting_;
            connection.since = since;
            const std::string_view head = heads_.next();
            const ssize_t wrote = send(connection.fd, head.data(), head.size(), MSG_NOSIGNAL);
            if (wrote != static_cast<ssize_t>(head.size())) lose(connection);
        }
    }

    void wait(Clock::time_point until) {
        const nanoseconds left = std::max(until - Clock::now(), nanoseconds{0});
        const timespec timeout{left.count() / 1'000'000'000, left.count() % 1'000'000'000};
        std::array<epoll_event, 64> events{};
        const int count = epoll_pwait2(epoll_, events.data(), events.size(), &timeout, nullptr);
        if (count < 0 && errno != EINTR) fail("epoll_wait");
        for (int i = 0; i < count; ++i)
            receive(connections_[events[static_cast<std::size_t>(i)].data.u64]);
    }

    void receive(Connection& connection) {
        const ssize_t got = recv(connection.fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
        const Progress progress =
            got <= 0 ? Progress::broken
                     : take(connection.answer, {buffer_.data(), static_cast<std::size_t>(got)});
        if (progress == Progress::broken) return lose(connection);
        if (progress == Progress::wants_more) return;
        times_.add(Clock::now() - connection.since);
        ++statuses_[connection.answer.status];
        connection.answer.head.clear();
        connection.answer.status = 0;
        --waiting_;
        idle_.push_back(&connection);
    }

    // A connection that fails is not replaced: a run with faults says so, and is worth nothing.
    void lose(Connection& connection) {
        const auto idle = std::find(idle_.begin(), idle_.end(), &connection);
        if (idle != idle_.end()) {
            idle_.erase(idle);
        } else {
            --waiting_;
        }
        close(connection.fd);
        connection.fd = -1;
        ++lost_;
    }

    nlohmann::json report() const {
        std::uint64_t answered = 0;
        nlohmann::json statuses = nlohmann::json::object();
        for (const auto& [status, count] : statuses_) {
            answered += count;
            statuses[std::to_string(status)] = count;
        }
        const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
        return {{"requests", answered},
                {"seconds", seconds},
                {"statuses", statuses},
                {"lost_connections", lost_},
                {"unanswered", waiting_},
                {"unsent", options_.rate > 0 ? total_ - sent_ : 0},
                {"p50_us", times_.percentile(0.5)},
                {"p99_us", times_.percentile(0.99)},
                {"p999_us", times_.percentile(0.999)}};
    }

    const Options& options_;
    Heads heads_;
    int epoll_;
    std::vector<Connection> connections_;
    std::deque<Connection*> idle_;  // the connection that waited longest is first
    std::array<char, kReadBytes> buffer_{};
    Clock::time_point begin_;
    Clock::time_point now_;
    std::uint64_t total_ = 0;
    std::uint64_t sent_ = 0;
    std::uint64_t waiting_ = 0;
    std::uint64_t lost_ = 0;
    Histogram times_;
    std::map<int, std::uint64_t> statuses_;
};

void declare(CLI::App& app, Options& options) {
    app.add_option("--address", options.address, "an IPv4 address");
    app.add_option("--port", options.port)->required();
    app.add_option("--heads", options.heads_file, "requests, one after the other")->required();
    app.add_option("--connections", options.connections)->check(CLI::Range(1, 10'000));
    app.add_option("--rate", options.rate, "requests a second; 0: as fast as answers come")
        ->check(CLI::Range(0.0, 1e6));
    app.add_option("--seconds", options.seconds)->check(CLI::Range(0.01, 600.0));
    app.add_option("--requests", options.requests_max, "at most so many");
    app.add_option("--numbers", options.numbers, "@number@ in a head counts from 0 to before this")
        ->check(CLI::Range(1, 100'000'000));
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Asks at a constant rate, and times each answer from when its request was due");
    declare(app, options);
    CLI11_PARSE(app, argc, argv);
    try {
        std::cout << Client(options).run() << '\n';
    } catch (const std::exception& error) {
        std::cerr << "bench_rate: " << error.what() << '\n';
        return 1;
    }
}
