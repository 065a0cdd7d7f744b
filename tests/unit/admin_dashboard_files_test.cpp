#include <cstddef>
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include "admin/answer.hpp"
#include "admin/server.hpp"

namespace tidegate::admin::dashboard_files_test {

namespace {

AdminAnswer answer_to_page(std::string_view method, std::string_view target) {
    AdminRequest request;
    request.method = method;
    request.target = target;
    AdminSources sources;
    sources.token = [] { return std::string_view("secret"); };
    return answer_to(request, sources);
}

}  // namespace

TEST_CASE("page: everyone gets the page, its scripts and its style sheet, which hold no data") {
    CHECK(answer_to_page("GET", "/").content_type == "text/html; charset=utf-8");
    CHECK(answer_to_page("GET", "/dashboard.js?v=1").content_type ==
          "text/javascript; charset=utf-8");
    CHECK(answer_to_page("HEAD", "/dashboard.css").content_type == "text/css; charset=utf-8");
    for (const std::string_view target : {"/", "/dashboard.js", "/charts.js", "/dashboard.css"}) {
        const AdminAnswer answer = answer_to_page("GET", target);
        CHECK(answer.status == 200);
        CHECK(answer.page);
        CHECK_FALSE(answer.body.empty());
    }
    CHECK(answer_to_page("POST", "/").status == 405);
    CHECK(answer_to_page("GET", "/index.html").status == 401);
    CHECK_FALSE(answer_to_page("GET", "/healthz").page);
}

TEST_CASE("page: what the listener serves is at most 64 KiB") {
    const std::size_t bytes = page::index_html.size() + page::dashboard_js.size() +
                              page::charts_js.size() + page::dashboard_css.size();
    CHECK(bytes <= std::size_t{64} * 1024);
}

TEST_CASE("page: no other host, no markup from text, no style or script in the markup") {
    for (const std::string_view needle : {"://", "style=", "onclick", "onload", "<style"}) {
        CHECK_MESSAGE(page::index_html.find(needle) == std::string_view::npos, needle);
    }
    for (const std::string_view needle :
         {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage",
          "sessionStorage", "cookie"}) {
        for (const std::string_view script : {page::dashboard_js, page::charts_js}) {
            CHECK_MESSAGE(script.find(needle) == std::string_view::npos, needle);
        }
    }
    CHECK(page::dashboard_css.find("@import") == std::string_view::npos);
}

}  // namespace tidegate::admin::dashboard_files_test
