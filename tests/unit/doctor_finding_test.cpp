#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "base/doc.hpp"
#include "doctor/doctor.hpp"

namespace tidegate::doctor::finding_test {

namespace {

const Finding kOk{Severity::ok, "a.b", "redis a:1", "reached"};
const Finding kNote{Severity::note, "a.c", "redis a:1", "seen", "do it"};
const Finding kWarning{Severity::warning, "a.d", "a name that is longer than all may be: aligned",
                       "odd", "mend it"};
const Finding kFault{Severity::fault, "a.e", "listen", "gone", "start it"};

int code(const std::vector<Finding>& findings) {
    return doc_of(findings).exit_code;
}

}  // namespace

TEST_CASE("report: a line a finding, aligned, with what to do under it") {
    const std::vector<Finding> all{kOk, kNote, kWarning, kFault};
    CHECK(doc_of(all).text() ==
          "ok       redis a:1  reached\n"
          "note     redis a:1  seen\n"
          "         -> do it\n"
          "warning  a name that is longer than all may be: aligned  odd\n"
          "         -> mend it\n"
          "fault    listen     gone\n"
          "         -> start it\n"
          "1 fault, 1 warning, 1 note, 1 ok\n");
    CHECK(doc_of({}).text() == "0 faults, 0 warnings, 0 notes, 0 ok\n");
}

TEST_CASE("report: what a server says neither commands the terminal nor makes a line of its own") {
    const std::vector<Finding> all{{Severity::ok, "a.b", "\x1b[2J", "x\nfault  listen", "\u202e"}};
    CHECK(doc_of(all).text() ==
          "ok       \\x1b[2J  x\\x0afault  listen\n"
          "         -> \\xe2\\x80\\xae\n"
          "0 faults, 0 warnings, 0 notes, 1 ok\n");
}

TEST_CASE("report: the worst finding is the exit code") {
    CHECK(code({}) == 0);
    CHECK(code({kOk, kNote}) == 0);
    CHECK(code({kOk, kWarning, kNote}) == 1);
    CHECK(code({kFault, kWarning}) == 3);
}

TEST_CASE("report: the object has all that is in the text, and takes any bytes") {
    Finding odd = kFault;
    odd.what = "\xff\x1b\"";
    const auto object = nlohmann::json::parse(doc_of(std::vector<Finding>{kOk, odd}).json_text());
    CHECK(object.at("faults") == 1);
    CHECK(object.at("warnings") == 0);
    CHECK(object.at("ok") == 1);
    REQUIRE(object.at("findings").size() == 2);
    CHECK_FALSE(object.at("findings")[0].contains("advice"));
    CHECK(object.at("findings")[1].at("severity") == "fault");
    CHECK(object.at("findings")[1].at("check") == "a.e");
    CHECK(object.at("findings")[1].at("advice") == "start it");
}

TEST_CASE(
    "findings: a failure that others make up for is no fault; good findings can be left out") {
    Findings some("it");
    some.ok("a", "well");
    some.note("a", "so", "");
    some.fault("a", "gone", "start it");
    Findings left = std::move(some).at_most(Severity::warning).only_wrong();
    REQUIRE(left.list().size() == 1);
    CHECK(left.list()[0].severity == Severity::warning);
    CHECK(left.list()[0].about == "it");
}

}  // namespace tidegate::doctor::finding_test
