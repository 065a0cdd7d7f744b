#include "redis/sentinel.hpp"

#include <algorithm>
#include <array>
#include <system_error>

#include <hiredis/read.h>

#include "base/numbers.hpp"
#include "base/quote.hpp"
#include "redis/reply_depth.hpp"

namespace tidegate::redis {

namespace {

// SENTINEL MASTERS of a hundred masters with forty fields each is within these.
constexpr std::size_t kItemsMax = 1'024;
constexpr std::size_t kUnreadBytesMax = 1 << 18;
constexpr std::size_t kHostBytesMax = 253;
constexpr std::size_t kNamesShown = 5;
// A sentinel that failed is tried after all others for so long.
constexpr std::chrono::seconds kBadFor{10};

std::string joined(const std::string& host, int port) {
    const bool v6 = host.find(':') != std::string::npos;
    return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::optional<MasterAddress> address_of(std::string_view host, std::string_view port) {
    const bool is_plain =
        !host.empty() && host.size() <= kHostBytesMax &&
        std::all_of(host.begin(), host.end(), [](unsigned char c) { return c > ' ' && c < 0x7f; });
    const auto number = parse_number<std::uint16_t>(port);
    if (!is_plain || number.value_or(0) == 0) return std::nullopt;
    return MasterAddress{std::string(host), *number};
}

}  // namespace

std::string SentinelNode::address() const {
    return joined(host, port);
}

std::string MasterAddress::to_string() const {
    return joined(host, port);
}

struct SentinelReader::Hooks {
    // Objects are only counted by hiredis: what they say goes into the reply being built.
    static void* keep(const redisReadTask* task, std::string_view text,
                      SentinelReply::Kind kind = SentinelReply::Kind::text) {
        auto& self = *static_cast<SentinelReader*>(task->privdata);
        SentinelReply& reply = self.building_;
        if (task->parent == nullptr) {
            reply = {kind, std::string(text), {}};
            return &self;
        }
        const bool is_item = task->parent->parent == nullptr;
        if (!is_item && (task->parent->parent->parent != nullptr || task->idx > 1)) return &self;
        if (reply.items.size() >= kItemsMax) return nullptr;
        reply.items.emplace_back(text);
        return &self;
    }
    static redisReplyObjectFunctions functions() {
        redisReplyObjectFunctions made{};
        made.createString = [](const redisReadTask* task, char* text, std::size_t size) {
            return keep(task, {text, size},
                        task->type == REDIS_REPLY_ERROR ? SentinelReply::Kind::error
                                                        : SentinelReply::Kind::text);
        };
        // The number of elements is an int or a size_t, as the version of hiredis has it. One below
        // zero is a nil, which has its own function.
        made.createArray = [](const redisReadTask* task, auto elements) -> void* {
            auto* const self = static_cast<SentinelReader*>(task->privdata);
            if (static_cast<std::size_t>(elements) > kItemsMax || is_too_deep(task)) return nullptr;
            if (task->parent == nullptr) self->building_ = {SentinelReply::Kind::list, {}, {}};
            return self;
        };
        made.createInteger = [](const redisReadTask* task, long long integer) {
            return keep(task, std::to_string(integer));
        };
        made.createNil = [](const redisReadTask* task) {
            return keep(task, {}, SentinelReply::Kind::nil);
        };
        made.freeObject = [](void*) {};
        return made;
    }
};

void SentinelReader::Free::operator()(redisReader* reader) const {
    ::redisReaderFree(reader);
}

SentinelReader::SentinelReader() {
    static redisReplyObjectFunctions functions = Hooks::functions();
    reader_.reset(::redisReaderCreateWithFunctions(&functions));
    if (!reader_) throw std::bad_alloc();
    reader_->privdata = this;
}

bool SentinelReader::feed(std::string_view bytes) {
    if (broken_) return false;
    broken_ = reader_->len - reader_->pos + bytes.size() > kUnreadBytesMax ||
              ::redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK;
    return !broken_;
}

std::optional<SentinelReply> SentinelReader::next() {
    void* whole = nullptr;
    if (broken_) return std::nullopt;
    broken_ = ::redisReaderGetReply(reader_.get(), &whole) != REDIS_OK;
    if (broken_ || whole == nullptr) return std::nullopt;
    return std::move(building_);
}

std::optional<MasterAddress> master_of(const SentinelReply& reply) {
    if (reply.kind != SentinelReply::Kind::list || reply.items.size() != 2) return std::nullopt;
    return address_of(reply.items[0], reply.items[1]);
}

// `message`, the channel, `<master> <old ip> <old port> <new ip> <new port>`.
std::optional<MasterAddress> switch_of(const SentinelReply& reply, std::string_view master) {
    if (reply.items.size() != 3 || reply.items[0] != "message" ||
        reply.items[1] != "+switch-master") {
        return std::nullopt;
    }
    std::array<std::string_view, 5> words;
    std::string_view rest = reply.items[2];
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::size_t space = rest.find(' ');
        const bool is_last = i + 1 == words.size();
        if (rest.empty() || (space == std::string_view::npos) != is_last) return std::nullopt;
        words[i] = rest.substr(0, space);
        rest.remove_prefix(is_last ? rest.size() : space + 1);
    }
    if (words[0] != master) return std::nullopt;
    return address_of(words[3], words[4]);
}

std::string unknown_master(std::string_view master, const SentinelReply& masters) {
    std::string text = "it knows no master " + quote(master);
    std::string names;
    std::size_t count = 0;
    // Of each master, the first field and its value are there: `name`, and that.
    for (std::size_t i = 1; i < masters.items.size(); i += 2) {
        if (masters.items[i - 1] != "name" || ++count > kNamesShown) continue;
        names += (names.empty() ? "" : ", ") + quote(masters.items[i]);
    }
    if (masters.kind != SentinelReply::Kind::list) return text;
    if (names.empty()) return text + ": it watches none";
    return text + ": it watches " + names + (count > kNamesShown ? " and others" : "");
}

bool is_denial(std::string_view error) {
    return error.starts_with("NOAUTH") || error.starts_with("WRONGPASS") ||
           error.starts_with("NOPERM") || error.starts_with("ERR AUTH") ||
           error.starts_with("ERR invalid password") ||
           error.find("without any password") != std::string_view::npos;
}

// Before Redis 7 the error of a script is wrapped in where it happened.
bool is_replica_error(std::string_view error) {
    return error.starts_with("READONLY") || error.starts_with("MASTERDOWN") ||
           error.find("-READONLY ") != std::string_view::npos ||
           error.find("-MASTERDOWN ") != std::string_view::npos;
}

SentinelOrder::SentinelOrder(std::size_t nodes, std::size_t first)
    : failed_at_(nodes), first_(first % nodes) {}

std::vector<std::size_t> SentinelOrder::next(Time now) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < failed_at_.size(); ++i) {
        order.push_back((first_ + i) % failed_at_.size());
    }
    std::stable_partition(order.begin(), order.end(), [&](std::size_t node) {
        return !failed_at_[node] || now - *failed_at_[node] >= kBadFor;
    });
    first_ = (order.front() + 1) % failed_at_.size();
    return order;
}

}  // namespace tidegate::redis
