// One configuration as one worker serves it: the value itself and what is made of it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include "config/config.hpp"
#include "identity/authenticator.hpp"
#include "proxy/identity_fields.hpp"
#include "proxy/policy_texts.hpp"
#include "proxy/trailer_fields.hpp"
#include "proxy/upstream_pool.hpp"
#include "telemetry/access_log.hpp"
#include "telemetry/metrics.hpp"

namespace tidegate::proxy {

// A request holds the one it began with until it has ended; the worker holds the one that the next
// request will begin with. One thread, so holding it costs no locked instruction. Immutable but for
// the pools.
struct Generation
    : boost::intrusive_ref_counter<Generation, boost::sp_adl_block::thread_unsafe_counter> {
    explicit Generation(std::shared_ptr<const config::Config> of,
                        std::shared_ptr<identity::SharedCredentialCache> remembered = nullptr)
        : config(std::move(of)),
          policy_texts(*config),
          identity_fields(*config),
          trailer_fields(*config),
          authenticator(std::make_unique<identity::Authenticator>(config->user_methods,
                                                                  std::move(remembered))) {}

    std::shared_ptr<const config::Config> config;
    PolicyTexts policy_texts;
    IdentityFields identity_fields;
    TrailerFields trailer_fields;
    // Remembers what it has checked, so not immutable either.
    std::unique_ptr<identity::Authenticator> authenticator;
    telemetry::MetricSlots slots;
    std::shared_ptr<telemetry::AccessLog> access_log;      // null: off
    std::vector<std::shared_ptr<UpstreamPool>> upstreams;  // in the order of the configuration
};

using GenerationPtr = boost::intrusive_ptr<const Generation>;

}  // namespace tidegate::proxy
