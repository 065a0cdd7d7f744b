// The request that a gateway asks about: whatever its fields hold, what is read is one request as
// the proxy itself would have read it, or none.
#include <cstddef>
#include <cstdint>
#include <string>

#include "faces/original_request.hpp"
#include "fuzz_check.hpp"

namespace {

using namespace tidegate;

void check(config::Dialect dialect, const std::string& head, const std::string& prefix) {
    const http::HeadBounds bounds{32'768, 100, 8'192};
    ask::Facts facts;
    if (http::parse_request_head(head, bounds, facts.head) != http::HeadFault::none) return;
    config::Listen listen;
    listen.face = Face::forward_auth;
    listen.dialect = dialect;
    listen.path_prefix = prefix;
    facts.host = "gateway.test";
    if (!faces::read_original(listen, {}, facts).empty()) return;
    if (facts.head.method == "CONNECT") return;  // ask::check_method() refuses it
    // The proxy reads the same of the original request line.
    const std::string line = std::string(facts.head.method) + " " + std::string(facts.head.target) +
                             " HTTP/1.1\r\nHost: " + std::string(facts.host) + "\r\n\r\n";
    http::RequestHead original;
    FUZZ_CHECK(http::parse_request_head(line, bounds, original) == http::HeadFault::none);
    FUZZ_CHECK(original.method == facts.head.method);
    FUZZ_CHECK(original.target == facts.head.target);
    FUZZ_CHECK(original.path == facts.head.path);
    FUZZ_CHECK(original.query == facts.head.query);
    FUZZ_CHECK(http::is_valid_host(facts.host));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const std::string begin = "GET /check/a HTTP/1.1\r\nHost: gateway.test\r\n";
    check(config::Dialect::nginx, begin + text + "\r\n\r\n", "");
    check(config::Dialect::forwarded, begin + text + "\r\n\r\n", "");
    check(config::Dialect::ingress_nginx, begin + text + "\r\n\r\n", "");
    check(config::Dialect::envoy, "GET " + text + " HTTP/1.1\r\nHost: gateway.test\r\n\r\n",
          "/check");
    const auto lines_end = text.find('\n');
    const std::string first = text.substr(0, lines_end);
    const std::string rest = lines_end == text.npos ? "" : text.substr(lines_end + 1);
    check(config::Dialect::nginx,
          begin + "X-Original-Method: GET\r\nX-Original-URI: " + first + "\r\n" + rest + "\r\n\r\n",
          "");
    check(config::Dialect::ingress_nginx,
          begin + "X-Original-Method: GET\r\nX-Original-URL: http://" + first + "\r\n" + rest +
              "\r\n\r\n",
          "");
    check(config::Dialect::forwarded,
          begin + "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: " + first +
              "\r\nX-Forwarded-Host: " + rest + "\r\n\r\n",
          "");
    return 0;
}
