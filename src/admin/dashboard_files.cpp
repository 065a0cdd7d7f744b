#include "admin/dashboard_files.hpp"

#include <algorithm>
#include <array>

namespace tidegate::admin {

const PageFile* page_file(std::string_view path) {
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

}  // namespace tidegate::admin
