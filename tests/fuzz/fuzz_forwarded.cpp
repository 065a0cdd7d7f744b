// Forwarded (RFC 7239): whatever a client writes in front, the client is the one that the trusted
// proxies saw; and where the field is as the grammar wants it, reading it from left to right finds
// the same.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chain_check.hpp"

namespace {

using tidegate::IpAddress;
using tidegate::fuzz::Chain;

// The field as section 4 has it, from left to right: one character decides, nothing is cut off.
class NaiveReader {
  public:
    explicit NaiveReader(std::string_view text) : text_(text) {}

    // 1#forwarded-element; each as the values of its `for`, there being more than one, none, or
    // one that is not allowed. False when the text is no such list.
    bool read(std::vector<std::vector<std::string>>& elements) {
        do {
            space();
            elements.emplace_back();
            if (!element(elements.back())) return false;
            space();
        } while (take(','));
        return at_ == text_.size();
    }

  private:
    // [ forwarded-pair ] *( ";" [ forwarded-pair ] )
    bool element(std::vector<std::string>& values) {
        do {
            std::string name;
            std::string value;
            if (!token(name)) continue;
            if (!take('=') || !(take('"') ? quoted(value) : token(value))) return false;
            for (char& c : name)
                if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
            if (name == "for") values.push_back(value);
        } while (take(';'));
        return true;
    }

    bool token(std::string& out) {
        static const std::string_view kChars =
            "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        while (at_ < text_.size() && kChars.find(text_[at_]) != kChars.npos) out += text_[at_++];
        return !out.empty();
    }

    // Behind its first quote.
    bool quoted(std::string& out) {
        while (at_ < text_.size()) {
            if (take('"')) return true;
            if (take('\\') && at_ == text_.size()) return false;
            out += text_[at_++];
        }
        return false;
    }

    void space() {
        while (take(' ') || take('\t')) {
        }
    }

    bool take(char c) {
        if (at_ == text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

bool is_port(std::string_view text) {
    static const std::string_view kName =
        "._-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (text.starts_with('_')) return text.size() > 1 && text.find_first_not_of(kName) == text.npos;
    return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == text.npos &&
           std::stoul(std::string(text)) <= 65535;
}

// node = nodename [ ":" node-port ], section 6.
std::optional<IpAddress> naive_node(const std::string& node) {
    if (node.size() > 128) return std::nullopt;
    const bool v6 = node.starts_with('[');
    const auto end = v6 ? node.find(']') : node.find(':');
    if (v6 && end == node.npos) return std::nullopt;
    const std::string name = v6 ? node.substr(1, end - 1) : node.substr(0, end);
    const std::string rest = end == node.npos ? "" : node.substr(v6 ? end + 1 : end);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return std::nullopt;
    if (v6 != (name.find(':') != name.npos)) return std::nullopt;
    return tidegate::parse_scoped_ip(name);
}

std::optional<std::optional<IpAddress>> naive_client(const std::vector<std::string>& lines) {
    std::vector<std::vector<std::string>> elements;
    for (const std::string& line : lines)
        if (!NaiveReader(line).read(elements)) return std::nullopt;
    std::optional<IpAddress> client = tidegate::parse_ip("10.0.0.1");
    for (; !elements.empty(); elements.pop_back()) {
        if (elements.back().size() != 1) return client;
        const auto hop = naive_node(elements.back().front());
        if (!hop || hop->is_unspecified()) return client;
        client = hop;
        const bool ten = hop->v4 && hop->bytes[0] == 10;
        const bool link_local = !hop->v4 && hop->bytes[0] == 0xfe && hop->bytes[1] >> 6 == 2;
        if (!ten && !link_local) return client;
    }
    return client;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const Chain chain(tidegate::http::FieldName::forwarded);
    const auto lines = tidegate::fuzz::lines_of({reinterpret_cast<const char*>(data), size});
    chain.check_prefix(lines, "for=203.0.113.7", "for=10.0.0.2");
    chain.check_prefix(lines, "for=203.0.113.7;host=\"a\\\",\"",
                       "proto=https;for=\"[fe80::2%e]:_x\"");
    chain.check_prefix(lines, "by=\"\\\\\";for=\"203.0.113.7:80\"", "for=10.0.0.2;host=\",\\\",\"");
    chain.check_named(lines);
    if (const auto second = naive_client(lines)) FUZZ_CHECK(chain.client(lines) == *second);
    return 0;
}
