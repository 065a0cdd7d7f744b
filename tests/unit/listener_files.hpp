// A folder with the files that a listener's `tls` names, and its configuration.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "config/config.hpp"
#include "made_certificates.hpp"

namespace tidegate::test {

class ListenerFiles {
  public:
    ListenerFiles() {
        std::string name = (std::filesystem::temp_directory_path() / "tidegate-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        folder_ = name;
    }
    ~ListenerFiles() { std::filesystem::remove_all(folder_); }
    ListenerFiles(const ListenerFiles&) = delete;
    ListenerFiles& operator=(const ListenerFiles&) = delete;

    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    void write(const std::string& name, const std::string& text) const {
        std::filesystem::remove(folder_ / name);
        std::ofstream(folder_ / name, std::ios::binary) << text;
        std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_read);
    }
    // `NAME.pem`, with `chain` behind it, and `NAME.key`.
    void write_pair(const std::string& name, const Certificate& own,
                    const std::string& chain = "") const {
        write(name + ".pem", own.pem() + chain);
        write(name + ".key", own.key_pem());
    }
    Certificate add(const std::string& name, const Wanted& wanted = {},
                    const std::string& chain = "") const {
        Certificate made = make_site_certificate(wanted);
        write_pair(name, made, chain);
        return made;
    }

    config::Loaded load_listen(const std::string& listen, const std::string& more = "",
                               config::Occasion occasion = config::Occasion::start) const {
        write("t.yaml", "upstream: http://127.0.0.1:3000\nlisten: " + listen + "\n" + more);
        return config::load_file(path("t.yaml"), config::process_environment, occasion);
    }
    // Of one listener with these settings.
    config::Loaded load(const std::string& tls, const std::string& more = "",
                        config::Occasion occasion = config::Occasion::start) const {
        return load_listen("\n  address: 127.0.0.1:8443\n  tls: {" + tls + "}", more, occasion);
    }

  private:
    std::filesystem::path folder_;
};

inline config::Listen listener_of(const config::Loaded& loaded) {
    for (const auto& error : loaded.errors) FAIL_CHECK(error.to_string());
    REQUIRE(loaded.config != nullptr);
    return loaded.config->listen.at(0);
}

// The only one of `found`, as `line:column: message`; else how many there are.
inline std::string only(const std::vector<config::Diagnostic>& found) {
    if (found.size() != 1) {
        std::string all = std::to_string(found.size());
        for (const auto& one : found) all += "\n" + one.to_string();
        return all;
    }
    return std::to_string(found[0].line) + ":" + std::to_string(found[0].column) + ": " +
           found[0].message;
}

inline bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace tidegate::test
