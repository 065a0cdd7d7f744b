#include "config/quickstart.hpp"

namespace tidegate::config {

std::string_view quickstart_text() {
    return R"yaml(# What `tidegate quickstart` runs: copy it and begin to change.
# Ten requests a minute for each client, in front of the built-in echo upstream; the eleventh
# request within a minute is answered 429.
listen: 127.0.0.1:8080       # this machine only; `8080` for every address
admin: 127.0.0.1:9901        # /metrics, /healthz, /readyz
upstream: http://127.0.0.1:9000
limits: [10/min]
)yaml";
}

Loaded quickstart() {
    return load_text(quickstart_text(), "quickstart");
}

}  // namespace tidegate::config
