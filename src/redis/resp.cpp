#include "redis/resp.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include <hiredis/hiredis.h>

namespace tidegate::redis {

namespace {

// CLUSTER NODES of a thousand nodes is an eighth of it.
constexpr std::size_t kUnreadBytesMax = std::size_t{1} << 20;
constexpr std::size_t kValuesMax = 16'384;

// Deeper than any reply that Tidegate asks for. hiredis 0.14 stops at seven lists in each other;
// newer versions follow them as deep as they are sent, and each takes memory.
bool is_too_deep(const redisReadTask* task) {
    constexpr int kDepthMax = 7;
    int depth = 0;
    while ((task = task->parent) != nullptr && depth <= kDepthMax) ++depth;
    return depth > kDepthMax;
}

}  // namespace

std::string_view RespValue::value_of(std::string_view name) const {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        if (items[i].text == name) return items[i + 1].text;
    }
    return {};
}

struct RespReader::Hooks {
    using Kind = RespValue::Kind;

    // A list makes room for its values as they arrive: its length is only what the server says.
    static void* keep(const redisReadTask* task, RespValue value) {
        auto& self = *static_cast<RespReader*>(task->privdata);
        if (++self.values_ > kValuesMax) return nullptr;
        if (task->parent == nullptr) return std::make_unique<RespValue>(std::move(value)).release();
        auto& items = static_cast<RespValue*>(task->parent->obj)->items;
        return &items.emplace_back(std::move(value));
    }
    static void* keep_integer(const redisReadTask* task, std::int64_t integer) {
        return keep(task,
                    {.kind = Kind::integer, .text = std::to_string(integer), .integer = integer});
    }
    static redisReplyObjectFunctions functions() {
        redisReplyObjectFunctions made{};
        made.createString = [](const redisReadTask* task, char* text, std::size_t size) {
            const bool is_error = task->type == REDIS_REPLY_ERROR;
            return keep(task, {.kind = is_error ? Kind::error : Kind::text, .text = {text, size}});
        };
        // The number of elements is an int or a size_t, as the version of hiredis has it.
        made.createArray = [](const redisReadTask* task, auto) -> void* {
            return is_too_deep(task) ? nullptr : keep(task, {.kind = Kind::list});
        };
        made.createInteger = [](const redisReadTask* task, long long integer) {
            return keep_integer(task, integer);
        };
        made.createNil = [](const redisReadTask* task) { return keep(task, {}); };
#if HIREDIS_MAJOR >= 1
        // RESP3, which Tidegate does not ask for. Without these hiredis would give a number for a
        // pointer.
        made.createDouble = [](const redisReadTask* task, double, char* text, std::size_t size) {
            return keep(task, {.kind = Kind::text, .text = {text, size}});
        };
        made.createBool = [](const redisReadTask* task, int value) {
            return keep_integer(task, value);
        };
#endif
        // hiredis calls it with the outermost value alone.
        made.freeObject = [](void* value) { delete static_cast<RespValue*>(value); };
        return made;
    }
};

void RespReader::Free::operator()(redisReader* reader) const {
    ::redisReaderFree(reader);
}

RespReader::RespReader() {
    static redisReplyObjectFunctions functions = Hooks::functions();
    reader_.reset(::redisReaderCreateWithFunctions(&functions));
    if (!reader_) throw std::bad_alloc();
    reader_->privdata = this;
}

RespReader::~RespReader() = default;

bool RespReader::feed(std::string_view bytes) {
    if (broken_) return false;
    broken_ = reader_->len - reader_->pos + bytes.size() > kUnreadBytesMax ||
              ::redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK;
    return !broken_;
}

std::optional<RespValue> RespReader::next() {
    void* whole = nullptr;
    if (broken_) return std::nullopt;
    broken_ = ::redisReaderGetReply(reader_.get(), &whole) != REDIS_OK;
    if (broken_ || whole == nullptr) return std::nullopt;
    values_ = 0;
    const std::unique_ptr<RespValue> value(static_cast<RespValue*>(whole));
    return std::move(*value);
}

namespace {

bool contains(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

}  // namespace

bool wants_password(std::string_view error) {
    return error.starts_with("NOAUTH") || contains(error, "unauthenticated");
}

bool has_no_password(std::string_view error) {
    return contains(error, "without any password") || contains(error, "no password is set");
}

bool is_temporary(std::string_view error) {
    return error.starts_with("LOADING") || error.starts_with("BUSY") ||
           error.starts_with("MASTERDOWN") || error.starts_with("OOM") ||
           error.starts_with("ERR max number of clients");
}

// Redis checks for these before the first write of a script, and not after it. Before Redis 7 it
// wraps the error of a script. Other errors may quote a key, which a client can choose: so each
// code has its place.
bool is_not_ready(std::string_view error) {
    static constexpr std::string_view kCodes[] = {
        "READONLY ",   "MASTERDOWN ",  "LOADING ",  "BUSY ",  "OOM ", "MISCONF ",
        "NOREPLICAS ", "CLUSTERDOWN ", "TRYAGAIN ", "MOVED ", "ASK ", "NOSCRIPT "};
    constexpr std::string_view kOfScript = "ERR Error running script";
    if (error.starts_with(kOfScript)) {
        const std::size_t code = error.find(": -");
        if (code == error.npos) return false;
        error.remove_prefix(code + 3);
    }
    return std::any_of(std::begin(kCodes), std::end(kCodes),
                       [&](std::string_view code) { return error.starts_with(code); });
}

// Redis 7.0 words it otherwise where a script called the command.
bool is_denied(std::string_view error) {
    return error.starts_with("NOPERM") || contains(error, "executing the script can't") ||
           contains(error, "ACL failure in script");
}

// A script says it otherwise.
bool lacks_command(std::string_view error) {
    return error.starts_with("ERR unknown command") ||
           error.starts_with("ERR unknown subcommand") ||
           (contains(error, "nknown") && contains(error, "command called from"));
}

bool is_too_old(std::string_view error) {
    return contains(error, "not allowed after non deterministic commands");
}

bool is_access_error(std::string_view error) {
    return error.starts_with("NOAUTH") || error.starts_with("WRONGPASS") ||
           error.starts_with("NOPERM") || error.starts_with("ERR AUTH") ||
           error.starts_with("ERR invalid password") || contains(error, "without any password");
}

// Before Redis 7 the error of a script is wrapped in the place where it happened.
bool is_replica_error(std::string_view error) {
    return error.starts_with("READONLY") || error.starts_with("MASTERDOWN") ||
           contains(error, "-READONLY ") || contains(error, "-MASTERDOWN ");
}

std::string_view without_arguments(std::string_view error) {
    return error.substr(0, error.find(", with args"));
}

std::string_view shown_error(std::string_view error) {
    constexpr std::size_t kShownMax = 200;
    return without_arguments(error).substr(0, kShownMax);
}

}  // namespace tidegate::redis
