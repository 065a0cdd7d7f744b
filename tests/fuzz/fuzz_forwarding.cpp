// X-Forwarded-For and Forwarded: whatever a client writes in front, the client is whom the trusted
// proxies saw; and what is passed on is whole lines.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fuzz_check.hpp"
#include "http/forwarding_fields.hpp"
#include "identity/client_ip.hpp"

namespace {

using tidegate::http::FieldName;
using tidegate::http::Fields;
using tidegate::identity::ClientIpSettings;
using tidegate::identity::Peer;

const ClientIpSettings& settings(ClientIpSettings::Source source) {
    static ClientIpSettings all[2];
    ClientIpSettings& chosen = all[source == ClientIpSettings::Source::forwarded ? 1 : 0];
    chosen.trusted_proxies = {*tidegate::parse_network("10.0.0.0/8")};
    chosen.source = source;
    return chosen;
}

void check_chain(const std::string& made_by_client, FieldName id, std::string_view appended,
                 ClientIpSettings::Source source) {
    const auto peer_ip = tidegate::parse_ip("10.0.0.1");
    const auto client = tidegate::parse_ip("203.0.113.7");
    const std::string joined = made_by_client + ", " + std::string(appended);
    const Fields one = {{id, "", joined}};
    const Fields two = {{id, "", made_by_client}, {id, "", appended}};
    const Peer peer{peer_ip, true};
    FUZZ_CHECK(client_address(peer, one, settings(source)) == client);
    FUZZ_CHECK(client_address(peer, two, settings(source)) == client);

    // Alone it may name anybody, but somebody.
    const Fields alone = {{id, "", made_by_client}};
    const auto named = client_address(peer, alone, settings(source));
    FUZZ_CHECK(named && !named->is_unspecified());
    FUZZ_CHECK(client_address({peer_ip, false}, alone, settings(source)) == peer_ip);
}

// The head parser lets no control through, and neither do we.
std::string printable(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ') c = '\t';
    return text;
}

void check_lines(const std::string& value) {
    const Fields fields = {{FieldName::x_forwarded_for, "X-Forwarded-For", value},
                           {FieldName::forwarded, "Forwarded", value},
                           {FieldName::via, "Via", value}};
    for (const bool trusted : {false, true}) {
        tidegate::http::ForwardingInput input{.fields = fields};
        input.peer_trusted = trusted;
        input.peer = tidegate::parse_ip("10.0.0.1");
        input.host = value;
        input.settings.forwarded = true;
        std::string out;
        append_forwarding_fields(input, out);
        FUZZ_CHECK(out.ends_with("\r\n") && out.find("\r\n\r\n") == out.npos);
        for (std::size_t at = out.find('\n'); at != out.npos; at = out.find('\n', at + 1))
            FUZZ_CHECK(at > 0 && out[at - 1] == '\r');
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    check_chain(text, FieldName::x_forwarded_for, "203.0.113.7, 10.0.0.2",
                ClientIpSettings::Source::x_forwarded_for);
    check_chain(text, FieldName::forwarded, "for=203.0.113.7;host=\"a\\\",\", for=10.0.0.2",
                ClientIpSettings::Source::forwarded);
    check_lines(printable(text));
    return 0;
}
