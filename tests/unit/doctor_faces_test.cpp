// Listeners for gateways and programs: which peers reach them, and what the answers show.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "doctor/examinations.hpp"

namespace tidegate::doctor::faces_test {
namespace {

config::Loaded loaded(const std::string& listen, const std::string& more = "limits: [10/s]\n") {
    config::Loaded read = config::load_text("listen: [{" + listen + "}]\n" + more, "test.yaml");
    for (const auto& error : read.errors) FAIL(error.to_string());
    return read;
}

// The finding of a check; there must be one only.
Finding of_check(const std::vector<Finding>& list, const std::string& check) {
    const auto is_it = [&](const Finding& one) { return one.check == check; };
    REQUIRE(std::count_if(list.begin(), list.end(), is_it) == 1);
    return *std::find_if(list.begin(), list.end(), is_it);
}

std::vector<Finding> examined(const std::string& listen,
                              const std::string& more = "limits: [10/s]\n") {
    return examine_faces(*loaded(listen, more).config).list();
}

Severity reach(const std::string& listen) {
    return of_check(examined(listen), "face.reach").severity;
}

constexpr const char* kUsers =
    "limits: [10/s]\nidentity: {client_ip: {trusted_proxies: [10.1.0.0/16]}, user: [{header: "
    "{name: "
    "x-user, from: trusted_proxies}}]}\n";

std::string metrics(int admitted, int limited, int without) {
    return "# TYPE tidegate_requests_total counter\n"
           "tidegate_requests_total{code=\"200\",face=\"forward_auth\",outcome=\"answered\"} " +
           std::to_string(admitted) +
           "\ntidegate_requests_total{code=\"403\",face=\"forward_auth\",outcome=\"limited\"} " +
           std::to_string(limited) +
           "\ntidegate_requests_total{code=\"200\",face=\"proxy\",outcome=\"forwarded\"} 7000\n"
           "tidegate_questions_without_address_total " +
           std::to_string(without) + "\n";
}

Finding judged(int admitted, int limited, int without,
               const std::string& more = "limits: [10/s]\n") {
    const auto counts = read_question_counts(metrics(admitted, limited, without));
    REQUIRE(counts);
    Findings findings("questions");
    check_question_counts(
        *counts,
        *loaded("address: \"127.0.0.1:1\", face: forward_auth, dialect: nginx", more).config,
        findings);
    REQUIRE(findings.list().size() == 1);
    return findings.list().front();
}

}  // namespace

TEST_CASE("faces: a listener that strangers reach is warned about") {
    const auto forward_auth = [](const std::string& address, const std::string& from) {
        return reach("address: \"" + address + "\", face: forward_auth, dialect: nginx" + from);
    };
    CHECK(forward_auth("127.0.0.1:1", "") == Severity::ok);
    CHECK(forward_auth("127.0.0.1:1", ", from: [0.0.0.0/0]") == Severity::ok);
    CHECK(forward_auth("unix:/run/x", "") == Severity::ok);
    CHECK(forward_auth("0.0.0.0:1", ", from: [10.0.0.0/8, 172.16.0.0/12]") == Severity::ok);
    CHECK(forward_auth("0.0.0.0:1", ", from: [10.0.0.0/8, 0.0.0.0/0]") == Severity::warning);
    CHECK(forward_auth("[::]:1", ", from: [\"::/0\"]") == Severity::warning);
    CHECK(forward_auth("10.0.0.1:1", ", from: [8.0.0.0/5]") == Severity::warning);
    CHECK(forward_auth("0.0.0.0:1", ", from: [203.0.0.0/16]") == Severity::warning);
    CHECK(forward_auth("0.0.0.0:1", ", from: [203.0.113.7]") == Severity::note);
    CHECK(forward_auth("[::]:1", ", from: [\"fd00::/8\"]") == Severity::ok);
}

TEST_CASE("faces: a check listener beyond this machine wants a token") {
    const auto check = [](const std::string& more) {
        return reach("address: \"0.0.0.0:1\", face: check" + more);
    };
    CHECK(check(", token: a-token") == Severity::ok);
    CHECK(check(", token: a-token, from: [0.0.0.0/0]") == Severity::ok);
    CHECK(check(", from: [0.0.0.0/0]") == Severity::warning);
    CHECK(check(", from: [10.0.0.0/8]") == Severity::note);
    CHECK(reach("address: \"127.0.0.1:1\", face: check") == Severity::ok);
    CHECK(examined("address: \"127.0.0.1:1\"", "upstream: http://127.0.0.1:2\n").empty());
}

TEST_CASE("faces: an address that no gateway writes is what a client wrote") {
    const auto severity = [](const std::string& dialect, const std::string& header) {
        const auto list = examined(
            "address: \"127.0.0.1:1\", face: forward_auth, dialect: " + dialect,
            "limits: [10/s]\nidentity: {client_ip: {trusted_proxies: [10.0.0.1], header: " +
                header + "}}\n");
        const auto found = std::find_if(list.begin(), list.end(), [](const Finding& one) {
            return one.check == "face.address";
        });
        return found == list.end() ? Severity::ok : found->severity;
    };
    for (const std::string dialect : {"nginx", "ingress-nginx", "forwarded", "envoy"}) {
        CHECK(severity(dialect, "x-forwarded-for") == Severity::ok);
    }
    CHECK(severity("nginx", "forwarded") == Severity::ok);
    CHECK(severity("forwarded", "forwarded") == Severity::warning);
    CHECK(severity("envoy", "forwarded") == Severity::warning);
    CHECK(severity("ingress-nginx", "forwarded") == Severity::warning);
    CHECK(severity("ingress-nginx", "cf-connecting-ip") == Severity::note);
    CHECK(severity("ingress-nginx", "x-real-ip") == Severity::ok);
    CHECK(severity("forwarded", "cf-connecting-ip") == Severity::note);
    CHECK(severity("envoy", "x-real-ip") == Severity::note);
    CHECK(severity("envoy", "x-envoy-external-address") == Severity::ok);
}

TEST_CASE("faces: a method that believes trusted proxies wants the gateway among them") {
    const auto has_warning = [](const std::string& listen) {
        const auto list = examined("face: forward_auth, dialect: nginx, " + listen, kUsers);
        return std::any_of(list.begin(), list.end(), [](const Finding& one) {
            return one.check == "face.trust" && one.severity == Severity::warning;
        });
    };
    CHECK(has_warning("address: \"127.0.0.1:1\""));
    CHECK(has_warning("address: \"0.0.0.0:1\", from: [10.2.0.0/16]"));
    CHECK_FALSE(has_warning("address: \"0.0.0.0:1\", from: [10.0.0.0/8]"));
    CHECK_FALSE(has_warning("address: \"0.0.0.0:1\", from: [10.2.0.0/16, 10.1.2.3]"));
    CHECK(has_warning("address: \"unix:/run/x\""));
    CHECK_FALSE(has_warning("address: \"unix:/run/x\", trusted: on"));
}

TEST_CASE("faces: too many questions without an address are a warning, and only such are a fault") {
    CHECK(judged(0, 0, 0).severity == Severity::note);
    CHECK(judged(900, 100, 0).severity == Severity::ok);
    CHECK(judged(3, 0, 3).severity == Severity::note);
    CHECK(judged(900, 100, 100).severity == Severity::warning);
    CHECK(judged(900, 100, 1'000).severity == Severity::fault);
    CHECK(judged(900, 100, 1'000).what.starts_with("1000 of 1000 questions"));
    // A policy that counts only users needs no address.
    CHECK(judged(900, 100, 1'000,
                 "policies: {all: {key: [\"header:x-a\"], limits: [1/s]}}\n"
                 "routes: [{name: all, policies: [all]}]\n")
              .severity == Severity::note);
}

TEST_CASE("faces: text that is not Tidegate's metrics gives no count") {
    CHECK_FALSE(read_question_counts(""));
    CHECK_FALSE(read_question_counts("<html>nginx</html>\n"));
    CHECK_FALSE(read_question_counts("tidegate_questions_without_address_total x\n"));
    CHECK(read_question_counts("tidegate_questions_without_address_total 1e3")->without_address ==
          1'000);
}

TEST_CASE("faces: doctor names the fields that did not state an original request") {
    const auto unusable = [](int asked, const std::string& counts, const std::string& dialect) {
        const auto read = read_question_counts(metrics(asked, 0, 0) + counts);
        REQUIRE(read);
        Findings findings("questions");
        check_original_requests(
            *read,
            *loaded("address: \"127.0.0.1:1\", face: forward_auth, dialect: " + dialect).config,
            findings);
        REQUIRE(findings.list().size() == 1);
        return findings.list().front();
    };
    const auto lacks = [](const std::string& part, int count) {
        return "tidegate_questions_unusable_total{part=\"" + part + "\"} " + std::to_string(count) +
               "\n";
    };
    CHECK(unusable(10, lacks("target", 0), "nginx").severity == Severity::ok);
    CHECK(unusable(1'000, lacks("target", 9), "nginx").severity == Severity::note);
    CHECK(unusable(1'000, lacks("target", 10), "nginx").severity == Severity::warning);
    const Finding all = unusable(12, lacks("method", 2) + lacks("target", 10), "ingress-nginx");
    CHECK(all.severity == Severity::fault);
    CHECK(all.what.starts_with("12 of 12 questions"));
    CHECK(all.what.ends_with("X-Original-Method (2), X-Original-URL (10)"));
    CHECK(all.advice.find("`dialect`") != std::string::npos);
    CHECK(unusable(9, lacks("target", 1), "nginx").what.ends_with("X-Original-URI (1)"));
    CHECK(unusable(9, lacks("host", 1), "forwarded").what.ends_with("X-Forwarded-Host (1)"));
    CHECK(unusable(9, lacks("host", 1), "ingress-nginx")
              .what.ends_with("the host in X-Original-URL (1)"));
    CHECK(unusable(9, lacks("path_prefix", 1), "envoy").what.ends_with("`path_prefix` (1)"));
    CHECK(unusable(9, lacks("length", 1), "nginx").what.ends_with("uri_bytes` (1)"));
}

}  // namespace tidegate::doctor::faces_test
