// A map whose keys Tidegate defines, such as `identity` or one upstream. The code that reads a
// section lists its keys like the documentation.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "config/value.hpp"

namespace tidegate::config {

class KeyRows;

// Call find() or need() for every allowed key, then refuse_others(): its message lists these keys.
class Section {
  public:
    // Reports when `value` is not a map; then every key is missing, silently.
    Section(const Value& value, const KeyRows& keys);
    // The same of a section without rows, whose keys are those that find() and need() name: of
    // files beside the configuration.
    explicit Section(const Value& value, std::string_view wanted = "a map");

    const Value& value() const { return value_; }
    std::optional<Value> find(std::string_view key);
    // Reports when it is missing: its row says what to write.
    std::optional<Value> need(std::string_view key);
    // The same, where that depends on other keys.
    std::optional<Value> need(std::string_view key, std::string_view hint);
    // Refuses documented keys that a later version supports.
    void not_available(std::initializer_list<std::string_view> keys, std::string_view advice = {});
    void refuse_others() const;

    // Each sets `out` if the key is there and valid.
    void toggle(std::string_view key, bool& out);
    template <class T, class Choices = std::initializer_list<std::pair<std::string_view, T>>>
    void choice(std::string_view key, T& out, const Choices& choices,
                std::initializer_list<std::string_view> later = {}) {
        if (const auto value = find(key)) {
            if (const auto chosen = value->choice<T>(choices, later)) out = *chosen;
        }
    }

  private:
    Value value_;
    const KeyRows* rows_ = nullptr;
    std::vector<std::string_view> known_;  // in the order of messages; literals
    std::vector<std::string_view> later_;
};

}  // namespace tidegate::config
