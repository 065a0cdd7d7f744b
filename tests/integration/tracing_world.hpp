// A collector of spans, as tests of tracing need it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "integration/tidegate.hpp"
#include "integration/upstream.hpp"

namespace tidegate::test {

inline std::string accepted(const std::string& body = "{}") {
    return ok(body, "Content-Type: application/json\r\n");
}

// `tracing` that sends to `port`; `more` is the rest of it.
inline std::string tracing_to(std::uint16_t port, const std::string& more = "sample: 1") {
    return "tracing: {otlp: \"http://127.0.0.1:" + std::to_string(port) + "/v1/traces\", " + more +
           "}\n";
}

// Keeps the spans that it is sent, whatever it answers.
class Collector {
  public:
    explicit Collector(Upstream::Answer answer = [](const Message&) { return accepted(); })
        : server_(Upstream::answering(std::move(answer))) {}

    std::string tracing(const std::string& more = "sample: 1") const {
        return tracing_to(server_.port(), more);
    }
    const Upstream& server() const { return server_; }
    // Of all batches in turn; those of one name, if it is not empty.
    std::vector<nlohmann::json> spans(const std::string& name = "") const {
        std::vector<nlohmann::json> found;
        for (const Message& message : server_.seen()) {
            const nlohmann::json batch = nlohmann::json::parse(message.body);
            for (const nlohmann::json& span : batch["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
                if (name.empty() || span["name"] == name) found.push_back(span);
            }
        }
        return found;
    }

    // Those of whole requests, whatever they are called.
    std::vector<nlohmann::json> requests() const {
        constexpr int kServer = 2;
        std::vector<nlohmann::json> found = spans();
        std::erase_if(found, [](const nlohmann::json& span) { return span["kind"] != kServer; });
        return found;
    }

  private:
    Upstream server_;
};

// The value of an attribute; null: there is none.
inline nlohmann::json attribute(const nlohmann::json& span, const std::string& key) {
    for (const nlohmann::json& one : span["attributes"]) {
        if (one["key"] == key) return one["value"].begin().value();
    }
    return nullptr;
}

inline double spans_dropped(const Tidegate& tidegate, const std::string& reason) {
    return tidegate.metric("tidegate_trace_spans_dropped_total{reason=\"" + reason + "\"}");
}

inline double spans_exported(const Tidegate& tidegate) {
    return tidegate.metric("tidegate_trace_spans_exported_total");
}

}  // namespace tidegate::test
