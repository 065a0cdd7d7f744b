#include "integration/tidegate.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "integration/soon.hpp"

namespace tidegate::test {
namespace {

bool has_listener(const std::string& yaml) {
    return yaml.find("listen:") != std::string::npos;
}

std::string settings(const std::string& yaml, const std::string& listen, std::uint16_t admin_port,
                     const std::string& admin_token, const std::string& access_log) {
    std::ostringstream text;
    text << listen << "admin: {address: 127.0.0.1:" << admin_port
         << (admin_token.empty() ? "" : ", token: " + admin_token) << "}\n";
    if (yaml.find("log:") == std::string::npos) {
        text << "log: {access: {path: " << access_log << "}, level: info}\n";
    }
    if (yaml.find("threads:") == std::string::npos) text << "threads: 2\n";
    text << yaml << '\n';
    return text.str();
}

// The lines of `text` that begin with `name`, as (labels, value).
std::vector<std::pair<std::string, double>> series_of(const std::string& text,
                                                      const std::string& name) {
    std::vector<std::pair<std::string, double>> found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.compare(0, name.size(), name) != 0) continue;
        const auto rest = line.substr(name.size());
        if (rest.empty() || (rest[0] != '{' && rest[0] != ' ')) continue;
        const auto space = rest.rfind(' ');
        found.emplace_back(rest.substr(0, space), std::stod(rest.substr(space + 1)));
    }
    return found;
}

}  // namespace

Tidegate::Tidegate(const std::string& yaml, const std::string& admin_token,
                   const Invocation& invocation)
    : port_(free_port()),
      admin_port_(free_port()),
      admin_token_(admin_token),
      is_refused_(invocation.is_refused) {
    // The kernel may well name the same one twice, as the first is free again.
    while (admin_port_ == port_) admin_port_ = free_port();
    if (!has_listener(yaml)) listener_.emplace(port_);
    write_configuration(yaml);
    std::vector<std::string> command{"env"};
    command.insert(command.end(), invocation.environment.begin(), invocation.environment.end());
    command.insert(command.end(), {program(), "run", "-c", file()});
    command.insert(command.end(), invocation.options.begin(), invocation.options.end());
    process_.emplace(command, folder_.path());
    const auto deadline = Clock::now() + kPatience;
    while (!ready()) {
        if (!running()) throw std::runtime_error("tidegate ended at once, and said:\n" + errors());
        if (Clock::now() > deadline)
            throw std::runtime_error("tidegate is not ready in time, and said:\n" + errors());
        std::this_thread::sleep_for(milliseconds{5});
    }
}

Tidegate::~Tidegate() {
    if (!end_was_seen_) CHECK(stop() == 0);
    const auto said = errors();
    CHECK_MESSAGE(said.find("Sanitizer") == std::string::npos, said);
    CHECK_MESSAGE(said.find("runtime error:") == std::string::npos, said);
    CHECK_MESSAGE(said.find("Assertion") == std::string::npos, said);
}

void Tidegate::write_configuration(const std::string& yaml) const {
    const std::string listen = has_listener(yaml) ? "" : listen_yaml(port_, folder_);
    folder_.write("tidegate.yaml", settings(yaml, listen, admin_port_, admin_token_,
                                            (folder_.path() / "access.log").string()));
}

Message Tidegate::reload() const {
    Socket socket = Socket::connect(admin_port_, "127.0.0.1");
    socket.send("POST /reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return MessageReader(socket).response();
}

std::optional<int> Tidegate::wait(milliseconds patience) {
    const auto code = process_->wait(patience);
    end_was_seen_ = code.has_value();
    return code;
}

std::optional<Message> Tidegate::admin(const std::string& path) const {
    auto socket = Socket::try_connect(admin_port_);
    if (!socket) return std::nullopt;
    socket->send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    return MessageReader(*socket).response();
}

double Tidegate::metric(const std::string& series) const {
    const auto brace = std::min(series.find('{'), series.size());
    for (const auto& [labels, value] :
         series_of(admin("/metrics").value().body, series.substr(0, brace))) {
        if (labels == series.substr(brace)) return value;
    }
    return 0;
}

double Tidegate::metric_sum(const std::string& name, const std::string& label) const {
    double sum = 0;
    for (const auto& [labels, value] : series_of(admin("/metrics").value().body, name)) {
        if (labels.find(label) != std::string::npos) sum += value;
    }
    return sum;
}

int Tidegate::stop() {
    signal(SIGTERM);
    const auto code = wait();
    if (!code) throw std::runtime_error("tidegate does not end, and said:\n" + errors());
    return *code;
}

long Tidegate::peak_memory_kib() const {
    std::istringstream status(read_file("/proc/" + std::to_string(process_->pid()) + "/status"));
    for (std::string word; status >> word;) {
        long kib = 0;
        if (word == "VmHWM:" && status >> kib) return kib;
    }
    throw std::runtime_error("no VmHWM: tidegate has ended");
}

milliseconds Tidegate::processor_time() const {
    const std::string stat = read_file("/proc/" + std::to_string(process_->pid()) + "/stat");
    std::istringstream fields(stat.substr(stat.rfind(')') + 1));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    long user = 0;
    long kernel = 0;
    fields >> user >> kernel;
    return milliseconds{(user + kernel) * 1000 / ::sysconf(_SC_CLK_TCK)};
}

std::vector<nlohmann::json> Tidegate::access_log(std::size_t lines) const {
    const auto deadline = Clock::now() + kPatience;
    for (;;) {
        const auto text = read_file(folder_.path() / "access.log");
        const auto there = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
        if (there >= lines) {
            std::vector<nlohmann::json> records;
            std::istringstream stream(text);
            for (std::string line; records.size() < there && std::getline(stream, line);)
                records.push_back(nlohmann::json::parse(line));
            return records;
        }
        if (Clock::now() > deadline)
            throw std::runtime_error("too few lines in the access log:\n" + text);
        std::this_thread::sleep_for(milliseconds{10});
    }
}

bool Tidegate::ready() const {
    try {
        const auto answer = admin("/readyz");
        if (!answer) return false;
        if (!is_refused_) return answer->status() == 200;
        return answer->body.find("refused by the store") != std::string::npos;
    } catch (const std::exception&) {
        return false;
    }
}

std::string refusal_by_store(const std::string& yaml) {
    const Tidegate tidegate(yaml, "", {.is_refused = true});
    CHECK(tidegate.admin("/readyz").value().status() == 503);
    CHECK_SOON(tidegate.errors().find("; starting without Redis, and not ready") !=
               std::string::npos);
    return tidegate.errors();
}

std::string simple(const std::string& url, const std::string& limits) {
    return "upstream: " + url + "\n" + (limits.empty() ? "" : "limits: [" + limits + "]\n");
}

std::string unlimited(const std::vector<std::string>& urls, const std::string& more) {
    std::string servers;
    for (const auto& url : urls) servers += (servers.empty() ? "" : ", ") + url;
    return "upstreams: {api: {servers: [" + servers + "]" + (more.empty() ? "" : ", " + more) +
           "}}\nroutes: [{name: all, match: {path: \"/**\"}, upstream: api, policies: []}]\n";
}

}  // namespace tidegate::test
