#include "usage/json_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include <boost/container/static_vector.hpp>
#include <boost/json/basic_parser_impl.hpp>

#include "base/case_folding.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "usage/whole_json.hpp"

namespace tidegate::usage {
namespace json = boost::json;

namespace {

// Up to here a double holds each whole number.
constexpr double kExactMax = 9007199254740992.0;

// Bytes of a number that has a fraction or an exponent.
constexpr std::size_t kNumberMax = 1024;

bool is_ascii(std::string_view text) {
    constexpr std::uint64_t kHighBits = 0x8080808080808080;
    std::uint64_t eight = 0;
    for (; text.size() >= sizeof eight; text.remove_prefix(sizeof eight)) {
        std::memcpy(&eight, text.data(), sizeof eight);
        if ((eight & kHighBits) != 0) return false;
    }
    return std::none_of(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

// Compares texts of ASCII, of which `folded` has no capitals.
bool folds_to(std::string_view text, std::string_view folded) {
    return text.size() == folded.size() &&
           std::equal(text.begin(), text.end(), folded.begin(),
                      [](char a, char b) { return to_lower(a) == b; });
}

// Apart, as most numbers are kept without a text.
template <class Number>
[[gnu::noinline]] void set_text(JsonMember& member, Number number) {
    std::array<char, 32> digits;
    const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    member.text.assign(digits.data(), result.ptr);
}

void set_integer(JsonMember& member, std::int64_t number, bool keeps_text) {
    member.kind = JsonMember::Kind::number;
    member.number = static_cast<double>(number);
    if (keeps_text) set_text(member, number);
    if (number < 0) return;
    member.whole = number;
    member.largest = std::max(member.largest.value_or(0), number);
}

void set_number(JsonMember& member, double number, bool keeps_text) {
    // 1.0 and 1e3 are whole numbers as well.
    if (std::floor(number) == number && std::abs(number) <= kExactMax) {
        set_integer(member, static_cast<std::int64_t>(number), keeps_text);
        return;
    }
    member.kind = JsonMember::Kind::number;
    member.number = number;
    if (keeps_text) set_text(member, number);
}

// `"5"`, `" 5 "`, `"+5.0"` and `"1_000"`, which readers that are not strict take for numbers,
// whatever white space is around them and however many zeros they have.
void count_text(JsonMember& member) {
    // Names of models and prompts: most begin with a letter, as no number but `inf` and `nan` does.
    if (member.text.empty() || is_lower(to_lower(member.text.front()))) return;
    std::string text(without_outer_blanks(member.text));
    std::erase(text, '_');
    const char* begin = text.data();
    const char* const end = begin + text.size();
    if (begin != end && *begin == '+') ++begin;
    double number = -1;
    const auto [stop, fault] = std::from_chars(begin, end, number);
    if (fault != std::errc() || stop != end || std::floor(number) != number || number < 0 ||
        number > kExactMax) {
        return;
    }
    member.largest = std::max(member.largest.value_or(0), static_cast<std::int64_t>(number));
}

}  // namespace

// The same for a name of ASCII in each case.
std::size_t JsonPointers::mark_of(std::string_view name) {
    if (name.empty()) return 0;
    constexpr std::size_t kCase = 0x20;
    const std::size_t first = static_cast<unsigned char>(name.front()) | kCase;
    const std::size_t last = static_cast<unsigned char>(name.back()) | kCase;
    return (name.size() + 5 * first + 11 * last) % kMarks;
}

template <class Visit>
JsonPointers::Child JsonPointers::find(int parent, std::string_view name, bool is_ascii,
                                       Visit visit_other) const {
    const int marks = node(parent).marks;
    if (marks == kNone) return {};
    if (!is_ascii && letters_ == Case::ignored) return find_folded(parent, name, visit_other);
    const int first = marks_[static_cast<std::size_t>(marks)][mark_of(name)];
    if (first == kNone) return {};
    // Most marks are of one child.
    const Node& child = node(first);
    if (child.like_named == kNone && child.name == name) return {first, true};
    return find_marked(first, name, visit_other);
}

// Among the children from `first` on, which have the mark of `name`. Apart, so that find() is
// short.
template <class Visit>
[[gnu::noinline]] JsonPointers::Child JsonPointers::find_marked(int first, std::string_view name,
                                                                Visit visit_other) const {
    Child found;
    for (int child = first; child != kNone; child = node(child).like_named) {
        if (node(child).name == name) {
            found = {child, true};
        } else if (letters_ == Case::ignored && folds_to(name, folded(child))) {
            if (found.node == kNone) found.node = child;
            visit_other(child);
        }
    }
    return found;
}

// Of a name with letters beyond ASCII, some of which fold to one of ASCII. Rare.
template <class Visit>
[[gnu::noinline]] JsonPointers::Child JsonPointers::find_folded(int parent, std::string_view name,
                                                                Visit visit_other) const {
    Child found;
    const std::string wanted = fold_case(name);
    for (int child = node(parent).first_child; child != kNone; child = node(child).sibling) {
        if (node(child).name == name) {
            found = {child, true};
        } else if (folded(child) == wanted) {
            if (found.node == kNone) found.node = child;
            visit_other(child);
        }
    }
    return found;
}

// What Boost.JSON's parser calls. Follows the pointers through the document: `open_` has the
// containers on the way that a pointer goes through, and `ignored_` counts those inside of them
// that no pointer goes into.
class JsonReader::Handler {
  public:
    static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
    using Error = json::error_code;

    // For the next reader.
    void serve(const JsonPointers& pointers, Options options, OnDocument on_document) {
        pointers_ = &pointers;
        options_ = options;
        on_document_ = std::move(on_document);
        pointer_count_ = pointers.size();
    }
    // Of the last reader.
    std::size_t pointer_count() const { return pointer_count_; }

    // Lets go of what another reader has no use for.
    void leave() {
        on_document_ = nullptr;
        clear_members();
    }

    void begin() {
        make_room();
        open_.clear();
        ignored_ = 0;
        next_ = 0;
        is_next_exact_ = true;
        in_name_ = false;
        in_text_ = false;
        other_case_of_ = nullptr;
        is_array_of_documents_ = false;
        begin_document();
    }

    // The document has ended, and there is nothing behind it.
    void end() {
        if (!is_array_of_documents_) on_document_(members_);
    }

    bool on_document_begin(json::error_code&) { return true; }
    bool on_document_end(json::error_code&) { return true; }

    bool on_object_begin(json::error_code&) {
        begin_container(JsonMember::Kind::object);
        return true;
    }
    bool on_object_end(std::size_t, json::error_code&) {
        end_container(0);
        return true;
    }
    bool on_array_begin(json::error_code&) {
        begin_container(JsonMember::Kind::array);
        return true;
    }
    bool on_array_end(std::size_t size, json::error_code&) {
        end_container(size);
        return true;
    }

    bool on_key_part(json::string_view part, std::size_t, json::error_code&) {
        if (ignored_ > 0) return true;
        if (!std::exchange(in_name_, true)) name_.clear();
        add_to_name(part);
        return true;
    }
    bool on_key(json::string_view part, std::size_t size, json::error_code&) {
        if (ignored_ > 0) return true;
        std::string_view name(part.data(), part.size());
        if (std::exchange(in_name_, false)) {
            add_to_name(part);
            name = name_;
        }
        next_ = JsonPointers::kNone;
        if (size <= pointers_->longest_name_) find_name(name, is_ascii(name));
        return true;
    }

    // For WholeJson.
    bool ignores() const { return ignored_ > 0; }
    bool wants_value() { return node_of_value() != JsonPointers::kNone; }
    void pass_value() { end_value(); }
    void on_name(std::string_view name, bool is_ascii_name) {
        next_ = JsonPointers::kNone;
        if (name.size() <= pointers_->longest_name_) find_name(name, is_ascii_name);
    }

    bool on_string_part(json::string_view part, std::size_t size, json::error_code&) {
        add_to_text(part, size);
        return true;
    }
    bool on_string(json::string_view part, std::size_t size, json::error_code&) {
        add_to_text(part, size);
        in_text_ = false;
        if (options_.counts_texts && text_member_ != nullptr) count_text(*text_member_);
        end_value();
        return true;
    }

    bool on_number_part(json::string_view part, json::error_code&) {
        if (wants_value()) add_to_number(part);
        return true;
    }
    bool on_int64(std::int64_t number, json::string_view, json::error_code&) {
        if (JsonMember* member = begin_value())
            set_integer(*member, number, options_.keeps_number_texts);
        end_number();
        return true;
    }
    // Above the largest int64.
    bool on_uint64(std::uint64_t number, json::string_view, json::error_code&) {
        if (JsonMember* member = begin_value()) {
            set_number(*member, static_cast<double>(number), false);
            if (options_.keeps_number_texts) set_text(*member, number);
        }
        end_number();
        return true;
    }
    bool on_double(double number, json::string_view part, json::error_code&) {
        if (JsonMember* member = begin_value()) {
            add_to_number(part);
            set_number(*member, nearest(number), options_.keeps_number_texts);
            if (number_.size() > kNumberMax) member->ambiguous = true;
        }
        end_number();
        return true;
    }
    bool on_bool(bool value, json::error_code&) {
        if (JsonMember* member = begin_value()) {
            member->kind = JsonMember::Kind::boolean;
            member->text = value ? "true" : "false";
        }
        end_value();
        return true;
    }
    bool on_null(json::error_code&) {
        if (JsonMember* member = begin_value()) member->kind = JsonMember::Kind::null;
        end_value();
        return true;
    }
    bool on_comment_part(json::string_view, json::error_code&) { return true; }
    bool on_comment(json::string_view, json::error_code&) { return true; }

  private:
    struct Container {
        int node;
        bool is_array = false;
        bool is_exact = true;  // no name on the way to it is in another case
        std::uint32_t elements = 0;
    };

    // A stream may last for minutes before its first document, and needs no room until then.
    void make_room() {
        const std::size_t nodes = pointers_->nodes_.size();
        if (members_.size() == pointer_count_ && last_seen_.size() == nodes) return;
        members_.resize(pointer_count_);
        touched_.resize(pointer_count_);
        last_touched_.resize(pointer_count_);
        last_seen_.resize(nodes);
    }

    void begin_document() {
        ++document_;
        number_.clear();
        clear_members();
    }

    // A document has few of the members that are looked for.
    void clear_members() {
        constexpr std::size_t kTextKept = 256;
        for (const std::size_t place : std::span(touched_).first(touched_count_)) {
            members_[place].clear(kTextKept);
        }
        touched_count_ = 0;
    }

    // The node of the name that was read. Of pointers that differ in case only, the one that is
    // written like the name is followed.
    void find_name(std::string_view name, bool is_ascii_name) {
        const Container& object = open_.back();
        const auto found = pointers_->find(object.node, name, is_ascii_name,
                                           [this](int node) { mark_ambiguous(node); });
        next_ = found.node;
        is_next_exact_ = object.is_exact && found.is_exact;
    }

    // The node of the value that begins, or kNone.
    int node_of_value() {
        if (ignored_ > 0) return JsonPointers::kNone;
        return open_.empty() || !open_.back().is_array ? next_ : node_of_element();
    }

    // Apart, so that the way of most values, which are members, is short.
    [[gnu::noinline]] int node_of_element() {
        const Container& array = open_.back();
        if (is_array_of_documents_ && open_.size() == 1) return 0;
        if (pointers_->node(array.node).first_child == JsonPointers::kNone) {
            return JsonPointers::kNone;
        }
        std::array<char, 12> digits;
        const char* const end =
            std::to_chars(digits.data(), digits.data() + digits.size(), array.elements).ptr;
        return pointers_->child_of(array.node,
                                   {digits.data(), static_cast<std::size_t>(end - digits.data())});
    }

    // Whether each name on the way to the value that begins is written as in the pointers.
    bool is_exact() const {
        if (open_.empty() || !open_.back().is_array) return is_next_exact_;
        return open_.back().is_exact;
    }

    JsonMember* member_of(int node) {
        const int pointer = pointers_->node(node).pointer;
        if (pointer == JsonPointers::kNone) return nullptr;
        const auto place = static_cast<std::size_t>(pointer);
        if (std::exchange(last_touched_[place], document_) != document_) {
            touched_[touched_count_++] = place;
        }
        return &members_[place];
    }

    // The member that keeps the value which begins, cleared; null if no pointer names it.
    JsonMember* begin_value() { return begin_value(node_of_value()); }
    JsonMember* begin_value(int node) {
        if (node == JsonPointers::kNone) return nullptr;
        if (!is_exact()) return begin_other_case(node);
        if (std::exchange(last_seen_[static_cast<std::size_t>(node)], document_) == document_) {
            begin_again(node);
        }
        JsonMember* const member = member_of(node);
        if (member == nullptr) return nullptr;
        member->too_long = false;
        member->size = 0;
        member->whole.reset();
        member->text.clear();
        return member;
    }

    // Of a value whose name is in another case only a number counts, for the largest. Rare: apart,
    // so that begin_value() is short.
    [[gnu::noinline]] JsonMember* begin_other_case(int node) {
        mark_ambiguous(node);
        other_case_of_ = member_of(node);
        other_case_ = JsonMember{};
        return other_case_of_ == nullptr ? nullptr : &other_case_;
    }

    void end_value() {
        if (other_case_of_ != nullptr) end_other_case();
        if (ignored_ == 0 && !open_.empty() && open_.back().is_array) ++open_.back().elements;
    }

    [[gnu::noinline]] void end_other_case() {
        JsonMember& member = *std::exchange(other_case_of_, nullptr);
        member.largest = std::max(member.largest, other_case_.largest);
    }

    template <class Visit>
    void for_each_child(int node, Visit visit) {
        for (int child = pointers_->node(node).first_child; child != JsonPointers::kNone;
             child = pointers_->node(child).sibling) {
            visit(child);
        }
    }

    void mark_ambiguous(int node) {
        if (JsonMember* const member = member_of(node)) member->ambiguous = true;
        for_each_child(node, [this](int child) { mark_ambiguous(child); });
    }

    // A value whose name occurs twice replaces the object that the first one was, with its members.
    [[gnu::noinline]] void begin_again(int node) {
        mark_ambiguous(node);
        forget_below(node);
    }

    void forget_below(int node) {
        for_each_child(node, [this](int child) {
            if (JsonMember* const member = member_of(child);
                member != nullptr && member->kind != JsonMember::Kind::absent) {
                const auto largest = member->largest;
                *member = JsonMember{};
                member->ambiguous = true;
                member->largest = largest;
                member->kind = JsonMember::Kind::null;
            }
            forget_below(child);
        });
    }

    void begin_container(JsonMember::Kind kind) {
        if (ignored_ > 0) {
            ++ignored_;
            return;
        }
        const int node = node_of_value();
        if (JsonMember* member = begin_value(node)) member->kind = kind;
        other_case_of_ = nullptr;
        if (node == JsonPointers::kNone) {
            ++ignored_;
            return;
        }
        const bool is_array = kind == JsonMember::Kind::array;
        if (open_.empty() && is_array && options_.elements_are_documents) {
            is_array_of_documents_ = true;
            begin_document();
        }
        open_.push_back({node, is_array, is_exact()});
        next_ = JsonPointers::kNone;
    }

    void end_container(std::size_t size) {
        if (ignored_ > 0) {
            --ignored_;
        } else {
            const Container ended = open_.back();
            open_.pop_back();
            if (ended.is_array && ended.is_exact) {
                if (JsonMember* member = member_of(ended.node)) {
                    member->size =
                        static_cast<std::uint32_t>(std::min<std::size_t>(size, 0xffffffff));
                }
            }
            if (is_array_of_documents_ && open_.size() == 1) end_element();
        }
        end_value();
    }

    // The element that has ended was a document.
    [[gnu::noinline]] void end_element() {
        on_document_(members_);
        begin_document();
    }

    void add_to_name(json::string_view part) {
        // One byte too many is as good as all: no pointer has that name.
        const std::size_t room =
            pointers_->longest_name_ + 1 - std::min(name_.size(), pointers_->longest_name_ + 1);
        name_.append(part.data(), std::min(part.size(), room));
    }

    void add_to_number(json::string_view part) {
        number_.append(part.data(), std::min(part.size(), kNumberMax + 1 - number_.size()));
    }

    // The double next to the number that was read. Boost.JSON may return another one, so that a
    // large whole number looked like a fraction. A number that is too long to tell may be any: it
    // is as large as can be.
    double nearest(double number) const {
        if (number_.size() > kNumberMax) return kExactMax;
        std::from_chars(number_.data(), number_.data() + number_.size(), number);
        return number;
    }

    void end_number() {
        number_.clear();
        end_value();
    }

    // `size` is that of the text so far.
    void add_to_text(json::string_view part, std::size_t size) {
        if (!in_text_) {
            in_text_ = true;
            text_member_ = begin_value();
            if (text_member_ == &other_case_ && !options_.counts_texts) text_member_ = nullptr;
            if (text_member_ != nullptr) text_member_->kind = JsonMember::Kind::text;
        }
        if (text_member_ == nullptr) return;
        std::string& text = text_member_->text;
        text.append(part.data(), std::min(part.size(), options_.text_max - text.size()));
        text_member_->too_long = size > options_.text_max;
    }

    const JsonPointers* pointers_ = nullptr;
    std::size_t pointer_count_ = 0;
    Options options_;
    OnDocument on_document_;
    Members members_;
    std::uint64_t document_ = 0;               // counts documents
    std::vector<std::uint64_t> last_touched_;  // by pointer: the last document that may have it
    // The pointers that this document may have: the first so many. It has each once, so there is
    // room for all.
    std::vector<std::size_t> touched_;
    std::size_t touched_count_ = 0;
    std::vector<std::uint64_t> last_seen_;  // by node: the last document that has it
    boost::container::static_vector<Container, kDepthMax> open_;
    std::size_t ignored_ = 0;
    int next_ = 0;               // the node of the value behind the name that was read last
    bool is_next_exact_ = true;  // and whether the name is written as in the pointers
    JsonMember other_case_;      // the value that begins, if it is not
    JsonMember* other_case_of_ = nullptr;
    bool is_array_of_documents_ = false;
    bool in_name_ = false;
    bool in_text_ = false;
    JsonMember* text_member_ = nullptr;
    std::string name_;
    std::string number_;  // as it is written
};

struct JsonReader::Parser {
    static json::parse_options options() {
        json::parse_options options;
        options.max_depth = kDepthMax;
        return options;
    }

    // Making a parser costs about as much as reading 2 KiB with it, so each thread keeps those that
    // its readers are done with.
    static std::vector<std::unique_ptr<Parser>>& kept() {
        static thread_local std::vector<std::unique_ptr<Parser>> parsers;
        return parsers;
    }
    // One that has room for so many members: readers of other pointers come between.
    static std::unique_ptr<Parser> take(std::size_t pointers) {
        const auto found = std::find_if(kept().begin(), kept().end(), [pointers](const auto& one) {
            return one->parser.handler().pointer_count() == pointers;
        });
        if (found == kept().end()) return std::make_unique<Parser>();
        std::unique_ptr<Parser> parser = std::move(*found);
        *found = std::move(kept().back());
        kept().pop_back();
        return parser;
    }
    static void keep(std::unique_ptr<Parser> parser) {
        constexpr std::size_t kMost = 16;
        if (kept().size() == kMost) kept().erase(kept().begin());
        parser->reset();
        parser->parser.handler().leave();
        kept().push_back(std::move(parser));
    }

    Parser() : parser(options()) {}

    void reset() {
        parser.reset();
        fault = Fault::none;
        has_begun = false;
        is_whole = false;
    }

    // Whether this first piece is the whole document, and was read. If a document comes in several
    // pieces, the first seldom ends with a brace, so the attempt is seldom in vain.
    bool read_whole(std::string_view piece) {
        static_assert(std::size_t{WholeJson<Handler>::kDepthMax} <= JsonReader::kDepthMax);
        const std::size_t last = piece.find_last_not_of(" \t\r\n");
        if (has_begun || last == piece.npos || piece[last] != '}') return false;
        parser.handler().begin();
        is_whole = WholeJson<Handler>(parser.handler()).read(piece);
        has_begun = is_whole;
        return is_whole;
    }
    bool done() const { return is_whole || parser.done(); }

    void write(bool more, std::string_view piece) {
        if (fault != Fault::none || (more && read_whole(piece))) return;
        if (!has_begun) parser.handler().begin();
        has_begun = true;
        json::error_code ec;
        std::size_t read = 0;
        // Boost.JSON would begin another document.
        if (!done()) read = parser.write_some(more, piece.data(), piece.size(), ec);
        if (!ec && !is_white_space(piece.substr(read))) ec = json::error::extra_data;
        if (ec) fault = ec == json::error::too_deep ? Fault::too_deep : Fault::not_json;
    }

    static bool is_white_space(std::string_view text) {
        return text.find_first_not_of(" \t\r\n") == text.npos;
    }

    json::basic_parser<Handler> parser;
    Fault fault = Fault::none;
    bool has_begun = false;  // a byte or the end of the document was read
    bool is_whole = false;   // all of it was read, by WholeJson
};

JsonReader::JsonReader(const JsonPointers& pointers, Options options, OnDocument on_document)
    : parser_(Parser::take(pointers.size())) {
    parser_->parser.handler().serve(pointers, options, std::move(on_document));
}

JsonReader::~JsonReader() {
    Parser::keep(std::move(parser_));
}

void JsonReader::read(std::string_view piece) {
    if (!piece.empty()) parser_->write(true, piece);
}

JsonReader::Fault JsonReader::end() {
    if (!parser_->done()) parser_->write(false, {});
    const Fault fault = parser_->fault;
    if (fault == Fault::none) parser_->parser.handler().end();
    forget();
    return fault;
}

void JsonReader::forget() {
    parser_->reset();
}

}  // namespace tidegate::usage
