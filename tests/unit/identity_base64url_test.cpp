#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "identity/base64url.hpp"
#include "token_maker.hpp"

namespace tidegate::identity::base64url_test {
namespace {

TEST_CASE("base64url: the example of RFC 7515 appendix C") {
    CHECK(decode_base64url("A-z_4ME") == "\x03\xec\xff\xe0\xc1");
    CHECK(decode_base64url("") == "");
}

TEST_CASE("base64url: whatever was encoded comes back") {
    std::string bytes;
    for (int i = 0; i < 600; ++i) {
        CHECK(decode_base64url(test::base64url(bytes)) == bytes);
        bytes += static_cast<char>(i * 7);
    }
}

TEST_CASE("base64url: padding, other alphabets and other bytes are refused") {
    for (const std::string_view text :
         {"QQ==", "QUI=", "=", "A", "AAAAA", "A+z/4ME", "QUJD\n", " QUJD", "QU JD", "QUJD\r\n",
          "QUJD.", "QU%4D", "QUJ\x80"}) {
        CAPTURE(text);
        CHECK(!decode_base64url(text));
    }
    CHECK(!decode_base64url(std::string_view("QUI\0", 4)));
}

TEST_CASE("base64url: bits left over must be zero, so that nothing has two spellings") {
    CHECK(decode_base64url("QQ") == "A");
    for (const std::string_view text : {"QR", "Qf", "QUJ", "QUJCQj"}) {
        CAPTURE(text);
        CHECK(!decode_base64url(text));
    }
    CHECK(decode_base64url("QUI") == "AB");
}

}  // namespace
}  // namespace tidegate::identity::base64url_test
