// An authority that the process trusts.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "certificates.hpp"

namespace tidegate::test {

// While it lives, OpenSSL takes this authority for the only one of the system. Make it before any
// thread.
class TrustedAuthority {
  public:
    TrustedAuthority() {
        std::string name = (std::filesystem::temp_directory_path() / "ca-XXXXXX").string();
        const int file = ::mkstemp(name.data());
        REQUIRE(file >= 0);
        ::close(file);
        file_ = name;
        std::ofstream(file_) << authority.pem();
        ::setenv("SSL_CERT_FILE", file_.c_str(), 1);
        ::setenv("SSL_CERT_DIR", "/nonexistent", 1);
    }
    ~TrustedAuthority() {
        ::unsetenv("SSL_CERT_FILE");
        ::unsetenv("SSL_CERT_DIR");
        std::filesystem::remove(file_);
    }
    TrustedAuthority(const TrustedAuthority&) = delete;
    TrustedAuthority& operator=(const TrustedAuthority&) = delete;

    Authority authority;

  private:
    std::string file_;
};

}  // namespace tidegate::test
