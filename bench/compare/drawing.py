"""The figures as SVG, readable on light and dark pages."""

import dataclasses
import html
import math

from figures import growth_points, median

STYLE = """
    .paper { fill: #ffffff; }
    .ink { fill: #1f2328; }
    .quiet { fill: #59636e; }
    .grid { stroke: #d1d9e0; fill: none; }
    .own { fill: #0969da; } .own-light { fill: #80b4ea; }
    .other { fill: #8c959f; } .other-light { fill: #d0d7de; }
    .line { fill: none; stroke-width: 1.8; }
    .s0 { stroke: #0969da; } .s1 { stroke: #bf8700; } .s2 { stroke: #1a7f37; }
    .t0 { fill: #0969da; } .t1 { fill: #9a6700; } .t2 { fill: #1a7f37; }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #0d1117; }
      .ink { fill: #e6edf3; }
      .quiet { fill: #9198a1; }
      .grid { stroke: #3d444d; }
      .own { fill: #4493f8; } .own-light { fill: #1f4a80; }
      .other { fill: #9198a1; } .other-light { fill: #484f58; }
      .s0 { stroke: #4493f8; } .s1 { stroke: #d29922; } .s2 { stroke: #3fb950; }
      .t0 { fill: #4493f8; } .t1 { fill: #d29922; } .t2 { fill: #3fb950; }
    }
  """


def number(value):
    return f"{value:.2f}".rstrip("0").rstrip(".")


def short(value):
    """1000000 as 1M."""
    for size, sign in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return number(value / size) + sign
    return f"{value:.3g}"


def text(x, y, css, words, anchor="start", more=""):
    return (f'  <text class="{css}" x="{number(x)}" y="{number(y)}" text-anchor="{anchor}"{more}>'
            f"{html.escape(words)}</text>")


def page(title, description, width, height, lines):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-labelledby="title description" font-family="system-ui, -apple-system, '
        "'Segoe UI', 'DejaVu Sans', sans-serif\" font-size=\"10.5\">",
        f'  <title id="title">{html.escape(title)}</title>',
        f'  <desc id="description">{html.escape(description)}</desc>',
        f"  <style>{STYLE}</style>",
        f'  <rect class="paper" width="{width}" height="{height}" rx="6"/>',
        *lines, "</svg>", ""])


# ---- rows as bars

NAMES_WIDTH, BAR_WIDTH, ROW_HEIGHT, TOP = 360, 250, 18, 40


def bars(x, scale, y, parts):
    """[(value, css, css of its words)] end to end, with their sum behind."""
    lines, at = [], x
    for value, css in parts:
        lines.append(f'  <rect class="{css}" x="{number(at)}" y="{y}" '
                     f'width="{number(value * scale)}" height="{ROW_HEIGHT - 5}"/>')
        at += value * scale
    total = sum(value for value, _ in parts)
    words = f"{total:,.0f}" if total >= 1000 else f"{total:.1f}"
    return lines + [text(at + 4, y + 10, "quiet", words)]


def comparison(report):
    """CPU a request and requests a second of each row, at full speed."""
    rows = [row for row in report["labels"]
            if median(report, "saturated", row, "proxy_us") is not None]
    figure = {column: [median(report, "saturated", row, column) or 0 for row in rows]
              for column in ("proxy_us", "redis_us", "rps")}
    sums = [proxy + redis for proxy, redis in zip(figure["proxy_us"], figure["redis_us"])]
    # One that takes many times more than all others would make these unreadable.
    longest = sorted(sums)[-2] if len(sums) > 1 else max(sums, default=1)
    cpu_scale = BAR_WIDTH / longest
    speed_scale = BAR_WIDTH / max(figure["rps"], default=1)
    cpu_x, speed_x = NAMES_WIDTH, NAMES_WIDTH + BAR_WIDTH + 60
    lines = [text(cpu_x, 28, "ink", "CPU microseconds a request: proxy, then Redis"),
             text(speed_x, 28, "ink", "requests a second")]
    for i, row in enumerate(rows):
        y, own = TOP + i * ROW_HEIGHT, "own" if row.startswith("tidegate") else "other"
        lines.append(text(NAMES_WIDTH - 8, y + 10, "ink", report["labels"][row], "end"))
        cut = min(1.0, longest / sums[i])
        parts = [(figure["proxy_us"][i] * cut, own), (figure["redis_us"][i] * cut, own + "-light")]
        drawn = bars(cpu_x, cpu_scale, y, parts)
        if cut < 1:
            drawn[-1] = text(cpu_x + BAR_WIDTH + 4, y + 10, "quiet", f"{sums[i]:.0f} (cut)")
        lines += drawn + bars(speed_x, speed_scale, y, [(figure["rps"][i], own)])
    return page("What a request costs", "Bars of CPU time a request and of requests a second.",
                speed_x + BAR_WIDTH + 60, TOP + len(rows) * ROW_HEIGHT + 10, lines)


# ---- growth as lines

@dataclasses.dataclass(frozen=True)
class Panel:
    title: str
    of: str  # what x is
    lines: tuple  # of (words, series, column, factor)
    log_x: bool = True
    log_y: bool = False


PANEL_WIDTH, PANEL_HEIGHT, LEFT, RIGHT, BOTTOM = 400, 230, 46, 26, 46

DRAWINGS = {
    "identifiers": (
        Panel("CPU microseconds a request", "names known", (
            ("proxy, in process", "identifiers-memory", "proxy_us", 1),
            ("proxy, with Redis", "identifiers-redis", "proxy_us", 1),
            ("Redis", "identifiers-redis", "redis_us", 1))),
        Panel("MiB grown", "names known", (
            ("proxy, in process", "identifiers-memory", "grown_kib", 1 / 1024),
            ("Redis", "identifiers-redis", "grown_kib", 1 / 1024)), log_y=True)),
    "idle": (
        Panel("MiB grown", "idle connections", (
            ("Tidegate", "idle-tidegate", "grown_kib", 1 / 1024),
            ("HAProxy", "idle-haproxy", "grown_kib", 1 / 1024),
            ("nginx", "idle-nginx", "grown_kib", 1 / 1024)), log_x=False),),
    "routes": (
        Panel("CPU microseconds a request", "routes, the last of which is asked for", (
            ("proxy", "routes", "proxy_us", 1),)),),
    "limits": (
        Panel("CPU microseconds a request", "limits", (
            ("proxy, in process", "limits-memory", "proxy_us", 1),
            ("proxy, with Redis", "limits-redis", "proxy_us", 1),
            ("Redis", "limits-redis", "redis_us", 1)), log_x=False),),
    "bodies": (
        Panel("CPU microseconds a megabyte, from upstream", "bytes", (
            ("Tidegate", "downloads-tidegate", "us_per_mb", 1),
            ("HAProxy", "downloads-haproxy", "us_per_mb", 1),
            ("HAProxy with splice", "downloads-haproxy-splice", "us_per_mb", 1)), log_y=True),
        Panel("CPU microseconds a megabyte, to upstream", "bytes", (
            ("Tidegate", "uploads-tidegate", "us_per_mb", 1),
            ("HAProxy", "uploads-haproxy", "us_per_mb", 1),
            ("HAProxy with splice", "uploads-haproxy-splice", "us_per_mb", 1)), log_y=True),
        Panel("ms, median, from upstream", "bytes", (
            ("Tidegate", "downloads-tidegate", "p50_us", 1e-3),
            ("HAProxy", "downloads-haproxy", "p50_us", 1e-3),
            ("HAProxy with splice", "downloads-haproxy-splice", "p50_us", 1e-3)), log_y=True),
        Panel("ms, median, to upstream", "bytes", (
            ("Tidegate", "uploads-tidegate", "p50_us", 1e-3),
            ("HAProxy", "uploads-haproxy", "p50_us", 1e-3),
            ("HAProxy with splice", "uploads-haproxy-splice", "p50_us", 1e-3)), log_y=True)),
}


class Axis:
    """Values to pixels, with about five marks."""

    def __init__(self, values, first, last, log):
        self.log = log
        low, high = min(values), max(values)
        if log:
            self.marks = [10.0 ** power for power in
                          range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
            if len(self.marks) == 1:
                self.marks.append(self.marks[0] * 10)
        else:
            step = 10 ** math.floor(math.log10(high or 1))
            step = next(step * part for part in (0.2, 0.5, 1, 2) if high / (step * part) <= 6)
            self.marks = [step * i for i in range(math.ceil(high / step) + 1)]
        self._low = self._of(self.marks[0])
        span = self._of(self.marks[-1]) - self._low
        self._first, self._scale = first, (last - first) / span

    def _of(self, value):
        return math.log10(value) if self.log else value

    def at(self, value):
        return self._first + (self._of(value) - self._low) * self._scale


def panel(report, what, left, top):
    """The lines of one panel at a place; none when nothing of it was measured."""
    drawn = []
    for words, series, column, factor in what.lines:
        points = [(x, y * factor) for x, y in growth_points(report, series, column)
                  if (x > 0 or not what.log_x) and (y > 0 or not what.log_y)]
        drawn.append((words, points))
    every = [point for _, points in drawn for point in points]
    if not every:
        return []
    right, bottom = left + PANEL_WIDTH - RIGHT, top + PANEL_HEIGHT - BOTTOM
    across = Axis([x for x, _ in every], left + LEFT, right, what.log_x)
    up = Axis([y for _, y in every], bottom, top + 36, what.log_y)
    lines = [text(left + 10, top + 18, "ink", what.title, more=' font-weight="600"')]
    for mark in across.marks:
        lines.append(text(across.at(mark), bottom + 14, "quiet", short(mark), "middle"))
    lines.append(text((left + LEFT + right) / 2, bottom + 28, "quiet", what.of, "middle"))
    for mark in up.marks:
        y = number(up.at(mark))
        lines.append(f'  <path class="grid" d="M{left + LEFT} {y}H{right}"/>')
        lines.append(text(left + LEFT - 5, up.at(mark) + 4, "quiet", short(mark), "end"))
    key_x = left + LEFT
    for i, (words, points) in enumerate(drawn):
        if not points:
            continue
        path = "L".join(f"{number(across.at(x))} {number(up.at(y))}" for x, y in points)
        lines.append(f'  <path class="line s{i}" d="M{path}"/>')
        lines += [f'  <circle class="t{i}" r="2.4" cx="{number(across.at(x))}" '
                  f'cy="{number(up.at(y))}"/>' for x, y in points]
        lines.append(text(key_x, bottom + 42, f"t{i}", words))
        key_x += 7 * len(words) + 14
    return lines


def growth(report, name):
    """The drawing, or None when nothing of it was measured."""
    lines, panels = [], DRAWINGS[name]
    for i, what in enumerate(panels):
        lines += panel(report, what, i % 2 * PANEL_WIDTH, i // 2 * PANEL_HEIGHT)
    if not lines:
        return None
    return page(f"Growth: {name}", "Lines of: " + "; ".join(what.title for what in panels),
                PANEL_WIDTH * min(2, len(panels)), PANEL_HEIGHT * ((len(panels) + 1) // 2), lines)
