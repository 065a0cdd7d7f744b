// Holds docs/scripts.md to the code: its examples are what the proxy sends, what the script asks of
// Redis and writes there, and what it answers.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <hiredis/hiredis.h>

#include "places.hpp"
#include "store/charge_script.hpp"
#include "store/redis_asking.hpp"
#include "store/scripts.hpp"

namespace tidegate::test::scripts_page_test {
namespace {

using namespace std::chrono_literals;

// The fenced block of the page that follows `<!-- example: NAME -->`.
std::string example(const std::string& name) {
    std::ifstream file(source_folder() + "/docs/scripts.md");
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    const std::string mark = "<!-- example: " + name + " -->";
    const std::size_t at = page.find(mark);
    if (at == std::string::npos) throw std::runtime_error("docs/scripts.md has no " + mark);
    const std::size_t begin = page.find('\n', page.find("```", at)) + 1;
    return page.substr(begin, page.find("```", begin) - begin);
}

// Bytes in hexadecimal, of an example the bytes before the explanation of each line.
std::string hex(std::string_view bytes) {
    std::ostringstream out;
    for (const char byte : bytes) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        const auto value = static_cast<unsigned char>(byte);
        out << kDigits[value >> 4] << kDigits[value & 15] << ' ';
    }
    return out.str();
}
std::string hex_of_example(const std::string& name) {
    std::istringstream lines(example(name));
    std::string out;
    for (std::string line; std::getline(lines, line);) {
        out.append(line, 0, line.find("  ")).append(1, ' ');
    }
    return out;
}

void replace_all(std::string& text, std::string_view part, std::string_view other) {
    for (std::size_t at = text.find(part); at != std::string::npos;
         at = text.find(part, at + other.size())) {
        text.replace(at, part.size(), other);
    }
}

// As the page shows a command: a line for each string, and the ends of lines as escapes.
std::string shown(std::string command) {
    replace_all(command, "\r\n", "\\r\\n");
    replace_all(command, "\\r\\n$", "\\r\\n\n$");
    return command + "\n";
}

// A line of MONITOR as the page shows it: the command alone, with <bytes> in place of bytes that
// are not text.
std::string shown_call(std::string_view line) {
    line.remove_prefix(line.find("] ") + 2);
    std::string out;
    while (!line.empty()) {
        std::size_t end = line.find('"', 1);
        while (line[end - 1] == '\\') end = line.find('"', end + 1);
        const std::string_view word = line.substr(0, end + 1);
        out += word.find("\\x") == std::string_view::npos ? word : "<bytes>";
        line.remove_prefix(std::min(end + 2, line.size()));
        out += line.empty() ? "\n" : " ";
    }
    return out;
}

// The example of the page: one policy, two identifiers, three windows.
class Walk {
  public:
    Walk() : monitor_(shared_server().port()) { monitor_.command({"MONITOR"}); }

    std::string command(Micros now) const {
        std::string command;
        const limit::Charge charge = ask_;
        store::append_charge_command({&charge, 1}, "tg:", now, command);
        return command;
    }
    // calls() returns the commands that the script sends to Redis meanwhile.
    std::string reply(Micros now) {
        redis_.connection().send(command(now));
        const Reply reply = redis_.connection().read();
        redis_.text({"PING"});
        calls_.clear();
        for (;;) {
            const Reply line = monitor_.read();
            const std::string_view text(line->str, line->len);
            if (text.ends_with("\"PING\"")) break;
            if (text.find("[0 lua]") != std::string_view::npos) calls_ += shown_call(text);
        }
        return {reply->str, reply->len};
    }
    const std::string& calls() const { return calls_; }
    limit::Verdict verdict_of(std::string_view reply) const {
        const limit::Charge charge = ask_;
        limit::Verdict verdict;
        limit::Verdict* const verdicts[] = {&verdict};
        if (!store::read_charge_reply(reply, {&charge, 1}, verdicts)) {
            throw std::runtime_error("a reply that is no verdict");
        }
        return verdict;
    }
    // The record of both identifiers, which have had the same requests.
    std::string value() {
        std::string value = redis_.text({"GET", "tg:4:default:{user:alice}"});
        CHECK(value == redis_.text({"GET", "tg:4:default:{ip:192.0.2.7}"}));
        return value;
    }
    std::string_view sha1() const { return store::charge_script(ask_).sha1; }

  private:
    limit::Policy policy_ =
        policy("default", {sliding(3, 1s), sliding(100, 1min), sliding(1'000, 1h)});
    Ask ask_{policy_, {"ip:192.0.2.7", "user:alice"}};
    RedisSubject redis_;
    RedisConnection monitor_;
    std::string calls_;
};

constexpr Micros kFirst{1'700'000'000'612'345};
constexpr Micros kSecond{1'700'000'000'630'000};
constexpr Micros kThird{1'700'000'000'635'000};
constexpr Micros kFourth{1'700'000'000'639'000};

}  // namespace

TEST_CASE("redis: docs/scripts.md shows the command of a decision") {
    const Walk walk;
    std::string command = walk.command(kSecond);
    const std::size_t policies = command.find("$87\r\n") + 5;
    CHECK(hex(std::string_view(command).substr(policies, 87)) == hex_of_example("ARGV[1]"));
    CHECK(hex(std::string_view(command).substr(policies + 87 + 6, 8)) == hex_of_example("ARGV[2]"));
    command.replace(policies + 87 + 6, 8, "<ARGV[2]>");
    command.replace(policies, 87, "<ARGV[1]>");
    replace_all(command, walk.sha1(), "<sha1>");
    CHECK(shown(command) == example("command"));
}

TEST_CASE("redis: docs/scripts.md shows what a decision reads, writes and answers") {
    Walk walk;
    walk.reply(kFirst);
    CHECK(walk.calls() == example("calls of the first request"));
    CHECK(hex(walk.value()) == hex_of_example("value before"));

    const std::string reply = walk.reply(kSecond);
    CHECK(walk.calls() == example("calls"));
    CHECK(hex(walk.value()) == hex_of_example("value after"));
    CHECK(hex(reply) == hex_of_example("reply"));
    const limit::Verdict verdict = walk.verdict_of(reply);
    CHECK(verdict.admitted);
    CHECK(verdict.limits[0].remaining == 1);
    CHECK(verdict.limits[1].remaining == 98);
    CHECK(verdict.limits[2].remaining == 998);

    walk.reply(kThird);
    CHECK(walk.calls() == example("calls of the third request"));

    const std::string value = walk.value();
    const std::string denial = walk.reply(kFourth);
    CHECK(walk.calls() == example("calls of a denial"));
    CHECK(hex(denial) == hex_of_example("reply of a denial"));
    CHECK(walk.value() == value);
    CHECK_FALSE(walk.verdict_of(denial).admitted);
    CHECK(walk.verdict_of(denial).retry_after == 961ms);
}

}  // namespace tidegate::test::scripts_page_test
