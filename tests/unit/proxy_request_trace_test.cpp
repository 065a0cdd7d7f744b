#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "ask/password_pool.hpp"
#include "proxy/request.hpp"
#include "telemetry/trace_export.hpp"
#include "unit/proxy_world.hpp"

namespace tidegate::proxy::request_trace_test {

namespace {

const std::string kUpstream = "upstream: http://127.0.0.1:3000\n";
const std::string kTracing = "tracing: {otlp: \"http://127.0.0.1:4318/v1/traces\"}\n";

// A worker whose requests are traced if the configuration says so.
struct Traced : World {
    explicit Traced(const std::string& more = "") {
        const boost::intrusive_ptr<Generation> made(new Generation(ask::load(kUpstream + more)));
        made->slots = generation->slots;
        if (made->config->tracing) {
            made->traces =
                std::make_shared<telemetry::TraceQueue>(telemetry::TraceQueue::Options{}, 1);
        }
        worker.generation = generation = made;
    }

    ask::PasswordPool passwords{ask::PasswordPool::Options{}};
    WorkerContext worker{io.get_executor(),
                         generation,
                         0,
                         metrics,
                         {io.get_executor(), limiter, passwords, ask_metrics},
                         RequestIds(),
                         {},
                         {io.get_executor(), wheel, buffers},
                         {}};
};

}  // namespace

TEST_CASE("request_trace: a request that is not traced has neither a trace nor room for one") {
    Traced world;
    Request request(
        world,
        get("traceparent: 00-" + std::string(32, 'a') + "-" + std::string(16, 'b') + "-01\r\n"),
        true);
    begin(world.worker, request.exchange);
    CHECK(request.exchange.trace == nullptr);
    CHECK(request.exchange.trace_room == nullptr);
}

TEST_CASE("request_trace: a try that came to nothing ends before the proxy's own answer") {
    RequestTrace trace;
    telemetry::TraceIds ids;
    trace.ids = &ids;
    trace.end_try();  // without a try
    trace.begin_try(nullptr, steady_now());
    trace.fail_try(Fault::upstream_refused);
    const auto first_end = trace.tries.back().ended;
    trace.end_try();
    CHECK(trace.tries.back().ended == first_end);
    trace.begin_try(nullptr, steady_now());
    CHECK_FALSE(trace.tries.back().ended);
    trace.end_try();
    CHECK(trace.tries.back().ended);
    CHECK(trace.tries.back().fault == Fault::none);
}

TEST_CASE("request_trace: the next request of an exchange has the room of the one before it") {
    Traced world(kTracing);
    Request request(world, get(""));
    begin(world.worker, request.exchange);
    REQUIRE(request.exchange.trace != nullptr);
    const RequestTrace* const room = request.exchange.trace_room.get();
    request.exchange.reset();
    CHECK(request.exchange.trace == nullptr);
    request.exchange.client = &request.stream;
    begin(world.worker, request.exchange);
    CHECK(request.exchange.trace == room);
}

}  // namespace tidegate::proxy::request_trace_test
