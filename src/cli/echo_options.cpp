#include "cli/echo_options.hpp"

#include "base/quote.hpp"
#include "base/units.hpp"

namespace tidegate::cli {

namespace {

std::optional<std::string> read_status(std::string_view value, EchoOptions& options) {
    const std::optional<std::int64_t> status = parse_decimal(value);
    if (!status || *status < 200 || *status > 599) {
        return "status is " + quote(value) + ", but must be a number from 200 to 599";
    }
    options.status = static_cast<int>(*status);
    return std::nullopt;
}

std::optional<std::string> read_delay(std::string_view value, EchoOptions& options) {
    const auto delay = parse_duration(value);
    if (!delay) return "delay: " + delay.error();
    if (*delay > kEchoDelayMax) return "delay is " + quote(value) + ", but at most 60s is possible";
    options.delay = *delay;
    return std::nullopt;
}

std::optional<std::string> read_bytes(std::string_view value, EchoOptions& options) {
    const auto bytes = parse_size(value);
    if (!bytes) return "bytes: " + bytes.error();
    if (*bytes > kEchoBytesMax)
        return "bytes is " + quote(value) + ", but at most 1GiB is possible";
    options.bytes = *bytes;
    return std::nullopt;
}

std::optional<std::string> read_parameter(std::string_view parameter, EchoOptions& options) {
    const std::size_t equals = parameter.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = parameter.substr(0, equals);
    const std::string_view value = parameter.substr(equals + 1);
    if (name == "status") return read_status(value, options);
    if (name == "delay") return read_delay(value, options);
    if (name == "bytes") return read_bytes(value, options);
    return std::nullopt;
}

}  // namespace

Result<EchoOptions, std::string> read_echo_options(std::string_view target) {
    EchoOptions options;
    std::size_t at = target.find('?');
    while (at != std::string_view::npos) {
        const std::size_t begin = at + 1;
        at = target.find('&', begin);
        const std::size_t length = at == std::string_view::npos ? at : at - begin;
        std::optional<std::string> fault = read_parameter(target.substr(begin, length), options);
        if (fault) return *std::move(fault);
    }
    return options;
}

}  // namespace tidegate::cli
