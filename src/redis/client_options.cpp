#include "redis/client_options.hpp"

#include "base/quote.hpp"
#include "redis/error_reply.hpp"
#include "redis/master_watch.hpp"

namespace tidegate::redis {

std::string ClientOptions::address() const {
    if (master_watch) return "the master " + quote(master_watch->master_name());
    if (!unix_path.empty()) return "unix:" + unix_path;
    return NodeAddress{host, static_cast<std::uint16_t>(port)}.to_string();
}

std::string ClientOptions::advice(std::string_view error) const {
    if (rights.empty() || !is_denied(error)) return {};
    return "; give its Redis user these rights: " + rights;
}

}  // namespace tidegate::redis
