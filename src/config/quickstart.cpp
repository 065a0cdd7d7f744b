// The configurations of `tidegate quickstart`, which the program contains.
#include <string_view>

#include "config/config.hpp"

namespace tidegate::config {

std::string_view quickstart_text() {
    return R"yaml(# yaml-language-server: $schema=tidegate.schema.json
# What `tidegate quickstart` runs: copy it and begin to change.
# Ten requests a minute for each client, in front of the built-in echo upstream; the eleventh
# request within a minute is answered 429.
listen: 127.0.0.1:8080       # this machine only; `8080` for every address
admin: 127.0.0.1:9901        # /metrics, /healthz, /readyz
upstream: http://127.0.0.1:9000
limits: [10/min]
)yaml";
}

std::string_view quickstart_text(Face face) {
    switch (face) {
        case Face::proxy:
            return quickstart_text();
        case Face::forward_auth:
            return R"yaml(listen: {address: "127.0.0.1:8181", face: forward_auth, dialect: nginx}
admin: 127.0.0.1:9901
limits: [10/min]
)yaml";
        case Face::check:
        case Face::envoy_grpc:  // has none: Envoy's own configuration is the long one
            break;
    }
    return R"yaml(listen: {address: "127.0.0.1:8181", face: check}
admin: 127.0.0.1:9901
policies: {per-user: {key: [user], limits: [10/min]}}
)yaml";
}

Loaded quickstart(Face face) {
    return load_text(quickstart_text(face), "quickstart");
}

std::string_view quickstart_tls_text() {
    return R"yaml(listen:
  - address: 127.0.0.1:8443
    tls: {certificates: [{certificate: tidegate-quickstart.pem, key: tidegate-quickstart.key}]}
  - {address: "127.0.0.1:8080", redirect: https}
admin: 127.0.0.1:9901
upstream: http://127.0.0.1:9000
limits: [10/min]
)yaml";
}

Loaded quickstart_tls() {
    return load_text(quickstart_tls_text(), "quickstart");
}

}  // namespace tidegate::config
