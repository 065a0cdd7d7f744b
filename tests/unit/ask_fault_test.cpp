#include <set>
#include <string_view>

#include <doctest/doctest.h>

#include "ask/fault.hpp"

namespace tidegate::ask::fault_test {

TEST_CASE("fault: each error has a name of its own") {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < kFaults; ++i) {
        const auto fault = static_cast<Fault>(i);
        const std::string_view name = traits(fault).name;
        CAPTURE(name);
        if (fault == Fault::none || fault == Fault::limited) {
            CHECK(name.empty());
        } else {
            CHECK_FALSE(name.empty());
            CHECK(names.insert(name).second);
        }
    }
}

TEST_CASE("fault: an answer says why, and a fault without an answer closes the connection") {
    for (std::size_t i = 1; i < kFaults; ++i) {
        const FaultTraits& fault = traits(static_cast<Fault>(i));
        CAPTURE(fault.name);
        CHECK(fault.detail.empty() == (fault.status == 0));
        if (fault.status == 0) CHECK(fault.close);
    }
}

TEST_CASE("fault: each bound and each time that runs out has its status") {
    CHECK(traits(Fault::head_timeout).status == 408);
    CHECK(traits(Fault::body_timeout).status == 408);
    CHECK(traits(Fault::body_made_room).status == 408);
    CHECK(traits(Fault::body_too_large).status == 413);
    CHECK(traits(Fault::uri_too_long).status == 414);
    CHECK(traits(Fault::head_too_large).status == 431);
    CHECK(traits(Fault::too_many_fields).status == 431);
    CHECK(traits(Fault::bad_upgrade).status == 400);
    CHECK(traits(Fault::upgrade_version).status == 426);
    CHECK(traits(Fault::upstream_unreachable).status == 502);
    CHECK(traits(Fault::upstream_tls).status == 502);
    CHECK(traits(Fault::upstream_no_http2).status == 502);
    CHECK(traits(Fault::upstream_refused).status == 503);
    CHECK(traits(Fault::upgrade_ignored).status == 502);
    CHECK(traits(Fault::upstream_exhausted).status == 503);
    CHECK(traits(Fault::connect_timeout).status == 504);
    CHECK(traits(Fault::upstream_timeout).status == 504);
}

}  // namespace tidegate::ask::fault_test
