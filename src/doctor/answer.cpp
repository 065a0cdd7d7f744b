#include "doctor/answer.hpp"

#include <new>
#include <utility>

#include <hiredis/hiredis.h>

#include "base/quote.hpp"
#include "redis/reply_depth.hpp"

namespace tidegate::doctor {

namespace {

// CLUSTER NODES of a thousand nodes is an eighth of it.
constexpr std::size_t kUnreadBytesMax = std::size_t{1} << 20;
constexpr std::size_t kValuesMax = 16'384;

}  // namespace

std::string_view Answer::value_of(std::string_view name) const {
    for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        if (items[i].text == name) return items[i + 1].text;
    }
    return {};
}

std::string without_secret(std::string_view text, std::string_view secret) {
    std::string shown;
    while (!secret.empty()) {
        const std::size_t at = text.find(secret);
        if (at == text.npos) break;
        shown.append(text.substr(0, at)).append("***");
        text.remove_prefix(at + secret.size());
    }
    return shown.append(text);
}

std::string shown_error(std::string_view error, std::string_view password) {
    return quote(without_secret(error.substr(0, error.find(", with args")), password));
}

struct AnswerReader::Hooks {
    // A list makes room for its values as they come: how many there will be is only what the
    // server says.
    static void* keep(const redisReadTask* task, Answer answer) {
        auto& self = *static_cast<AnswerReader*>(task->privdata);
        if (++self.values_ > kValuesMax) return nullptr;
        if (task->parent == nullptr) return std::make_unique<Answer>(std::move(answer)).release();
        auto& items = static_cast<Answer*>(task->parent->obj)->items;
        return &items.emplace_back(std::move(answer));
    }
    static redisReplyObjectFunctions functions() {
        redisReplyObjectFunctions made{};
        made.createString = [](const redisReadTask* task, char* text, std::size_t size) {
            const bool is_error = task->type == REDIS_REPLY_ERROR;
            return keep(task, {.kind = is_error ? Answer::Kind::error : Answer::Kind::text,
                               .text = {text, size}});
        };
        // The number of elements is an int or a size_t, as the version of hiredis has it.
        made.createArray = [](const redisReadTask* task, auto) -> void* {
            return redis::is_too_deep(task) ? nullptr : keep(task, {.kind = Answer::Kind::list});
        };
        made.createInteger = [](const redisReadTask* task, long long integer) {
            return keep(task, {.kind = Answer::Kind::integer,
                               .text = std::to_string(integer),
                               .integer = integer});
        };
        made.createNil = [](const redisReadTask* task) { return keep(task, {}); };
#if HIREDIS_MAJOR >= 1
        // RESP3, which nobody asked for. Without these hiredis would give a number for a pointer.
        made.createDouble = [](const redisReadTask* task, double, char* text, std::size_t size) {
            return keep(task, {.kind = Answer::Kind::text, .text = {text, size}});
        };
        made.createBool = [](const redisReadTask* task, int value) {
            return keep(
                task,
                {.kind = Answer::Kind::integer, .text = std::to_string(value), .integer = value});
        };
#endif
        // Called with the outermost alone.
        made.freeObject = [](void* answer) { delete static_cast<Answer*>(answer); };
        return made;
    }
};

void AnswerReader::Free::operator()(redisReader* reader) const {
    ::redisReaderFree(reader);
}

AnswerReader::AnswerReader() {
    static redisReplyObjectFunctions functions = Hooks::functions();
    reader_.reset(::redisReaderCreateWithFunctions(&functions));
    if (!reader_) throw std::bad_alloc();
    reader_->privdata = this;
}

AnswerReader::~AnswerReader() = default;

bool AnswerReader::feed(std::string_view bytes) {
    if (broken_) return false;
    broken_ = reader_->len - reader_->pos + bytes.size() > kUnreadBytesMax ||
              ::redisReaderFeed(reader_.get(), bytes.data(), bytes.size()) != REDIS_OK;
    return !broken_;
}

std::optional<Answer> AnswerReader::next() {
    void* whole = nullptr;
    if (broken_) return std::nullopt;
    broken_ = ::redisReaderGetReply(reader_.get(), &whole) != REDIS_OK;
    if (broken_ || whole == nullptr) return std::nullopt;
    values_ = 0;
    const std::unique_ptr<Answer> answer(static_cast<Answer*>(whole));
    return std::move(*answer);
}

}  // namespace tidegate::doctor
