#include "doctor/shown_error.hpp"

#include "base/quote.hpp"
#include "redis/error_reply.hpp"

namespace tidegate::doctor {

std::string without_secret(std::string_view text, std::string_view secret) {
    std::string shown;
    while (!secret.empty()) {
        const std::size_t at = text.find(secret);
        if (at == text.npos) break;
        shown.append(text.substr(0, at)).append("***");
        text.remove_prefix(at + secret.size());
    }
    return shown.append(text);
}

std::string shown_error(std::string_view error, std::string_view password) {
    return quote(without_secret(redis::without_arguments(error), password));
}

}  // namespace tidegate::doctor
