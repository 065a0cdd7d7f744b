"""Touch counts: how many files a usual change touches, code, documents and tests together.

A kind of change (a configuration key, a metric, ...) has three samples that the program has already.
A file counts for a sample if it has a name of the sample and lies where a change of that kind says
what the thing is: the rooms, the pages of the reference and the tests of PLACES. So these do not count:

- integration tests, soaks, recipes, examples, dashboards of others, benchmarks and pages other than the
  reference: they use a key or a command, and another one would do;
- for keys, rooms that read the value, and their tests: that is what the key is for, and as many as it is for;
- what a program writes (source.py says how that is told);
- lines that include a file of such a name.

The touch count of a kind is the median of its samples. A sample that no file of src has is a fault:
the thing has gone or has another name, and the patterns below have to follow it.
"""

import re
from statistics import median

import source

UNIT = "tests/unit/"
SCHEMA = "config/tidegate.schema.json"
OF_DOCUMENTS = ("tests/readme", "tests/package")
CONFIGURATION = (SCHEMA, "docs/configuration.md", "tests/config_bad", *OF_DOCUMENTS)

# Kind -> where a change of it says what the thing is: what the paths of its files begin with.
PLACES = {
    "configuration key": ("src/config/", UNIT + "config_", *CONFIGURATION),
    "metric": ("src/", "docs/monitoring.md", UNIT, *OF_DOCUMENTS),
    "field of the access log": ("src/", "docs/logging.md", UNIT, *OF_DOCUMENTS),
    "field of answers": ("src/", "docs/limits.md", "docs/faces.md", UNIT, *CONFIGURATION),
    "command": ("src/cli/", "src/admin/", "src/app/", "docs/commands.md", UNIT + "cli_",
                UNIT + "admin_", UNIT + "app_", *OF_DOCUMENTS),
    "identity method": ("src/identity/", "src/config/", "src/ask/", "src/cli/", "docs/identity.md",
                        UNIT, *CONFIGURATION),
    "algorithm": ("src/", "lua/", "docs/limits.md", "tests/store", UNIT, *CONFIGURATION),
}
# Kind -> sample -> what its names look like.
SAMPLES = {
    "configuration key": {
        "timeouts.client_idle": r"\bclient_idle\b",
        "timeouts.tls_handshake": r"\btls_handshake\b",
        "health_check.healthy_after": r"\bhealthy_after\b",
    },
    "metric": {
        "tidegate_forwarding_invalid_total": r"forwarding_invalid",
        "tidegate_cost_ignored_total": r"cost_ignored_total|count_cost_ignored|\bcosts_ignored"
                                       r"|metrics_?\.cost_ignored",
        "tidegate_deny_cache_hits_total": r"deny_cache_hit",
    },
    "field of the access log": {
        "shadow_limited_by": r"\bshadow_limited_by\b",
        "upstream_server": r"\bupstream_server\b",
        "user_agent": r"\buser_agent\b",
    },
    "field of answers": {
        "RateLimit-Policy": r"(?i)ratelimit[-_]policy",
        "X-RateLimit-Limit": r"(?i)x[-_]ratelimit",
        "WWW-Authenticate": r"(?i)www[-_]authenticate|\bchallenges?\b",
    },
    "command": {
        "top": r"/api/top|tidegate top|\"top\"|Path::top|\btop_|_top\b|\.top\b|`top`",
        "denials": r"/api/denials|tidegate denials|\"denials\"|Path::denials|\bdenials_|_denials\b"
                   r"|s\.denials\b|`denials`",
        "inspect": r"\binspect\b|\binspect_|_inspect\b|Inspect",
    },
    "identity method": {
        "basic": r"`basic`|\"basic\"|\bbasic:|BasicMethod|Htpasswd|htpasswd",
        "api_key": r"\bapi_keys?\b|ApiKey",
        "client_certificate": r"`client_certificate`|\"client_certificate\"|\bclient_certificate:"
                              r"|CertificateMethod|CertificateUser|certificate_user",
    },
    "algorithm": {
        "leaky_bucket": r"leaky_bucket|[Ll]eaky",
        "sliding_log": r"sliding_log|SlidingLog",
        "concurrency": r"\bconcurrency\b|Concurrency",
    },
}


class Touches:
    """The files that each sample touches."""

    def __init__(self):
        places = {place for kind in PLACES.values() for place in kind}
        self.texts = {path: source.INCLUDE.sub("", source.by_hand(path)) for place in places
                      for path in source.files_beginning(place)}
        self.found = {}

    def files(self, kind):
        """Sample -> its files, in order."""
        if kind not in self.found:
            self.found[kind] = self.search(kind)
        return self.found[kind]

    def search(self, kind):
        return {sample: sorted(path for path, text in self.texts.items()
                               if path.startswith(PLACES[kind]) and re.search(pattern, text))
                for sample, pattern in SAMPLES[kind].items()}

    def count(self, kind):
        return median(len(files) for files in self.files(kind).values())

    def faults(self):
        """A sentence for each sample that is not found."""
        for kind in SAMPLES:
            for sample, files in self.files(kind).items():
                if not any(path.startswith("src/") for path in files):
                    yield (f"no file of src has `{sample}`, a sample of the touch count of a {kind}: "
                           "give it the name that it has now, or another sample, in "
                           "tests/measure/touches.py")
