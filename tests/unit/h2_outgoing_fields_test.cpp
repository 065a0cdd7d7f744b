#include <doctest/doctest.h>

#include "h2/outgoing_fields.hpp"
#include "h2_world.hpp"

namespace tidegate::h2_outgoing_fields_test {

using namespace h2_world;

namespace {

FieldList list_of(const h2::OutgoingFields& fields) {
    FieldList list;
    for (const nghttp2_nv& nv : fields.list()) {
        list.emplace_back(std::string(reinterpret_cast<const char*>(nv.name), nv.namelen),
                          std::string(reinterpret_cast<const char*>(nv.value), nv.valuelen));
    }
    return list;
}

}  // namespace

TEST_CASE(
    "h2 outgoing fields: lines of HTTP/1 become fields, but those that HTTP/2 does not have") {
    h2::OutgoingFields fields;
    fields.set_head(429,
                    "Retry-After: 3\r\nConnection: close\r\nKeep-Alive: x\r\nX-Empty:\r\n"
                    "Transfer-Encoding: chunked\r\nUpgrade: x\r\nProxy-Connection: x\r\n"
                    "Location: http://a:1/\r\n");
    CHECK(list_of(fields) == FieldList{{":status", "429"},
                                       {"Retry-After", "3"},
                                       {"X-Empty", ""},
                                       {"Location", "http://a:1/"}});
    fields.set_head(100, "");
    CHECK(list_of(fields) == FieldList{{":status", "100"}});
}

TEST_CASE("h2 outgoing fields: trailers that frame or name a hop go no further") {
    h2::OutgoingFields fields;
    http::Fields trailers;
    for (const char* name : {"Content-Length", "Host", "Trailer", "Transfer-Encoding", "Te",
                             "Content_Length", "Grpc-Status"}) {
        trailers.push_back({http::field_name(name), name, "1"});
    }
    fields.set_trailers(trailers);
    CHECK(list_of(fields) == FieldList{{"Grpc-Status", "1"}});
}

}  // namespace tidegate::h2_outgoing_fields_test
