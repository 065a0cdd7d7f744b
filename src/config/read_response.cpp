// `response`: the answers to denied requests.
#include <algorithm>
#include <utility>

#include "base/ascii.hpp"
#include "base/quote.hpp"
#include "config/header_field.hpp"
#include "config/read_sections.hpp"

namespace tidegate::config {

namespace {

constexpr std::size_t kBodyBytesMax = 65'536;

enum class AnswerField : std::uint8_t { ratelimit, retry_after, x_ratelimit };

void read_answer_fields(const Value& value, Response& response) {
    std::vector<AnswerField> fields;
    constexpr ListRule kFields{"a list: `[ratelimit, retry-after]`", "fields", 16};
    for (const Value& item : value.one_or_more(kFields)) {
        const auto field = item.choice<AnswerField>({{"ratelimit", AnswerField::ratelimit},
                                                     {"retry-after", AnswerField::retry_after},
                                                     {"x-ratelimit", AnswerField::x_ratelimit}});
        if (field) fields.push_back(*field);
    }
    const auto has = [&](AnswerField field) {
        return std::find(fields.begin(), fields.end(), field) != fields.end();
    };
    response.ratelimit_fields = has(AnswerField::ratelimit);
    response.retry_after_field = has(AnswerField::retry_after);
    response.x_ratelimit_fields = has(AnswerField::x_ratelimit);
}

// Browsers heed the first of two such fields.
void warn_if_hsts_is_added(const Value& fields, const Config& config) {
    const bool has_hsts = std::any_of(config.listen.begin(), config.listen.end(),
                                      [](const Listen& one) { return one.hsts.count() != 0; });
    const std::string lines = "\r\n" + to_lower(config.response.extra_lines);
    if (!has_hsts || lines.find("\r\nstrict-transport-security:") == std::string::npos) return;
    fields.warn(
        "`Strict-Transport-Security` is added here and by `hsts` of a listener: browsers heed one "
        "of them only; remove it here");
}

}  // namespace

std::optional<AnswerBody> read_answer_body(const Value& value) {
    AnswerBody out;
    if (value.is("problem")) return out;
    const std::size_t faults_before = value.context().faults.size();
    Section section(value, "`problem` or a map: `{content_type: text/plain, text: Slow down}`");
    if (const auto type = section.need("content_type", "`content_type: text/plain`")) {
        auto content_type = type->text("a content type such as `text/plain`");
        if (content_type &&
            (!is_field_value(*content_type) || content_type->find('/') == std::string::npos)) {
            type->fault(quote(*content_type) + " is not a content type such as `text/plain`");
        } else if (content_type) {
            out.content_type = std::move(*content_type);
        }
    }
    if (const auto text = section.need("text", "`text: Come back in {retry_after} seconds`")) {
        auto body = text->any_text();
        if (body && body->size() > kBodyBytesMax) {
            text->fault("longer than 64 KiB");
        } else if (body) {
            out.text = std::move(*body);
        }
    }
    section.refuse_others();
    if (!value.is_map() || value.context().faults.size() != faults_before) return std::nullopt;
    return out;
}

void read_response(const Value& value, Config& config, Declared& declared) {
    Response& response = config.response;
    Section section(value);
    section.integer("status", response.status, {400, 599});
    if (const auto headers = section.find("headers")) read_answer_fields(*headers, response);
    if (const auto body = section.find("body")) {
        response.body = read_answer_body(*body).value_or(AnswerBody{});
    }
    if (const auto cors = section.find("cors")) {
        declared.cors.place = cors->place();
        declared.cors.of_response = read_cors(*cors, kPreflight, config, declared);
    }
    if (const auto fields = section.find("extra_headers")) {
        read_extra_headers(*fields, response);
        warn_if_hsts_is_added(*fields, config);
    }
    section.toggle("request_id", response.request_id);
    section.refuse_others();
}

}  // namespace tidegate::config
