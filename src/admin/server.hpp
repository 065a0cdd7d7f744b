// The admin listener: metrics, health, readiness and the dashboard over HTTP, apart from the
// proxy's own path.
//
// Lives on one event loop and is touched by its thread only; that is none of a worker's, so no
// request waits for an answer made here. Bounded: heads of 8 KiB, no request bodies, and
// AdminBounds.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "admin/answer.hpp"
#include "net/asio.hpp"

namespace tidegate::admin {

struct AdminBounds {
    // When all are taken, a new connection takes the place of the one that has waited longest for
    // its peer: to send a whole request, or to take the answer. The server refuses the new one only
    // when every other request is being worked on.
    std::size_t connections = 64;
    // Requests that may take long (reloads, and what asks the store) and are worked on at once. A
    // further one is answered 503 at once; the other connections stay for what is answered at once.
    std::size_t at_work = 16;
    // For a whole request, and again for taking the whole answer.
    std::chrono::milliseconds patience{10'000};
    // Answers that wait to be taken, in all. Beyond it the server closes the connections that have
    // waited longest; one answer may have any size.
    std::size_t answer_bytes = std::size_t{32} << 20;
};

class AdminServer {
  public:
    // Begins to serve `acceptor`, which is open and listening, once `io` runs. `io` outlives this.
    AdminServer(asio::io_context& io, Acceptor acceptor, AdminSources sources,
                AdminBounds bounds = {});
    // Stops.
    ~AdminServer();
    AdminServer(const AdminServer&) = delete;
    AdminServer& operator=(const AdminServer&) = delete;

    // Closes every connection, and the listener unless another descriptor has it; sources are not
    // asked any more once this returns.
    void stop();

  private:
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

// The program contains the dashboard, the files of dashboard/. They hold no data, so everyone who
// reaches the admin listener may have them; the page gets what it shows from /api/.
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
