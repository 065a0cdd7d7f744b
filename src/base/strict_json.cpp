#include "base/strict_json.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace tidegate {
namespace {

// Makes a value of the parser's events, and stops at texts that other readers take in another way.
class Builder final : public nlohmann::json_sax<JsonValue> {
  public:
    JsonValue root;
    std::size_t stopped_at = 0;   // of a fault of grammar: how many bytes were read
    std::string_view other = {};  // another fault

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(number_integer_t number) override { return add(number); }
    bool number_unsigned(number_unsigned_t number) override { return add(number); }
    bool number_float(number_float_t number, const string_t&) override { return add(number); }
    bool string(string_t& text) override { return add(std::move(text)); }
    bool binary(binary_t&) override { return false; }  // none in JSON
    bool start_object(std::size_t) override { return open(JsonValue::object()); }
    bool key(string_t& name) override {
        auto& members = open_.back()->get_ref<JsonValue::object_t&>();
        const auto [member, is_new] = members.try_emplace(std::move(name));
        member_ = &member->second;
        if (!is_new) other = "an object has a name twice";
        return is_new;
    }
    bool end_object() override { return close(); }
    bool start_array(std::size_t) override { return open(JsonValue::array()); }
    bool end_array() override { return close(); }
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception&) override {
        stopped_at = position;
        return false;
    }

  private:
    // Puts the value where the parser is: into the open array or member, or at the root.
    JsonValue& put(JsonValue&& value) {
        if (open_.empty()) return root = std::move(value);
        if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
        return *member_ = std::move(value);
    }
    bool add(JsonValue&& value) {
        put(std::move(value));
        return true;
    }
    bool open(JsonValue&& empty) {
        if (open_.size() == kJsonDepthMax) {
            other = "nested too deeply";
            return false;
        }
        open_.push_back(&put(std::move(empty)));
        return true;
    }
    bool close() {
        open_.pop_back();
        return true;
    }

    // The values around the place of the parser. None of them moves while it is open: an array
    // grows only when the value that it got last is complete.
    std::vector<JsonValue*> open_;
    JsonValue* member_ = nullptr;
};

using Reading = Result<JsonValue, std::string>;

Reading refused(std::string why) {
    return {boost::system::in_place_error, std::move(why)};
}

Reading not_json(std::string_view text, std::size_t read) {
    const std::string_view before = text.substr(0, read - std::min<std::size_t>(read, 1));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    return refused("line " + std::to_string(line) + ": not JSON");
}

}  // namespace

Reading parse_json_object(std::string_view text) {
    // The library passes over a byte order mark, and takes a zero byte for the end.
    if (text.starts_with("\xef\xbb\xbf")) return not_json(text, 0);
    if (const auto zero = text.find('\0'); zero != text.npos) return not_json(text, zero + 1);
    Builder builder;
    if (!JsonValue::sax_parse(text, &builder)) {
        return builder.other.empty() ? not_json(text, builder.stopped_at)
                                     : refused(std::string(builder.other));
    }
    if (!builder.root.is_object()) return refused("not an object: `{...}`");
    return {boost::system::in_place_value, std::move(builder.root)};
}

const JsonValue* find_member(const JsonValue& object, std::string_view name) {
    const auto member = object.find(name);
    return member == object.end() ? nullptr : &*member;
}

std::optional<std::string_view> string_member(const JsonValue& object, std::string_view name) {
    const JsonValue* const member = find_member(object, name);
    if (member == nullptr || !member->is_string()) return std::nullopt;
    return text_of(*member);
}

std::string_view text_of(const JsonValue& string) {
    return string.get_ref<const std::string&>();
}

}  // namespace tidegate
