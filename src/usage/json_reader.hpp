// Reads chosen members of a JSON document that comes in pieces, without a tree of the rest. Memory
// is bounded: by the list of pointers, by the depth, and by the longest text that is asked for.
// Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tidegate::usage {

// The member at one pointer. A name that occurs twice in an object has the value of its last
// occurrence. A name in another case is no occurrence, but makes the member ambiguous where the
// pointers ignore case.
struct JsonMember {
    enum class Kind : std::uint8_t { absent, null, boolean, number, text, object, array };

    Kind kind = Kind::absent;
    // Its name, or that of an object around it, occurred twice or in another case. Which of these
    // an upstream takes is not known.
    bool ambiguous = false;
    bool too_long = false;   // a text longer than the reader keeps: `text` is its beginning
    std::uint32_t size = 0;  // of an array that has ended: its elements
    double number = 0;
    // Of all occurrences that are whole numbers from 0 to 2^53, the last and the largest. `largest`
    // is also of names in another case.
    std::optional<std::int64_t> whole;
    std::optional<std::int64_t> largest;
    // A text; a number or a boolean as it is compared: 1, 1.0 and 1e0 are all `1`. Of numbers only
    // where the reader is made to keep it.
    std::string text;

    // As one that is absent. Keeps the room of a text of up to `text_kept` bytes.
    void clear(std::size_t text_kept) {
        kind = Kind::absent;
        ambiguous = too_long = false;
        size = 0;
        number = 0;
        whole.reset();
        largest.reset();
        text.clear();
        if (text.capacity() > text_kept) text.shrink_to_fit();
    }

    bool is_scalar() const {
        return kind == Kind::boolean || kind == Kind::number || kind == Kind::text;
    }
};

// Which members a reader keeps: made once, then shared by readers on all threads.
class JsonPointers {
  public:
    // How names are compared. Servers in Go (encoding/json) and ASP.NET ignore the case of names.
    enum class Case : std::uint8_t {
        exact,
        ignored,  // of all letters that base/case_folding.hpp folds; U+017F is an s, U+212A a k
    };

    // Pointers of RFC 6901 that begin with `/`, each with sound escapes (is_json_pointer()).
    explicit JsonPointers(const std::vector<std::string>& pointers, Case letters = Case::exact);

    std::size_t size() const { return size_; }

  private:
    friend class JsonReader;

    static constexpr int kNone = -1;
    // A reader looks at a node for each name that it finds: one line of a cache.
    struct alignas(64) Node {
        std::string name;
        int pointer = kNone;  // its place in the list
        int first_child = kNone;
        int sibling = kNone;
        int like_named = kNone;  // the next child of its parent with the same mark
        int marks = kNone;       // the place of its children's marks; kNone: it has no children
    };
    // Most names of a document have another mark than all children.
    static constexpr std::size_t kMarks = 64;
    using ChildOfMark = std::array<int, kMarks>;  // the first with each mark
    // What was found of a name.
    struct Child {
        int node = kNone;
        bool is_exact = false;
    };

    const Node& node(int position) const { return nodes_[static_cast<std::size_t>(position)]; }
    Node& node(int position) { return nodes_[static_cast<std::size_t>(position)]; }
    const std::string& folded(int position) const {
        return folded_[static_cast<std::size_t>(position)];
    }
    static std::size_t mark_of(std::string_view name);
    // By the name as it is written.
    int child_of(int parent, std::string_view name) const;
    int add_child(int parent, std::string name);
    // Of children whose names differ in case only, the one that is written like `name`. Calls
    // `visit_other(child)` for each that is written in another case, where case is ignored.
    template <class Visit>
    Child find(int parent, std::string_view name, bool is_ascii, Visit visit_other) const;
    template <class Visit>
    Child find_marked(int first, std::string_view name, Visit visit_other) const;
    template <class Visit>
    Child find_folded(int parent, std::string_view name, Visit visit_other) const;

    std::vector<Node> nodes_;          // the first is the document
    std::vector<std::string> folded_;  // names by node, without their case where case is ignored
    std::vector<ChildOfMark> marks_;   // of the nodes that have children
    std::size_t size_ = 0;
    Case letters_;
    std::size_t longest_name_ = 0;  // in bytes, however its letters are written
};

// Whether `text` is a pointer of RFC 6901 to something inside of a document.
bool is_json_pointer(std::string_view text);

// `request.uri`, names with dots between them, as the pointer `/request/uri`; a pointer as it is.
inline std::string json_pointer_of(std::string_view path) {
    if (path.starts_with('/')) return std::string(path);
    std::string pointer = "/";
    for (const char c : path) {
        if (c == '~') {
            pointer += "~0";
        } else if (c == '/') {
            pointer += "~1";
        } else {
            pointer += c == '.' ? '/' : c;
        }
    }
    return pointer;
}

// Not copied; owned by the reader of one request or one answer, on its thread.
class JsonReader {
  public:
    // Why a document cannot be read.
    enum class Fault : std::uint8_t { none, not_json, too_deep };
    // The members of a document, in the order of the pointers. Valid during the call.
    using Members = std::vector<JsonMember>;
    using OnDocument = std::function<void(const Members&)>;

    // Objects and arrays in each other. Providers' answers have up to ten.
    static constexpr std::size_t kDepthMax = 64;

    struct Options {
        std::size_t text_max = 256;  // bytes of a text that are kept
        // Each element of an array at the root is a document of its own.
        bool elements_are_documents = false;
        bool keeps_number_texts = true;
        // `largest` is also of texts that are numbers.
        bool counts_texts = false;
    };

    // Calls `on_document` for each whole document. `pointers` must live as long as the reader.
    JsonReader(const JsonPointers& pointers, Options options, OnDocument on_document);
    ~JsonReader();

    // The next bytes of the document. After a fault the rest of the document is left unread.
    void read(std::string_view piece);
    // The document has ended, and the next one begins. Returns what was wrong with it; one without
    // a byte is `not_json`.
    Fault end();
    // As end(), of a document that is not to be read.
    void forget();

  private:
    class Handler;
    struct Parser;

    std::unique_ptr<Parser> parser_;
};

}  // namespace tidegate::usage
