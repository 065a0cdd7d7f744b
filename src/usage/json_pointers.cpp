#include <algorithm>
#include <utility>

#include "base/case_folding.hpp"
#include "usage/json_reader.hpp"

namespace tidegate::usage {
namespace {

std::string unescaped(std::string_view name) {
    std::string text;
    text.reserve(name.size());
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name[i] != '~') {
            text += name[i];
        } else {
            ++i;
            text += name[i] == '1' ? '/' : '~';
        }
    }
    return text;
}

}  // namespace

bool is_json_pointer(std::string_view text) {
    if (!text.starts_with('/')) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '~') continue;
        if (i + 1 == text.size() || (text[i + 1] != '0' && text[i + 1] != '1')) return false;
    }
    return true;
}

JsonPointers::JsonPointers(const std::vector<std::string>& pointers, Case letters)
    : size_(pointers.size()), letters_(letters) {
    nodes_.emplace_back();
    folded_.emplace_back();
    for (std::size_t pointer = 0; pointer < pointers.size(); ++pointer) {
        int at = 0;
        std::string_view rest = pointers[pointer];
        while (!rest.empty()) {
            rest.remove_prefix(1);
            const std::size_t end = std::min(rest.find('/'), rest.size());
            std::string name = unescaped(rest.substr(0, end));
            rest.remove_prefix(end);
            const int child = child_of(at, name);
            at = child != kNone ? child : add_child(at, std::move(name));
        }
        node(at).pointer = static_cast<int>(pointer);
    }
}

int JsonPointers::add_child(int parent, std::string name) {
    // A letter of three bytes may stand for one of ASCII.
    constexpr std::size_t kBytesMax = 3;
    std::string folded = letters_ == Case::ignored ? fold_case(name) : std::string();
    longest_name_ = std::max({longest_name_, name.size(), kBytesMax * folded.size()});
    if (node(parent).marks == kNone) {
        node(parent).marks = static_cast<int>(marks_.size());
        marks_.emplace_back().fill(kNone);
    }
    ChildOfMark& child_of_mark = marks_[static_cast<std::size_t>(node(parent).marks)];
    const int child = static_cast<int>(nodes_.size());
    int& first = child_of_mark[mark_of(letters_ == Case::ignored ? folded : name)];
    Node made;
    made.name = std::move(name);
    made.sibling = std::exchange(node(parent).first_child, child);
    made.like_named = std::exchange(first, child);
    nodes_.push_back(std::move(made));
    folded_.push_back(std::move(folded));
    return child;
}

int JsonPointers::child_of(int parent, std::string_view name) const {
    int child = node(parent).first_child;
    while (child != kNone && node(child).name != name) child = node(child).sibling;
    return child;
}

}  // namespace tidegate::usage
