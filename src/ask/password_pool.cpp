#include "ask/password_pool.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <openssl/crypto.h>

#include "base/process.hpp"
#include "identity/digest.hpp"

namespace tidegate::ask {

using identity::KeyedDigest;
using CheckState = PasswordPool::Check::State;

// A coroutine that waits for a check. Only the executor's thread touches it, but for the executor.
struct PasswordPool::Waiter {
    Executor executor;
    Wakeup* wakeup;  // null: its Check is gone
    CheckState state = CheckState::not_asked;
};

struct PasswordPool::Job {
    const KeyedDigest::Value key;
    const std::shared_ptr<const identity::Htpasswd> users;
    const std::string user;
    std::string password;
    const std::uint64_t address;
    bool begun = false;
    std::vector<std::shared_ptr<Waiter>> waiters;

    Job(const KeyedDigest::Value& its_key, std::shared_ptr<const identity::Htpasswd> its_users,
        std::string_view its_user, std::string_view its_password, std::uint64_t its_address)
        : key(its_key),
          users(std::move(its_users)),
          user(its_user),
          password(its_password),
          address(its_address) {}
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;
    ~Job() { wipe(); }

    void wipe() { OPENSSL_cleanse(password.data(), password.size()); }
};

// What the threads of the pool and its Checks share; outlives the pool while there are Checks.
//
// The pool posts an answer with the mutex held, and a Check takes its Waiter out under the same
// mutex before it goes: so the event loop of a Waiter is there when the pool posts to it.
struct PasswordPool::Shared {
    using JobPtr = std::shared_ptr<Job>;

    const Options options;
    const Verify verify;
    const KeyedDigest digest;

    std::mutex mutex;
    std::condition_variable_any news;
    // Jobs that have not begun, in order for each address. Addresses take turns: however many
    // guesses one address makes, another waits for one of them at most.
    std::unordered_map<std::uint64_t, std::deque<JobPtr>> queues;
    std::deque<std::uint64_t> turns;  // the addresses of `queues`; the first is next
    std::size_t waiting = 0;          // in all of them
    std::unordered_map<KeyedDigest::Value, JobPtr, identity::KeyedDigestHash> under_way;
    std::unordered_map<std::uint64_t, std::size_t> by_address;  // jobs under way

    Shared(const Options& chosen, Verify function) : options(chosen), verify(std::move(function)) {}

    void work(const std::stop_token& stop);
    void finish(Job& job, CheckState state);
    void leave(const JobPtr& job, const std::shared_ptr<Waiter>& waiter);
    void begin(const JobPtr& job);
    JobPtr take_next();
    bool make_room_for(std::uint64_t address);
    bool take_out(const JobPtr& job);
    bool has_room_for(std::uint64_t address) const;
    KeyedDigest::Value key_of(const identity::Htpasswd* users, std::string_view user,
                              std::string_view password) const;
};

void PasswordPool::Shared::work(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (news.wait(lock, stop, [this] { return waiting > 0; }) && !stop.stop_requested()) {
        const JobPtr job = take_next();
        job->begun = true;
        lock.unlock();
        const bool right = verify(*job->users, job->user, job->password);
        job->wipe();
        lock.lock();
        finish(*job, right ? CheckState::right : CheckState::wrong);
    }
}

// Wakes all that wait for the job. Requires the mutex.
void PasswordPool::Shared::finish(Job& job, CheckState state) {
    for (std::shared_ptr<Waiter>& waiter : job.waiters) {
        const Executor executor = waiter->executor;
        asio::post(executor, [waiter = std::move(waiter), state] {
            waiter->state = state;
            if (waiter->wakeup != nullptr) waiter->wakeup->wake_later();
        });
    }
    job.waiters.clear();
    const auto share = by_address.find(job.address);
    if (--share->second == 0) by_address.erase(share);
    under_way.erase(job.key);
}

void PasswordPool::Shared::leave(const JobPtr& job, const std::shared_ptr<Waiter>& waiter) {
    const std::lock_guard lock(mutex);
    std::erase(job->waiters, waiter);
    if (!job->waiters.empty() || job->begun) return;
    // A client that hangs up and comes again must not fill the queue with checks that no request
    // waits for.
    if (take_out(job)) finish(*job, CheckState::dropped);
}

void PasswordPool::Shared::begin(const JobPtr& job) {
    under_way.emplace(job->key, job);
    ++by_address[job->address];
    auto& queue = queues[job->address];
    if (queue.empty()) turns.push_back(job->address);
    queue.push_back(job);
    ++waiting;
    news.notify_one();
}

// The first job of the address whose turn it is. Requires a job that waits.
PasswordPool::Shared::JobPtr PasswordPool::Shared::take_next() {
    const std::uint64_t address = turns.front();
    JobPtr job = queues.at(address).front();
    take_out(job);
    // An address with more jobs is the last one now.
    if (!turns.empty() && turns.front() == address) {
        turns.pop_front();
        turns.push_back(address);
    }
    return job;
}

// False: the job does not wait.
bool PasswordPool::Shared::take_out(const JobPtr& job) {
    const auto queue = queues.find(job->address);
    if (queue == queues.end()) return false;
    auto& jobs = queue->second;
    const auto place = std::find(jobs.begin(), jobs.end(), job);
    if (place == jobs.end()) return false;
    jobs.erase(place);
    --waiting;
    if (jobs.empty()) {
        std::erase(turns, queue->first);
        queues.erase(queue);
    }
    return true;
}

// If the queue is full, the address with the most jobs loses its last one, unless `address` would
// then have as many.
bool PasswordPool::Shared::make_room_for(std::uint64_t address) {
    if (waiting < options.waiting) return true;
    const auto most = std::max_element(
        queues.begin(), queues.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const auto own = queues.find(address);
    const std::size_t has = own != queues.end() ? own->second.size() : 0;
    if (most == queues.end() || most->second.size() <= has + 1) return false;
    const JobPtr job = most->second.back();
    take_out(job);
    finish(*job, CheckState::dropped);
    return true;
}

bool PasswordPool::Shared::has_room_for(std::uint64_t address) const {
    const auto share = by_address.find(address);
    return share == by_address.end() || share->second < options.per_address;
}

// Two files may have a user of the same name. The length separates the user from the password.
KeyedDigest::Value PasswordPool::Shared::key_of(const identity::Htpasswd* users,
                                                std::string_view user,
                                                std::string_view password) const {
    const std::array<std::uintptr_t, 2> numbers{reinterpret_cast<std::uintptr_t>(users),
                                                user.size()};
    std::array<char, sizeof numbers> head;
    std::memcpy(head.data(), numbers.data(), head.size());
    return digest.of({{head.data(), head.size()}, user, password});
}

PasswordPool::Check::Check(Executor executor, Wakeup& wakeup)
    : waiter_(std::make_shared<Waiter>(Waiter{std::move(executor), &wakeup})) {}

PasswordPool::Check::~Check() {
    waiter_->wakeup = nullptr;
    // Also when the answer has come: the thread that posted it may still hold the mutex, and the
    // event loop it posted to must not end before it lets go.
    if (shared_ != nullptr) shared_->leave(job_, waiter_);
}

PasswordPool::Check::State PasswordPool::Check::state() const {
    return waiter_->state;
}

PasswordPool::PasswordPool(const Options& options)
    : PasswordPool(options,
                   [](const identity::Htpasswd& users, std::string_view user,
                      std::string_view password) { return users.verify(user, password); }) {}

PasswordPool::PasswordPool(const Options& options, Verify verify)
    : shared_(std::make_shared<Shared>(options, std::move(verify))) {
    for (std::size_t i = 0; i < options.threads; ++i) {
        threads_.emplace_back([shared = shared_](const std::stop_token& stop) {
            block_all_signals();
            shared->work(stop);
        });
    }
}

PasswordPool::~PasswordPool() {
    for (std::jthread& thread : threads_) thread.request_stop();
    {
        const std::lock_guard lock(shared_->mutex);
        while (shared_->waiting > 0) shared_->finish(*shared_->take_next(), CheckState::dropped);
    }
    threads_.clear();
}

PasswordPool::Submitted PasswordPool::submit(Check& check,
                                             std::shared_ptr<const identity::Htpasswd> users,
                                             std::string_view user, std::string_view password,
                                             std::uint64_t address) {
    const auto key = shared_->key_of(users.get(), user, password);
    const std::lock_guard lock(shared_->mutex);
    std::shared_ptr<Job> job;
    if (const auto known = shared_->under_way.find(key); known != shared_->under_way.end()) {
        job = known->second;
        if (job->waiters.size() >= shared_->options.waiters_per_check)
            return Submitted::pool_is_full;
    } else {
        if (!shared_->has_room_for(address)) return Submitted::address_is_full;
        if (!shared_->make_room_for(address)) return Submitted::pool_is_full;
        job = std::make_shared<Job>(key, std::move(users), user, password, address);
        shared_->begin(job);
    }
    job->waiters.push_back(check.waiter_);
    check.waiter_->state = CheckState::waiting;
    check.job_ = std::move(job);
    check.shared_ = shared_;
    return Submitted::yes;
}

std::size_t PasswordPool::waiting() const {
    const std::lock_guard lock(shared_->mutex);
    return shared_->waiting;
}

}  // namespace tidegate::ask
