// The program contains the dashboard, the files of dashboard/. They hold no data, so everyone who
// reaches the admin listener may have them; the page gets what it shows from /api/.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tidegate::admin {

namespace page {
extern const std::string_view index_html;
extern const std::string_view dashboard_js;
extern const std::string_view charts_js;
extern const std::string_view dashboard_css;
}  // namespace page

struct PageFile {
    std::string_view path;  // of the request
    std::string_view content_type;
    std::string_view text;
};

// Returns the file at the path of a request, which is without its query; null: there is none.
inline const PageFile* page_file(std::string_view path) {
    // Not before the first call: the texts are of another translation unit.
    static const std::array<PageFile, 4> files{{
        {"/", "text/html; charset=utf-8", page::index_html},
        {"/dashboard.js", "text/javascript; charset=utf-8", page::dashboard_js},
        {"/charts.js", "text/javascript; charset=utf-8", page::charts_js},
        {"/dashboard.css", "text/css; charset=utf-8", page::dashboard_css},
    }};
    const auto* const found = std::find_if(
        files.begin(), files.end(), [path](const PageFile& file) { return file.path == path; });
    return found == files.end() ? nullptr : found;
}

// The listener sends this Content-Security-Policy with each of them: scripts, styles and
// connections of its own only, no frames, nothing of another host.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'";

}  // namespace tidegate::admin
