// Authorization, Basic and Bearer: what is read must be the only thing those bytes can mean. Held
// against OpenSSL's base64, which is lenient: whatever we take, it takes and writes back the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <openssl/evp.h>

#include "fuzz_check.hpp"
#include "identity/basic.hpp"
#include "identity/credentials.hpp"

namespace {

using namespace tidegate::identity;
using State = Credential::State;
using tidegate::http::Fields;

std::string decoded_by_openssl(const std::string& text) {
    std::string out(text.size() + 3, '\0');
    const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(text.data()),
                                     static_cast<int>(text.size()));
    FUZZ_CHECK(size >= 0);
    const auto padding = std::count(text.begin(), text.end(), '=');
    out.resize(static_cast<std::size_t>(size - padding));
    return out;
}

std::string encoded_by_openssl(const std::string& bytes) {
    std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(size));
    return out;
}

bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
}

// What RFC 7617 says of a login, said again.
bool is_login(const std::string& both) {
    const auto colon = both.find(':');
    return colon != both.npos && is_safe_user(both.substr(0, colon)) &&
           both.size() - colon - 1 <= kPasswordBytesMax && !has_control(both.substr(colon + 1));
}

void check_login(const std::string& text) {
    BasicLogin login;
    if (login.read(text) != CredentialFault::none) return;
    const std::string both = std::string(login.user()) + ":" + std::string(login.password());
    FUZZ_CHECK(both == decoded_by_openssl(text));
    FUZZ_CHECK(encoded_by_openssl(both) == text);  // the one way to write it
    FUZZ_CHECK(is_login(both) && login.user().find(':') == std::string_view::npos);
}

// The other way round: any bytes, well encoded, are read exactly if they are a login.
void check_bytes(const std::string& bytes) {
    BasicLogin login;
    const bool read = login.read(encoded_by_openssl(bytes)) == CredentialFault::none;
    FUZZ_CHECK(read == is_login(bytes));
}

void check_field(const std::string& value) {
    const Fields one = {{.name = "Authorization", .value = value}};
    const Credential basic = find_basic(one);
    const Credential bearer = find_secret(one, "authorization");
    FUZZ_CHECK(basic.state == State::absent || bearer.state == State::absent);
    for (const Credential& found : {basic, bearer}) {
        FUZZ_CHECK(found.state != State::twice);
        if (found.state != State::present) continue;
        FUZZ_CHECK(!found.text.empty() && value.ends_with(found.text));
        FUZZ_CHECK(found.text.find_first_of(" \t,;\"") == std::string_view::npos);
        check_login(std::string(found.text));
    }
    const Fields two = {{.name = "authorization", .value = value},
                        {.name = "Authorization", .value = value}};
    FUZZ_CHECK(find_basic(two).state == State::twice);
    FUZZ_CHECK(find_secret(two, "authorization").state == State::twice);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    check_field(text);
    check_field("Basic " + text);
    check_login(text);
    check_bytes(text);
    return 0;
}
