// Reads from an answer, as its body passes, how many tokens it took: bodies of JSON, and streams of
// events, of five providers, or members that the configuration names. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/described_enum.hpp"
#include "usage/cost.hpp"
#include "usage/event_stream.hpp"
#include "usage/json_reader.hpp"

namespace tidegate::usage {

// Whose answers are read. `automatic` tells them apart by their members.
enum class Provider : std::uint8_t {
    automatic,
    openai,            // all of its APIs: chat completions, embeddings, images, the Responses API
    openai_responses,  // the Responses API alone, and images
    anthropic,
    gemini,
    bedrock,
};

// Why a request's usage is not known.
enum class UnknownUsage : std::uint8_t {
    no_usage,    // the answer is whole and says none
    unreadable,  // not the JSON, or not the events, that its type promises
    too_deep,
    too_long,    // a line of more than 64 MiB
    media_type,  // no type that usage is read from
    compressed,
    cut,  // the answer, or the client's wait for it, ended early
};
BOOST_DESCRIBE_ENUM(UnknownUsage, no_usage, unreadable, too_deep, too_long, media_type, compressed,
                    cut)

// What the answer says that the request took.
struct Usage {
    Tokens tokens;     // of a provider's answer
    double units = 0;  // of members that the configuration names: the sum of their weighted numbers
    std::string model;  // as the answer names it; empty: it does not
};

// Where usage is found: made once from the configuration, shared by all threads.
class UsageSource {
  public:
    explicit UsageSource(Provider provider);

    // A number of the answer and what one of it costs.
    struct Member {
        std::string pointer;
        double weight = 1;
    };
    // At most 16, each with a pointer of RFC 6901 that is_json_pointer() accepts.
    explicit UsageSource(const std::vector<Member>& members);

    bool is_by_provider() const { return weights_.empty(); }
    // Requires is_by_provider().
    Provider provider() const { return provider_; }

  private:
    friend class AnswerReader;

    Provider provider_ = Provider::automatic;
    std::vector<double> weights_;
    JsonPointers pointers_;
    // An event without any of these has no usage. Empty: each event is read.
    std::vector<std::string> marks_;
};

// One answer. Not copied or moved.
class AnswerReader {
  public:
    enum class Form : std::uint8_t { json, json_lines, server_sent_events, amazon_events };

    // By the media type of Content-Type, without its parameters and in any case; nothing: no usage
    // can be read.
    static std::optional<Form> form_of(std::string_view content_type);

    // `source` must live as long.
    AnswerReader(const UsageSource& source, Form form);
    AnswerReader(const AnswerReader&) = delete;
    AnswerReader& operator=(const AnswerReader&) = delete;

    // The next bytes of the body, without its transfer coding.
    void read(std::string_view piece);
    // The body is whole, and its last event has ended. Not called for one that was cut.
    void end();

    // What was found so far; of a stream that is cut, too.
    const std::optional<Usage>& usage() const { return usage_; }
    // Whether the server has sent a placeholder alone: the numbers that it writes into a stream
    // before it knows the usage.
    bool is_placeholder() const;
    // The last event of the stream was read, as providers mark it: `[DONE]`, `message_stop`, or the
    // event of the Responses API that says the usage. What may follow of the body says nothing.
    bool has_last_event() const { return has_last_event_; }
    // Why there is no usage. Requires end().
    UnknownUsage reason() const { return reason_; }

  private:
    void read_lines(std::string_view piece);
    void read_events(std::string_view piece);
    void read_event(const EventPart& part);
    bool is_chunk() const;
    void keep_of_chunk(std::string_view piece);
    void read_chunk();
    bool may_have_usage(std::string_view event) const;
    void take(const JsonReader::Members& members);

    const UsageSource& source_;
    const Form form_;
    std::variant<std::monostate, ServerSentEvents, AmazonEvents> events_;
    JsonReader json_;
    std::optional<Usage> usage_;
    // Of a provider's answer: the parts of `usage_`.
    Tokens message_;
    Tokens beside_message_;
    std::string short_event_;  // the beginning of the data of an event that comes in pieces
    std::string chunk_;        // of Bedrock's InvokeModel, as far as it is here
    bool has_last_event_ = false;
    bool has_said_usage_ = false;  // more than a placeholder
    UnknownUsage reason_ = UnknownUsage::no_usage;
};

}  // namespace tidegate::usage
