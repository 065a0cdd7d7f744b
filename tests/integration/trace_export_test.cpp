// Tracing: faults of a collector, which no request notices.
#include <atomic>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "free_port.hpp"
#include "integration/h2_upstream.hpp"
#include "integration/soon.hpp"
#include "integration/tracing_world.hpp"

namespace tidegate::test::trace_export_test {

using nlohmann::json;

TEST_CASE("tracing: no identifier of a span comes twice, whichever thread makes it") {
    const Upstream upstream(ok());
    const Collector collector;
    const Tidegate tidegate("threads: 4\n" + simple(upstream.url()) + collector.tracing());
    constexpr std::size_t kRequests = 120;
    for (std::size_t i = 0; i < kRequests; ++i) CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(collector.spans().size() == 2 * kRequests);
    std::set<std::string> spans;
    std::set<std::string> traces;
    for (const json& span : collector.spans()) {
        spans.insert(span["spanId"].get<std::string>());
        traces.insert(span["traceId"].get<std::string>());
    }
    CHECK(spans.size() == 2 * kRequests);
    CHECK(traces.size() == kRequests);
    CHECK(collector.server().connections() == 1);  // kept from batch to batch
}

TEST_CASE("tracing: a collector that answers 503 once gets the batch again") {
    const Upstream upstream(ok());
    std::atomic<int> asked{0};
    const Collector collector([&](const Message&) {
        return asked++ == 0 ? "HTTP/1.1 503 Unavailable\r\nRetry-After: 1\r\n"
                              "Content-Length: 0\r\n\r\n"
                            : accepted();
    });
    const Tidegate tidegate(simple(upstream.url()) + collector.tracing());
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_exported(tidegate) == 2);
    CHECK(asked == 2);
    CHECK(collector.server().seen().at(0).body == collector.server().seen().at(1).body);
    CHECK(tidegate.metric_sum("tidegate_trace_spans_dropped_total") == 0);
}

TEST_CASE("tracing: a collector that refuses a batch is not asked again, and the spans count") {
    const Upstream upstream(ok());
    const Collector collector(
        [](const Message&) { return "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"; });
    const Tidegate tidegate(simple(upstream.url()) + collector.tracing());
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_dropped(tidegate, "refused") == 2);
    CHECK(collector.server().requests() == 1);
    CHECK_SOON(tidegate.errors().find("it answered 400") != std::string::npos);
}

TEST_CASE("tracing: spans that the collector rejects from a batch count as dropped") {
    const Upstream upstream(ok());
    const Collector collector([](const Message&) {
        return accepted(R"({"partialSuccess":{"rejectedSpans":"1","errorMessage":"late"}})");
    });
    const Tidegate tidegate(simple(upstream.url()) + collector.tracing());
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(spans_dropped(tidegate, "rejected") == 1);
    CHECK(spans_exported(tidegate) == 1);
}

TEST_CASE("tracing: a collector that is away costs spans, and no request") {
    const Upstream upstream(ok());
    const Tidegate tidegate("threads: 1\n" + simple(upstream.url()) +
                            tracing_to(free_port(), "sample: 1, queue: 64"));
    auto client = tidegate.client();
    for (int i = 0; i < 500; ++i) CHECK(client.get("/").status() == 200);
    CHECK_SOON(spans_dropped(tidegate, "queue_full") > 0);
    CHECK_SOON(spans_dropped(tidegate, "unreachable") > 0);
    CHECK(spans_exported(tidegate) == 0);
    // The spans that are neither sent nor dropped wait in the queue and the batch.
    CHECK(tidegate.metric_sum("tidegate_trace_spans_dropped_total") >= 1'000 - 64 - 512);
}

TEST_CASE("tracing: a collector that is slow holds up no request, and is given up") {
    const Upstream upstream(ok());
    std::atomic<bool> is_over{false};
    const Collector collector([&](const Message&) {
        CHECK(await_quietly([&] { return is_over.load(); }));
        return accepted();
    });
    {
        const Tidegate tidegate(simple(upstream.url()) + collector.tracing());
        CHECK(tidegate.get("/").status() == 200);
        CHECK_SOON(collector.server().requests() == 1);
        CHECK(tidegate.get("/").status() == 200);
        CHECK_SOON(spans_dropped(tidegate, "unreachable") >= 2);
    }
    is_over = true;
}

TEST_CASE("tracing: a stop sends what is left") {
    const Upstream upstream(ok());
    const Collector collector;
    Tidegate tidegate(simple(upstream.url()) + collector.tracing());
    CHECK(tidegate.get("/").status() == 200);
    CHECK(tidegate.stop() == 0);
    CHECK(collector.spans().size() == 2);
}

TEST_CASE("tracing: a reload turns it on, to another collector, and off") {
    const Upstream upstream(ok());
    const Collector first;
    const Collector second;
    const Tidegate tidegate(simple(upstream.url()));
    CHECK(tidegate.get("/").status() == 200);
    tidegate.write_configuration(simple(upstream.url()) + first.tracing());
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get("/").status() == 200);
    tidegate.write_configuration(simple(upstream.url()) + second.tracing());
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get("/").status() == 200);
    CHECK_SOON(first.spans().size() == 2);
    CHECK_SOON(second.spans().size() == 2);
    tidegate.write_configuration(simple(upstream.url()));
    CHECK(tidegate.reload().status() == 200);
    CHECK(tidegate.get("/", "traceparent: x\r\n").status() == 200);
    CHECK(upstream.last().field("traceparent") == "x");
    CHECK_SOON(spans_exported(tidegate) == 4);
}

TEST_CASE("tracing: the try of a server in HTTP/2 has the status that the server answered") {
    H2Upstream upstream([](const H2Call&) { return H2Reply{.status = 404}; });
    const Collector collector;
    const Tidegate tidegate("threads: 1\n" + unlimited({upstream.url()}) + collector.tracing());
    CHECK(tidegate.get("/").status() == 404);
    CHECK_SOON(collector.spans("forward").size() == 1);
    CHECK(attribute(collector.spans("forward").at(0), "http.response.status_code") == "404");
}

}  // namespace tidegate::test::trace_export_test
