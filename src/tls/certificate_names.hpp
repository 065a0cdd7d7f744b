// The names of servers' certificates, and which of them is meant by the name that a client asks
// for (RFC 9525). Pure.
//
// A normal name is one that can be compared byte by byte: lower case, without the root's dot, each
// address in its one spelling.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <openssl/types.h>

namespace tidegate {

// Of a name that a certificate or the configuration states: `example.com`, `192.0.2.1`, or
// `*.example.com` for all names with one label more. Nothing: no client can ask for such a name. A
// name of other alphabets is written in ASCII (`xn--...`); in Unicode, it is none.
std::optional<std::string> normal_certificate_name(std::string_view name);

// Of a name that a client asks for: it is no wildcard. Clients ought not to ask for addresses, but
// some do.
std::optional<std::string> normal_asked_name(std::string_view name);

// The names that `certificate` states as subject alternative names, normal, each once, in its
// order. Its subject means nothing.
std::vector<std::string> names_of(const X509& certificate);

// Whether a client that asks for `name`, a DNS name or an IP address, takes `certificate` for it:
// OpenSSL's answer, which knows nothing of this file.
bool is_for(const X509& certificate, const std::string& name);

// Numbers normal names from 0 on, and finds them again in the same time however many there are.
class CertificateNames {
  public:
    // The number of `name`, which must be normal; it is the next one if `name` is new.
    std::size_t add(const std::string& name);
    // The number of the name that `asked`, which must be normal, means: itself, or else the
    // wildcard for its first label. An address is itself only.
    std::optional<std::size_t> find(const std::string& asked) const;
    std::size_t size() const { return numbers_.size(); }

  private:
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };

    // Wildcards without their asterisk: no name begins with a dot.
    std::unordered_map<std::string, std::size_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace tidegate
