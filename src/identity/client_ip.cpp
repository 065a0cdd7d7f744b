#include "identity/client_ip.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.hpp"
#include "http/field.hpp"

namespace tidegate::identity {

namespace {

// The longest node is a bracketed IPv6 address with its zone and an obfuscated port.
constexpr std::size_t kNodeBytesMax = 128;

// RFC 9110 section 5.6.2.
bool is_token_char(char c) {
    return is_alphanumeric(c) ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_port(std::string_view text) {
    return text.size() <= 5 && parse_number<std::uint16_t>(text);
}

// RFC 7239 section 6: a port may be hidden behind a name.
bool is_node_port(std::string_view text) {
    if (text.empty() || text.front() != '_') return is_port(text);
    return text.size() > 1 && std::all_of(text.begin() + 1, text.end(), [](char c) {
               return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
           });
}

std::optional<IpAddress> only(std::optional<IpAddress> ip, bool v4) {
    return ip && ip->v4 == v4 ? ip : std::nullopt;
}

// The text between brackets must be IPv6; an IPv4-mapped one comes out as IPv4.
std::optional<IpAddress> read_bracketed(std::string_view text, bool (*port_ok)(std::string_view)) {
    const auto close = text.find(']');
    if (close == text.npos) return std::nullopt;
    const std::string_view after = text.substr(close + 1);
    if (!after.empty() && (after.front() != ':' || !port_ok(after.substr(1)))) return std::nullopt;
    const std::string_view inside = text.substr(1, close - 1);
    if (inside.find(':') == inside.npos) return std::nullopt;
    return parse_scoped_ip(inside);
}

// An IPv4 address, perhaps with a port.
std::optional<IpAddress> read_v4(std::string_view text, bool (*port_ok)(std::string_view)) {
    const auto colon = text.find(':');
    if (colon != text.npos && !port_ok(text.substr(colon + 1))) return std::nullopt;
    return only(parse_ip(text.substr(0, colon)), true);
}

// RFC 7239 section 6: IPv6 is in brackets; `unknown` and `_hidden` are no addresses.
std::optional<IpAddress> read_node(std::string_view node) {
    if (node.starts_with('[')) return read_bracketed(node, is_node_port);
    return read_v4(node, is_node_port);
}

// Whether the quote at `at` is escaped: an odd number of backslashes precedes it.
bool is_escaped(std::string_view text, std::size_t at) {
    std::size_t backslashes = 0;
    while (backslashes < at && text[at - 1 - backslashes] == '\\') ++backslashes;
    return backslashes % 2 == 1;
}

// Reads the pairs of one Forwarded element from left to right.
class Element {
  public:
    explicit Element(std::string_view text) : rest_(text) {}

    // Reads one `name=value`, unquoted into our buffer. False at the end or at a fault.
    bool next() {
        skip_white_space();
        while (take(';')) skip_white_space();
        if (rest_.empty()) return false;
        name_ = take_token();
        valid_ = !name_.empty() && take('=') && take_value();
        skip_white_space();
        valid_ = valid_ && (rest_.empty() || rest_.front() == ';');
        return valid_;
    }

    bool valid() const { return valid_; }
    std::string_view name() const { return name_; }
    // Empty when it is longer than any address.
    std::string_view value() const {
        return size_ <= value_.size() ? std::string_view(value_.data(), size_) : std::string_view{};
    }

  private:
    void skip_white_space() {
        rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
    }

    bool take(char c) {
        if (rest_.empty() || rest_.front() != c) return false;
        rest_.remove_prefix(1);
        return true;
    }

    std::string_view take_token() {
        std::size_t length = 0;
        while (length < rest_.size() && is_token_char(rest_[length])) ++length;
        const std::string_view token = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return token;
    }

    bool take_value() {
        size_ = 0;
        if (take('"')) return take_quoted();
        const std::string_view token = take_token();
        for (const char c : token) append(c);
        return !token.empty();
    }

    bool take_quoted() {
        while (!rest_.empty()) {
            if (take('"')) return true;
            if (take('\\') && rest_.empty()) return false;
            append(rest_.front());
            rest_.remove_prefix(1);
        }
        return false;
    }

    void append(char c) {
        if (size_ < value_.size()) value_[size_] = c;
        ++size_;
    }

    std::string_view rest_;
    std::string_view name_;
    std::array<char, kNodeBytesMax> value_;
    std::size_t size_ = 0;
    bool valid_ = true;
};

}  // namespace

std::string_view take_last_address(std::string_view& list, bool& more) {
    const auto comma = list.rfind(',');
    more = comma != list.npos;
    const std::string_view item = list.substr(more ? comma + 1 : 0);
    list = list.substr(0, more ? comma : 0);
    return trimmed(item);
}

std::string_view take_last_element(std::string_view& list, bool& more) {
    bool quoted = false;
    for (std::size_t at = list.size(); at-- > 0;) {
        const char c = list[at];
        if (c == '"') {
            // Outside, an escaped quote is a fault; it ends up in an element that cannot be read.
            if (!is_escaped(list, at)) quoted = !quoted;
        } else if (c == ',' && !quoted) {
            const std::string_view item = list.substr(at + 1);
            list = list.substr(0, at);
            more = true;
            return trimmed(item);
        }
    }
    const std::string_view item = list;
    list = {};
    more = false;
    return trimmed(item);
}

std::optional<IpAddress> read_address(std::string_view item) {
    if (item.starts_with('[')) return read_bracketed(item, is_port);
    // More than one colon: IPv6 without brackets, which leaves no room for a port.
    if (std::count(item.begin(), item.end(), ':') > 1) return parse_scoped_ip(item);
    return read_v4(item, is_port);
}

std::optional<IpAddress> read_forwarded_element(std::string_view text) {
    Element element(text);
    std::optional<IpAddress> found;
    bool seen = false;
    while (element.next()) {
        if (!http::equal_ignoring_case(element.name(), "for")) continue;
        if (seen) return std::nullopt;
        seen = true;
        found = read_node(element.value());
    }
    return element.valid() ? found : std::nullopt;
}

namespace {

using http::FieldName;

constexpr EnumTexts<ChainFault> kChainFaults(
    {{ChainFault::none, ""},
     {ChainFault::unreadable, "has an entry that is not an IP address"},
     {ChainFault::unspecified, "has 0.0.0.0 or ::, which is not a client's address"},
     {ChainFault::too_long, "has more than 100 entries of trusted proxies"},
     {ChainFault::repeated,
      "is sent twice, is empty, or has another character for `-` in its name"}});

// Walks a chain from the right, one hop at a time, from the peer towards the client.
class Walk {
  public:
    Walk(const std::optional<IpAddress>& peer, const ClientIpSettings& settings,
         std::vector<Hop>* hops)
        : settings_(settings), client_(peer), hops_(hops) {}

    // Whether another hop to the left may be read. Else that is the chain's fault.
    bool may_go_on() {
        if (steps_ < kHopsMax) return true;
        fault_ = ChainFault::too_long;
        return false;
    }

    // Takes the next hop to the left, which `text` was read as. False when the walk ends there.
    bool step(std::string_view text, const std::optional<IpAddress>& hop) {
        ++steps_;
        const Hop::Kind kind = kind_of(hop);
        if (hops_ != nullptr) hops_->push_back({text, hop, kind});
        if (kind == Hop::Kind::trusted || kind == Hop::Kind::client) client_ = hop;
        if (kind == Hop::Kind::unreadable) fault_ = ChainFault::unreadable;
        if (kind == Hop::Kind::unspecified) fault_ = ChainFault::unspecified;
        return kind == Hop::Kind::trusted;
    }

    const std::optional<IpAddress>& client() const { return client_; }
    ChainFault fault() const { return fault_; }
    void set_fault(ChainFault fault) { fault_ = fault; }

  private:
    Hop::Kind kind_of(const std::optional<IpAddress>& hop) const {
        if (!hop) return Hop::Kind::unreadable;
        if (hop->is_unspecified()) return Hop::Kind::unspecified;
        return settings_.trusts(*hop) ? Hop::Kind::trusted : Hop::Kind::client;
    }

    const ClientIpSettings& settings_;
    std::optional<IpAddress> client_;
    std::vector<Hop>* hops_;
    std::size_t steps_ = 0;
    ChainFault fault_ = ChainFault::none;
};

// Several fields are one list in their order (RFC 9110 section 5.3), so the last comes first.
// `take_last` cuts the last item off a value, `read` makes an address of it.
template <class TakeLast, class Read>
void walk_chain(const http::Fields& fields, FieldName name, TakeLast take_last, Read read,
                Walk& walk) {
    for (auto field = fields.rbegin(); field != fields.rend(); ++field) {
        if (field->id != name) continue;
        std::string_view rest = field->value;
        bool more = true;
        while (more) {
            if (!walk.may_go_on()) return;
            const std::string_view item = take_last(rest, more);
            if (!walk.step(item, read(item))) return;
        }
    }
}

// Read as the empty text, which is no address, when it is missing or there twice.
void walk_single(const http::Fields& fields, std::string_view name, Walk& walk) {
    const std::string_view item = http::single_value(fields, name);
    walk.step(item, read_address(item));
    if (!item.empty()) return;
    const bool is_there = std::any_of(fields.begin(), fields.end(), [&](const http::Field& field) {
        return http::equal_as_variable(field.name, name);
    });
    walk.set_fault(is_there ? ChainFault::repeated : ChainFault::none);
}

std::optional<IpAddress> named_client(const Peer& peer, const http::Fields& fields,
                                      const ClientIpSettings& settings, std::vector<Hop>* hops,
                                      ChainFault* fault) {
    Walk walk(peer.is_gateway ? std::nullopt : peer.address, settings, hops);
    switch (settings.source) {
        case ClientIpSettings::Source::x_forwarded_for:
            walk_chain(fields, FieldName::x_forwarded_for, take_last_address, read_address, walk);
            break;
        case ClientIpSettings::Source::forwarded:
            walk_chain(fields, FieldName::forwarded, take_last_element, read_forwarded_element,
                       walk);
            break;
        case ClientIpSettings::Source::single:
            walk_single(fields, settings.single_field, walk);
            break;
    }
    if (fault != nullptr && walk.fault() != ChainFault::none) *fault = walk.fault();
    return walk.client();
}

}  // namespace

std::string_view field_of(const ClientIpSettings& settings) {
    switch (settings.source) {
        case ClientIpSettings::Source::x_forwarded_for:
            return "x-forwarded-for";
        case ClientIpSettings::Source::forwarded:
            return "forwarded";
        case ClientIpSettings::Source::single:
            break;
    }
    return settings.single_field;
}

std::string_view describe(ChainFault fault) {
    return kChainFaults[fault];
}

std::optional<IpAddress> client_address(const Peer& peer, const http::Fields& fields,
                                        const ClientIpSettings& settings, std::vector<Hop>* hops,
                                        ChainFault* fault) {
    ChainFault in_chain = ChainFault::none;
    const auto client = peer.trusted || peer.is_gateway
                            ? named_client(peer, fields, settings, hops, &in_chain)
                            : peer.address;
    if (fault != nullptr && in_chain != ChainFault::none) *fault = in_chain;
    if (client && client->is_unspecified()) return std::nullopt;
    // A gateway speaks for all clients: the last good hop may be another gateway's.
    if (peer.is_gateway && in_chain != ChainFault::none) return std::nullopt;
    return client;
}

}  // namespace tidegate::identity
