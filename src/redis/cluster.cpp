#include "redis/cluster.hpp"

#include <algorithm>
#include <utility>

#include "redis/client.hpp"
#include "telemetry/error_log.hpp"

namespace tidegate::redis {

namespace {

using telemetry::Level;
using telemetry::log;

constexpr milliseconds kLearnEvery{60'000};
constexpr milliseconds kLearnAgain{1'000};  // after a change
// Between two readings of the list, at least: a slot that moves costs one reading, a thousand that
// move in a second as well.
constexpr milliseconds kLearnPause{500};

// While slots move from node to node, one may name the last but one.
constexpr std::uint8_t kRedirectionsMax = 4;

// Outside of the coroutine: GCC 12 cannot keep an initializer list in its frame.
std::string cluster_nodes() {
    return resp({"CLUSTER", "NODES"});
}

}  // namespace

std::shared_ptr<std::atomic<int>> UnansweredByNode::of(const NodeAddress& node) {
    const std::lock_guard lock(mutex_);
    std::erase_if(counts_, [](const auto& entry) { return entry.second.expired(); });
    auto& known = counts_[node.to_string()];
    auto count = known.lock();
    if (!count) known = count = std::make_shared<std::atomic<int>>(0);
    return count;
}

ClientOptions ClusterOptions::client_of(const NodeAddress& address) const {
    ClientOptions options = node;
    options.host = address.host;
    options.port = address.port;
    options.unanswered = unanswered->of(address);
    options.in_cluster = true;
    if (!options.rights.empty()) options.rights += " +cluster|nodes +asking";
    return options;
}

std::string ClusterOptions::address() const {
    return "the cluster of " + seeds.front().to_string();
}

Cluster::Cluster(Executor executor, ClusterOptions options, OnState on_state)
    : executor_(executor),
      options_(std::move(options)),
      on_state_(std::move(on_state)),
      wakeup_(executor),
      timer_(executor),
      random_(std::random_device{}()) {
    owners_.fill(kNoNode);
    // What is sent before run() waits for them.
    for (const NodeAddress& seed : options_.seeds) find_or_add(seed);
}

Cluster::~Cluster() = default;

Task<> Cluster::run(std::shared_ptr<Cluster> self) {
    Cluster& cluster = *self;
    cluster.running_ = true;
    for (const auto& node : cluster.nodes_) {
        if (node) cluster.start(*node);
    }
    while (!cluster.stopped_) {
        if (steady_now() >= cluster.learn_at_) {
            cluster.learn_at_ = SteadyTime::max();  // unless something comes up meanwhile
            co_await cluster.learn();
            cluster.report_state();
            cluster.plan_learning();
        }
        cluster.stop_retired();
        if (!cluster.stopped_) co_await cluster.wait_until(cluster.learn_at_);
    }
}

void Cluster::stop() {
    stopped_ = true;
    timer_.cancel();
    for (const auto& node : nodes_) {
        if (node) node->client->stop();
    }
    for (const Retired& one : retired_) one.client->stop();
    wakeup_.wake_later();
}

std::optional<Failure> Cluster::send(Request& request, std::uint16_t slot, SteadyTime asked,
                                     SteadyTime needed_by) {
    Client* const client = client_for(slot);
    return client != nullptr ? client->send(request, asked, needed_by) : Failure::unavailable;
}

std::optional<Failure> Cluster::send_with_next(Request& request, std::uint16_t slot) {
    Client* const client = client_for(slot);
    return client != nullptr ? client->send_with_next(request) : Failure::unavailable;
}

bool Cluster::is_away(std::uint16_t slot) const {
    const Client* const client = client_for(slot);
    return client == nullptr || !client->is_up();
}

// For a slot whose owner is not known, any node that is up: it names the owner.
Client* Cluster::client_for(std::uint16_t slot) const {
    const Position owner = owners_[slot];
    if (owner != kNoNode) return nodes_[owner]->client.get();
    for (const auto& node : nodes_) {
        if (node && node->client->is_up()) return node->client.get();
    }
    return nullptr;
}

std::optional<RedisConnectFault> Cluster::try_once(const ClusterOptions& options,
                                                   milliseconds time) {
    const SteadyTime deadline = steady_now() + time;
    std::optional<RedisConnectFault> first;
    for (std::size_t i = 0; i < options.seeds.size(); ++i) {
        const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_now());
        const milliseconds share = left / static_cast<int>(options.seeds.size() - i);
        auto fault = Client::try_once(options.client_of(options.seeds[i]), share);
        if (!fault) return std::nullopt;
        // A node that refuses us says more than one that is away.
        if (!first || (fault->refused && !first->refused)) first = std::move(fault);
    }
    return first;
}

std::optional<Cluster::Position> Cluster::find(const NodeAddress& address,
                                               std::string_view name) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto& node = nodes_[i];
        if (!node || node->address.port != address.port) continue;
        const bool same = node->address.host == address.host ||
                          (!node->name.empty() && node->name == address.host) ||
                          (!name.empty() && node->address.host == name);
        if (same) return static_cast<Position>(i);
    }
    return std::nullopt;
}

std::optional<Cluster::Position> Cluster::find_or_add(const NodeAddress& address) {
    if (const auto known = find(address, {})) return known;
    // Seeds and nodes that were named by others, besides those of the list.
    if (nodes_.size() >= 2 * kClusterNodesMax) return std::nullopt;
    return add(address);
}

Cluster::Position Cluster::add(const NodeAddress& address) {
    auto free = std::find(nodes_.begin(), nodes_.end(), std::nullopt);
    if (free == nodes_.end()) free = nodes_.emplace(free);
    auto client = std::make_shared<Client>(
        executor_, options_.client_of(address),
        [this, address](bool up, std::string_view reason) { on_node_state(address, up, reason); },
        [this, host = address.host](const QueuedCommand& command, std::string_view error) {
            return redirect(host, command, error);
        });
    *free = Node{address, {}, std::move(client), {}};
    if (running_) start(**free);
    return static_cast<Position>(free - nodes_.begin());
}

// From the event loop: this may be inside a reply.
void Cluster::start(const Node& node) {
    asio::post(executor_, [client = node.client, executor = executor_] {
        spawn_vital(executor, Client::run(client));
    });
}

void Cluster::retire(Position position) {
    // Longer than a command may wait for its answer.
    retired_.push_back(
        {std::move(nodes_[position]->client), steady_now() + 2 * options_.node.timeout});
    nodes_[position].reset();
}

void Cluster::stop_retired() {
    const SteadyTime time = steady_now();
    for (const Retired& one : retired_) {
        if (one.until <= time) one.client->stop();
    }
    std::erase_if(retired_, [&](const Retired& one) { return one.until <= time; });
}

// Reads the list from one node, or from each in turn until one has a list.
Task<> Cluster::learn() {
    learned_at_ = steady_now();
    changed_ = std::exchange(moved_, false);
    for (std::size_t tries = 0; tries < nodes_.size() && !stopped_; ++tries) {
        const auto position = next_node_to_ask();
        if (!position) break;
        const NodeAddress asked = nodes_[*position]->address;
        const auto answer = co_await ask(*position);
        if (!answer || stopped_) continue;
        const auto masters = parse_cluster_nodes(*answer, asked.host);
        if (masters) {
            logged_fault_.clear();
            adopt(*masters);
            co_return;
        }
        if (std::exchange(logged_fault_, masters.error()) != masters.error()) {
            log(Level::warn, "Redis at {}: {}", asked.to_string(), masters.error());
        }
    }
    // All that were learned have gone: the seeds may lead to others.
    if (next_node_to_ask() || stopped_) co_return;
    for (const NodeAddress& seed : options_.seeds) find_or_add(seed);
}

std::optional<Cluster::Position> Cluster::next_node_to_ask() {
    for (std::size_t i = 1; i <= nodes_.size(); ++i) {
        const std::size_t position = (last_asked_ + i) % nodes_.size();
        if (!nodes_[position] || !nodes_[position]->client->is_up()) continue;
        last_asked_ = position;
        return static_cast<Position>(position);
    }
    return std::nullopt;
}

Task<std::optional<std::string>> Cluster::ask(Position position) {
    AwaitedCommand command(cluster_nodes(), wakeup_);
    if (nodes_[position]->client->send(command)) co_return std::nullopt;
    while (!command.done()) co_await wakeup_.wait();
    const auto& reply = command.reply();
    if (!reply || reply->kind != Reply::Kind::string) co_return std::nullopt;
    co_return std::string(reply->text);
}

void Cluster::adopt(const std::vector<ClusterNode>& masters) {
    std::array<Position, kSlots> owners;
    owners.fill(kNoNode);
    std::vector<bool> listed(nodes_.size());
    for (const ClusterNode& master : masters) {
        auto position = find(master.address, master.name);
        // A node without slots gets a connection when another node redirects a command to it.
        if (!position && master.slots.empty()) continue;
        if (!position) position = add(master.address);
        if (*position >= listed.size()) listed.resize(*position + std::size_t{1});
        listed[*position] = true;
        nodes_[*position]->name = master.name;
        for (const SlotRange& range : master.slots) {
            std::fill(owners.begin() + range.first, owners.begin() + range.last + 1, *position);
        }
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (nodes_[i] && !listed[i]) retire(static_cast<Position>(i));
    }
    changed_ = changed_ || owners_ != owners;
    owners_ = owners;
    learned_ = true;
}

// What has changed may be about to change again. While a node is missing the others are asked for
// its successor as often as it would be tried itself. Jittered: a hundred proxies do not ask at
// once.
void Cluster::plan_learning() {
    const milliseconds pause = !learned_ || is_down_ ? options_.node.probe_every
                               : changed_            ? kLearnAgain
                                                     : kLearnEvery;
    std::uniform_int_distribution<milliseconds::rep> share(pause.count() / 2, pause.count());
    learn_at_ = std::min(learn_at_, steady_now() + milliseconds{share(random_)});
}

void Cluster::learn_soon() {
    std::uniform_int_distribution<milliseconds::rep> jitter(0, kLearnPause.count() / 10);
    const SteadyTime soon = std::max(steady_now(), learned_at_ + kLearnPause);
    const SteadyTime at = soon + milliseconds{jitter(random_)};
    if (at >= learn_at_) return;
    learn_at_ = at;
    wakeup_.wake_later();
}

Task<> Cluster::wait_until(SteadyTime time) {
    for (const Retired& one : retired_) time = std::min(time, one.until);
    timer_.expires_at(time);
    timer_.async_wait([weak = weak_from_this()](const error_code& ec) {
        if (const auto self = ec ? nullptr : weak.lock()) self->wakeup_.wake_later();
    });
    co_await wakeup_.wait();
}

bool Cluster::redirect(const std::string& from_host, QueuedCommand command,
                       std::string_view error) {
    const auto to = parse_redirection(error, from_host);
    if (!to || stopped_ || command.redirections == kRedirectionsMax) return false;
    const auto position = find_or_add(to->target);
    if (!position) return false;
    command.sent_again = false;
    command.asking = to->is_ask;
    ++command.redirections;
    if (!to->is_ask) {
        owners_[to->slot] = *position;
        moved_ = true;
        learn_soon();
    }
    if (const auto failure = nodes_[*position]->client->forward(command)) {
        command.request->on_failure(*failure);
    }
    return true;
}

void Cluster::on_node_state(const NodeAddress& address, bool up, std::string_view reason) {
    const auto position = find(address, {});
    if (!position || stopped_) return;
    nodes_[*position]->why_down = up ? std::string_view{} : reason;
    // Another node may serve its slots by now; and at the start, here is a node to ask. A node that
    // leaves and is not missed is not reported, so others are asked first.
    if (up || !next_node_to_ask()) report_state();
    learn_soon();
}

void Cluster::report_state() {
    const std::string missing = what_is_missing();
    const bool down = !missing.empty();
    if (stopped_ || down == is_down_) return;
    is_down_ = down;
    if (on_state_) on_state_(!down, down ? missing : options_.address());
}

// Why not every slot is served by a node that is up; empty if each is. Before the owners are known
// one node that is up will do.
std::string Cluster::what_is_missing() const {
    const auto is_up = [](const std::optional<Node>& node) {
        return node && node->client->is_up();
    };
    const auto unserved = std::count(owners_.begin(), owners_.end(), kNoNode);
    if (learned_ && unserved > 0) {
        return options_.address() + ": no node serves " + std::to_string(unserved) + " of " +
               std::to_string(kSlots) + " slots";
    }
    const bool any_up = std::any_of(nodes_.begin(), nodes_.end(), is_up);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (!nodes_[i] || is_up(nodes_[i])) continue;
        const bool matters =
            learned_ ? std::find(owners_.begin(), owners_.end(), i) != owners_.end() : !any_up;
        if (matters) return nodes_[i]->why_down;
    }
    return {};
}

}  // namespace tidegate::redis
