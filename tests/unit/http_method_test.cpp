#include <string>

#include <doctest/doctest.h>

#include "http/method.hpp"

namespace tidegate::http::method_test {

TEST_CASE("method: a field that overrides method or target is known in every spelling") {
    for (const std::string name :
         {"X-HTTP-Method-Override", "x-http-method-override", "X-HTTP-Method", "X-Method-Override",
          "X_HTTP_METHOD_OVERRIDE", "x-http_method-override", "X.HTTP.Method",
          "x_method_override"}) {
        CAPTURE(name);
        CHECK(override_of(name) == Override::method);
    }
    for (const std::string name :
         {"X-Original-URL", "x-original-url", "X-Rewrite-URL", "X_ORIGINAL_URL", "x_rewrite.url"}) {
        CAPTURE(name);
        CHECK(override_of(name) == Override::target);
    }
    for (const std::string name :
         {"", "x", "X-Original-URI", "X-Original-Method", "X-HTTP-Methods", "XHTTP-Method",
          "HTTP-Method-Override", "X-Method", "X-HTTP-Method-Overrides", "Y-Original-URL",
          "Authorization", "X-Forwarded-Method"}) {
        CAPTURE(name);
        CHECK(override_of(name) == Override::none);
    }
}

}  // namespace tidegate::http::method_test
