// The check API's calls: whatever comes, the reader says a call within its bounds or a sentence.
// The quick reader of JSON below it takes and says what the strict one does.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "faces/check_call.hpp"
#include "fuzz_check.hpp"

namespace {

using namespace tidegate;
using namespace tidegate::faces;

bool is_same(const JsonTree& tree, const JsonNode& node, const JsonValue& json) {
    if (json.is_string()) return node.kind == JsonNode::Kind::string && node.text == text_of(json);
    if (json.is_number_unsigned()) {
        return node.kind == JsonNode::Kind::whole && node.number == json.get<std::uint64_t>();
    }
    if (json.is_number()) {
        return node.kind == JsonNode::Kind::decimal && node.decimal == json.get<double>();
    }
    if (!json.is_structured()) return node.kind == JsonNode::Kind::other;
    const auto wanted = json.is_object() ? JsonNode::Kind::object : JsonNode::Kind::array;
    const auto children = tree.children(node);
    if (node.kind != wanted || children.size() != json.size()) return false;
    std::size_t i = 0;
    for (const auto& [name, child] : json.items()) {
        if (json.is_object() && children[i].name != name) return false;
        if (!is_same(tree, children[i++], child)) return false;
    }
    return true;
}

void check_json(std::string_view body) {
    const auto strict = parse_json_object(body);
    const auto tree = read_json_tree(body);
    FUZZ_CHECK(strict.has_value() == tree.has_value());
    if (strict) {
        FUZZ_CHECK(is_same(*tree, tree->root(), *strict));
    } else {
        FUZZ_CHECK(strict.error() == tree.error());
    }
}

bool has_control(std::string_view text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return true;
    }
    return false;
}

void check(std::string_view body, bool reserves) {
    const auto call = read_check_call(body, reserves);
    if (!call) {
        FUZZ_CHECK(!call.error().empty());
        return;
    }
    FUZZ_CHECK(!call->items.empty() && call->items.size() <= kCheckItemsMax);
    FUZZ_CHECK(call->ttl.count() > 0 && call->ttl <= kReserveTimeMax);
    for (const CheckItem& item : call->items) {
        FUZZ_CHECK(!item.cost || *item.cost >= 0);
        FUZZ_CHECK(!has_control(item.policy));
        FUZZ_CHECK(!has_control(item.request.method + item.request.path + item.request.host));
        for (const auto& [name, value] : item.request.headers) {
            FUZZ_CHECK(!has_control(name + value));
        }
        for (const auto& [name, value] : item.identifiers) FUZZ_CHECK(!has_control(value));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view body(reinterpret_cast<const char*>(data), size);
    check_json(body);
    check(body, false);
    check(body, true);
    const auto settled = read_settle_call(body);
    if (!settled) return 0;
    FUZZ_CHECK(!settled->costs.empty());
    for (const double cost : settled->costs) FUZZ_CHECK(cost >= 0);
    return 0;
}
