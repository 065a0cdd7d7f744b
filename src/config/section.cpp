#include "config/section.hpp"

#include <algorithm>
#include <cassert>
#include <string>

#include "base/utf8.hpp"
#include "config/key_advice.hpp"
#include "config/keys.hpp"
#include "config/suggest.hpp"

namespace tidegate::config {

namespace {

// The words between an unknown key and the list of known ones.
std::string advice_for(std::string_view section, std::string_view key,
                       const std::vector<std::string_view>& known) {
    const std::string_view before_colon = key.substr(0, key.find(':'));
    if (before_colon != key && std::find(known.begin(), known.end(), before_colon) != known.end()) {
        return "; write a space behind the colon: " +
               quote(std::string(before_colon) + ": " +
                     std::string(key.substr(before_colon.size() + 1))) +
               ". Allowed here: ";
    }
    const std::string_view instead = advice_for_key(section, key);
    if (!instead.empty()) return "; write " + std::string(instead) + ". Allowed here: ";
    const std::string_view meant = nearest(key, known);
    if (!meant.empty()) return "; did you mean " + quote(meant) + "? Allowed here: ";
    return "; allowed here: ";
}

}  // namespace

Section::Section(const Value& value, const KeyRows& keys) : Section(value, keys.wanted()) {
    rows_ = &keys;
    for (const KeyRows::Row& row : keys.rows()) known_.push_back(row.key);
    for (const Entry& entry : value.node_->entries) {
        const KeyRows::Row* const row = keys.find(entry.key);
        if (row == nullptr || !row->idle) continue;
        const Value written = value.child(entry);
        value.context().maybe_idle.push_back({{written.place(), written.name()}, &*row->idle});
    }
}

Section::Section(const Value& value, std::string_view wanted) : value_(value) {
    if (!value.is_map()) value.wrong_kind(wanted);
}

std::optional<Value> Section::find(std::string_view key) {
    const bool is_known = std::find(known_.begin(), known_.end(), key) != known_.end();
    assert(is_known || rows_ == nullptr);
    if (!is_known) known_.push_back(key);
    for (const Entry& entry : value_.node_->entries) {
        if (entry.key == key) return value_.child(entry);
    }
    return std::nullopt;
}

std::optional<Value> Section::need(std::string_view key) {
    return need(key, rows_->find(key)->needed);
}

std::optional<Value> Section::need(std::string_view key, std::string_view hint) {
    std::optional<Value> found = find(key);
    if (!found && value_.is_map()) {
        value_.fault("the key " + quote(key) + " is missing: write " + std::string(hint));
    }
    return found;
}

void Section::not_available(std::initializer_list<std::string_view> keys, std::string_view advice) {
    for (const std::string_view key : keys) {
        later_.push_back(key);
        for (const Entry& entry : value_.node_->entries) {
            if (entry.key == key) {
                std::string message = value_.child(entry).name() + ": not available yet";
                if (!advice.empty()) message.append(": ").append(advice);
                value_.context().faults.push_back({entry.place, message});
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
        message += advice_for(value_.name(), entry.key, known_) + one_of(known_);
        value_.context().faults.push_back({entry.place, message});
    }
}

void Section::toggle(std::string_view key, bool& out) {
    if (const auto value = find(key)) {
        if (const auto set = value->toggle()) out = *set;
    }
}

}  // namespace tidegate::config
