#include "config/section.hpp"

#include <algorithm>
#include <string>

#include "base/quote.hpp"
#include "config/suggest.hpp"

namespace tidegate::config {

Section::Section(const Value& value, std::string_view wanted) : value_(value) {
    if (!value.is_map()) value.wrong_kind(wanted);
}

std::optional<Value> Section::find(std::string_view key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.push_back(key);
    for (const Entry& entry : value_.node_->entries) {
        if (entry.key == key) return value_.child(entry);
    }
    return std::nullopt;
}

std::optional<Value> Section::need(std::string_view key, std::string_view hint) {
    std::optional<Value> found = find(key);
    if (!found && value_.is_map()) {
        value_.fault("the key " + quote(key) + " is missing: write " + std::string(hint));
    }
    return found;
}

void Section::not_available(std::initializer_list<std::string_view> keys) {
    for (const std::string_view key : keys) {
        later_.push_back(key);
        for (const Entry& entry : value_.node_->entries) {
            if (entry.key == key) {
                value_.context().faults.push_back(
                    {entry.place, value_.child(entry).name() + ": not available yet"});
            }
        }
    }
}

void Section::refuse_others() const {
    const auto is_in = [](const std::vector<std::string_view>& keys, const std::string& key) {
        return std::find(keys.begin(), keys.end(), key) != keys.end();
    };
    for (const Entry& entry : value_.node_->entries) {
        if (is_in(known_, entry.key) || is_in(later_, entry.key)) continue;
        std::string message = "unknown key " + quote(entry.key);
        if (!value_.name().empty()) message += " in " + value_.name();
        const std::string_view meant = nearest(entry.key, known_);
        message += meant.empty() ? "; allowed here: "
                                 : "; did you mean " + quote(meant) + "? Allowed here: ";
        message += one_of(known_);
        value_.context().faults.push_back({entry.place, message});
    }
}

void Section::toggle(std::string_view key, bool& out) {
    if (const auto value = find(key)) {
        if (const auto set = value->toggle()) out = *set;
    }
}

void Section::duration(std::string_view key, milliseconds& out, DurationRange range) {
    if (const auto value = find(key)) {
        if (const auto time = value->duration(range)) out = *time;
    }
}

void Section::size(std::string_view key, std::size_t& out, IntegerRange range) {
    if (const auto value = find(key)) {
        if (const auto bytes = value->size(range)) out = static_cast<std::size_t>(*bytes);
    }
}

}  // namespace tidegate::config
