#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/timestamp.hpp"
#include "base/units.hpp"
#include "simulate/report.hpp"
#include "simulate/tally.hpp"

namespace tidegate::simulate {

namespace {

constexpr int kWidth = 960;
constexpr int kLeft = 70;
constexpr int kRight = 20;
constexpr int kPlotWidth = kWidth - kLeft - kRight;
constexpr int kPlotHeight = 180;
constexpr int kGap = 70;
constexpr std::size_t kLimitsDrawn = 12;

std::string xml_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '&':
                out += "&amp;";
                break;
            case '"':
                out += "&quot;";
                break;
            default:
                out += c;
        }
    }
    return out;
}

std::string second_text(Micros at) {
    return format_timestamp(std::chrono::duration_cast<std::chrono::seconds>(at));
}

// A plot with its frame; y grows upwards from `bottom`.
class Plot {
  public:
    Plot(std::string& out, int top, std::string_view title, double most, double shown)
        : out_(out), bottom_(top + kPlotHeight), most_(std::max(most, 1.0)) {
        out_ += fmt::format("<text x=\"{}\" y=\"{}\" class=\"title\">{}</text>\n", kLeft, top - 12,
                            xml_text(title));
        out_ +=
            fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"frame\"/>\n",
                        kLeft, top, kPlotWidth, kPlotHeight);
        y_text(most_, shown);
        y_text(0, 0);
    }

    double y(double value) const { return bottom_ - value / most_ * kPlotHeight; }

    // `shown`: what the height `value` stands for.
    void y_text(double value, double shown) {
        out_ += fmt::format("<text x=\"{}\" y=\"{:.1f}\" class=\"y\">{:.0f}</text>\n", kLeft - 6,
                            y(value) + 4, shown);
    }
    void x_text(double share, std::string_view text) {
        const char* const anchor = share < 0.1 ? "start" : share > 0.9 ? "end" : "middle";
        out_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                            kLeft + share * kPlotWidth, bottom_ + 18, anchor, xml_text(text));
    }
    void bar(double from, double to, double low, double high, std::string_view kind) {
        if (high <= low) return;
        out_ += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" class=\"{}\"/>\n",
            kLeft + from * kPlotWidth, y(high), (to - from) * kPlotWidth, y(low) - y(high), kind);
    }
    void line(double value, std::string_view text) {
        out_ +=
            fmt::format("<line x1=\"{}\" y1=\"{:.2f}\" x2=\"{}\" y2=\"{:.2f}\" class=\"limit\"/>\n",
                        kLeft, y(value), kLeft + kPlotWidth, y(value));
        out_ += fmt::format("<text x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\">{}</text>\n",
                            kLeft + kPlotWidth - 4, y(value) - 4, xml_text(text));
    }

  private:
    std::string& out_;
    int bottom_;
    double most_;
};

void draw_timeline(const Timeline& timeline, int top, std::string& out) {
    const auto& buckets = timeline.buckets();
    std::uint64_t most = 0;
    for (const Timeline::Bucket& one : buckets) most = std::max(most, one.requests);
    Plot plot(
        out, top,
        "Requests in each " + format_duration(timeline.width()) + ": admitted, and limited (red)",
        static_cast<double>(most), static_cast<double>(most));
    const auto count = static_cast<double>(std::max<std::size_t>(buckets.size(), 1));
    for (std::size_t i = 0; i < buckets.size(); ++i) {
        const double from = static_cast<double>(i) / count;
        const double to = static_cast<double>(i + 1) / count;
        const auto admitted = static_cast<double>(buckets[i].requests - buckets[i].limited);
        plot.bar(from, to, 0, admitted, "admitted");
        plot.bar(from, to, admitted, static_cast<double>(buckets[i].requests), "limited");
    }
    plot.x_text(0, second_text(timeline.begin()));
    const auto all = static_cast<std::int64_t>(buckets.size());
    plot.x_text(1, second_text(timeline.begin() + timeline.width() * all));
}

// The peaks of all clients in ascending order, on a logarithmic scale, with the limit as a line.
void draw_peaks(const LimitTally& tally, const std::string& name, std::vector<std::int64_t> peaks,
                int top, std::string& out) {
    constexpr std::size_t kBars = 240;
    std::sort(peaks.begin(), peaks.end());
    const std::int64_t size = Tally::size_of(*tally.limit);
    const auto height = [](std::int64_t value) {
        return std::log10(1.0 + static_cast<double>(value));
    };
    const std::int64_t most = std::max(peaks.empty() ? 1 : peaks.back(), size);
    Plot plot(out, top,
              fmt::format("{}: the most that each of {} clients asked for at once (logarithmic)",
                          name, peaks.size()),
              height(most), static_cast<double>(most));
    const std::size_t bars = std::min(kBars, peaks.size());
    for (std::size_t i = 0; i < bars; ++i) {
        const std::int64_t peak = peaks[(i + 1) * peaks.size() / bars - 1];
        const auto count = static_cast<double>(bars);
        plot.bar(static_cast<double>(i) / count, static_cast<double>(i + 1) / count, 0,
                 height(peak), peak > size ? "limited" : "admitted");
    }
    plot.line(height(size), fmt::format("limit {}", size));
    plot.x_text(0, "0%");
    plot.x_text(0.5, "50% of clients");
    plot.x_text(1, "100%");
}

constexpr std::string_view kStyle =
    "<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.y{text-anchor:end}"
    ".frame{fill:none;stroke:#999}.admitted{fill:#4477aa}.limited{fill:#cc3344}"
    ".limit{stroke:#228833;stroke-dasharray:6 4}</style>\n";

}  // namespace

std::string picture(const Simulation& simulation) {
    std::string body;
    int top = 40;
    draw_timeline(simulation.tally().timeline(), top, body);
    std::size_t drawn = 0;
    const auto& lists = simulation.tally().lists();
    for (std::size_t list = 0; list < lists.size(); ++list) {
        if (lists[list].clients.empty()) continue;
        for (std::size_t i = 0; i < lists[list].limits.size(); ++i) {
            const LimitTally& tally = lists[list].limits[i];
            if (!tally.has_peaks || drawn == kLimitsDrawn) continue;
            ++drawn;
            top += kPlotHeight + kGap;
            std::vector<std::int64_t> peaks;
            for (const ClientView& one : simulation.tally().views(list, i)) {
                peaks.push_back(one.peak);
            }
            const auto& policy = *simulation.config().limit_lists[list].policy;
            draw_peaks(tally, full_name(policy, *tally.limit), std::move(peaks), top, body);
        }
    }
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
               "viewBox=\"0 0 {0} {1}\">\n",
               kWidth, top + kPlotHeight + 40) +
           std::string(kStyle) + "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" + body +
           "</svg>\n";
}

}  // namespace tidegate::simulate
