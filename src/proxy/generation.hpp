// One configuration as one worker serves it: the rules that the engine decides by, and what
// forwarding and the log need.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "ask/ruleset.hpp"
#include "proxy/identity_fields.hpp"
#include "proxy/trailer_fields.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/trace_queue.hpp"
#include "upstream/pool.hpp"

namespace tidegate::proxy {

// A request holds the generation it began with until it has ended; the worker holds the one that
// the next request will begin with. One thread, so holding it costs no locked instruction.
// Immutable but for the pools and what the authenticator remembers.
struct Generation
    : ask::Ruleset,
      boost::intrusive_ref_counter<Generation, boost::sp_adl_block::thread_unsafe_counter> {
    explicit Generation(std::shared_ptr<const config::Config> of,
                        std::shared_ptr<identity::SharedCredentialCache> remembered = nullptr)
        : Ruleset(std::move(of), std::move(remembered)),
          identity_fields(*config),
          trailer_fields(*config) {}

    IdentityFields identity_fields;
    TrailerFields trailer_fields;
    std::shared_ptr<telemetry::AccessLog> access_log;        // null: off
    std::vector<std::shared_ptr<upstream::Pool>> upstreams;  // in the order of the configuration
    std::shared_ptr<telemetry::TraceQueue> traces;           // null: requests are not traced
};

using GenerationPtr = boost::intrusive_ptr<const Generation>;

}  // namespace tidegate::proxy
