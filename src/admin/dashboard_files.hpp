// The dashboard: the files of dashboard/, built into the program. They hold no data, so everyone
// who reaches the admin listener may have them; what they show comes from /api/.
#pragma once

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

// The file at the path of a request, which is without its query; null: there is none.
const PageFile* page_file(std::string_view path);

// The listener sends this Content-Security-Policy with each of them: scripts, styles and
// connections of its own only, no frames, nothing of another host.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "frame-ancestors 'none'";

}  // namespace tidegate::admin
