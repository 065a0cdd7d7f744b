// Text of ASCII, whatever the locale: its characters, decimal and hexadecimal numbers in it, and
// eight bytes of it at a time. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace tidegate {

constexpr bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

constexpr bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}

constexpr bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

constexpr bool is_alphanumeric(char c) {
    return is_digit(c) || is_upper(c) || is_lower(c);
}

constexpr char to_lower(char c) {
    return is_upper(c) ? static_cast<char>(c | 0x20) : c;
}

constexpr char to_upper(char c) {
    return is_lower(c) ? static_cast<char>(c & ~0x20) : c;
}

// Whether one of its characters is a control of ASCII: below the space, or DEL.
inline bool has_control(std::string_view text) {
    return std::any_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
}

inline std::string to_lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](char c) { return to_lower(c); });
    return text;
}

inline std::string to_upper(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](char c) { return to_upper(c); });
    return text;
}

// Cuts off the spaces and tabs at both ends (the OWS of RFC 9110 section 5.6.3).
constexpr std::string_view trimmed(std::string_view text) {
    const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
    while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
    while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    return text;
}

// Takes what is before `separator` off the front of `text`, and the separator; all of `text` when
// there is none.
constexpr std::string_view take_until(std::string_view& text, char separator) {
    const std::string_view taken = text.substr(0, text.find(separator));
    text = text.substr(std::min(taken.size() + 1, text.size()));
    return taken;
}

// The number that all of `text` writes in decimal; nothing when it is anything else or does not
// fit. Only a signed number may have a `-`. Leading zeros are fine: parse_decimal()
// (base/units.hpp) is stricter.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const char* const end = text.data() + text.size();
    const auto [stopped, ec] = std::from_chars(text.data(), end, number);
    if (ec != std::errc{} || stopped != end) return std::nullopt;
    return number;
}

// `00` to `99`.
inline constexpr auto kDecimalPairs = [] {
    std::array<std::array<char, 2>, 100> pairs{};
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        pairs[i] = {static_cast<char>('0' + i / 10), static_cast<char>('0' + i % 10)};
    }
    return pairs;
}();

// The digits of a number, without its sign.
class DecimalDigits {
  public:
    explicit DecimalDigits(std::uint64_t number) {
        while (number >= 10) {
            begin_ -= 2;
            std::memcpy(digits_.data() + begin_, kDecimalPairs[number % 100].data(), 2);
            number /= 100;
        }
        if (number > 0 || begin_ == kMost) digits_[--begin_] = static_cast<char>('0' + number);
    }
    std::string_view text() const { return {digits_.data() + begin_, kMost - begin_}; }

    static constexpr std::size_t kMost = 20;

  private:
    std::array<char, kMost> digits_;
    std::size_t begin_ = kMost;
};

// Appends the digits of a whole number, with `-` before them where it is below zero.
template <std::integral Number>
void append_number(Number number, std::string& out) {
    const auto bits = static_cast<std::uint64_t>(number);
    if (number < 0) out += '-';
    out += DecimalDigits(number < 0 ? 0 - bits : bits).text();
}

// Appends many short texts to a string, into room that is made once: an append of its own costs
// more than the few bytes. Until the end of its life nothing else may use the string.
class TextTail {
  public:
    // Requires that no more than `room` bytes are put.
    TextTail(std::string& out, std::size_t room) : out_(out) {
        const std::size_t size = out.size();
        out.resize(size + room);
        at_ = out.data() + size;
    }
    TextTail(const TextTail&) = delete;
    TextTail& operator=(const TextTail&) = delete;
    ~TextTail() { out_.resize(static_cast<std::size_t>(at_ - out_.data())); }

    void put(std::string_view text) {
        std::memcpy(at_, text.data(), text.size());
        at_ += text.size();
    }
    void put(char c) { *at_++ = c; }
    // Requires number >= 0.
    void put_number(std::int64_t number) {
        put(DecimalDigits(static_cast<std::uint64_t>(number)).text());
    }

  private:
    std::string& out_;
    char* at_;
};

// The shortest digits that read back as the same number.
template <std::floating_point Number>
void append_number(Number number, std::string& out) {
    char digits[32];
    const char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    out.append(digits, static_cast<std::size_t>(end - digits));
}

inline constexpr std::string_view kHexDigits = "0123456789abcdef";
inline constexpr std::string_view kUpperHexDigits = "0123456789ABCDEF";

// The value of a digit in either case, or -1.
constexpr int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

// The byte that the digits `high` and `low` write, or -1.
constexpr int hex_byte(char high, char low) {
    const int upper = hex_value(high);
    const int lower = hex_value(low);
    return upper < 0 || lower < 0 ? -1 : upper << 4 | lower;
}

inline void append_hex(std::uint8_t byte, std::string& out, std::string_view digits = kHexDigits) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
}

// Sixteen digits.
inline void append_hex64(std::uint64_t number, std::string& out) {
    static constexpr auto kPairs = [] {
        std::array<std::array<char, 2>, 256> pairs{};
        for (std::size_t i = 0; i < pairs.size(); ++i) {
            pairs[i] = {kHexDigits[i >> 4], kHexDigits[i & 15]};
        }
        return pairs;
    }();
    std::array<char, 16> text;
    for (std::size_t i = text.size(); i > 0; number >>= 8) {
        const auto& pair = kPairs[number & 255];
        text[--i] = pair[1];
        text[--i] = pair[0];
    }
    out.append(text.data(), text.size());
}

template <std::size_t kBytes>
constexpr std::array<char, 2 * kBytes> hex_of(const std::array<unsigned char, kBytes>& bytes) {
    std::array<char, 2 * kBytes> text{};
    for (std::size_t i = 0; i < kBytes; ++i) {
        text[2 * i] = kHexDigits[bytes[i] >> 4];
        text[2 * i + 1] = kHexDigits[bytes[i] & 15];
    }
    return text;
}

inline void append_hex(std::span<const unsigned char> bytes, std::string& out) {
    for (const unsigned char byte : bytes) append_hex(byte, out);
}

// `%2F`: with capitals, as RFC 3986 section 2.1 wants.
inline void append_percent_encoded(char c, std::string& out) {
    out += '%';
    append_hex(static_cast<std::uint8_t>(c), out, kUpperHexDigits);
}

// Loads as many bytes as the number has, in the machine's own order: two numbers are equal if their
// bytes are.
template <class Word>
constexpr Word load_word(const char* bytes) {
    Word word = 0;
    if (std::is_constant_evaluated()) {
        for (std::size_t i = 0; i < sizeof(Word); ++i) {
            const std::size_t shift =
                8 * (std::endian::native == std::endian::little ? i : sizeof(Word) - 1 - i);
            word |= static_cast<Word>(Word{static_cast<std::uint8_t>(bytes[i])} << shift);
        }
    } else {
        std::memcpy(&word, bytes, sizeof(Word));
    }
    return word;
}

// The number whose bytes stand at `at`, the first one the highest. Requires all of them.
template <class Unsigned>
constexpr Unsigned big_endian(std::string_view bytes, std::size_t at = 0) {
    std::uint64_t number = 0;
    for (std::size_t i = at; i < at + sizeof(Unsigned); ++i) {
        number = number << 8 | static_cast<unsigned char>(bytes[i]);
    }
    return static_cast<Unsigned>(number);
}

constexpr std::uint64_t each_byte(std::uint8_t byte) {
    return byte * std::uint64_t{0x0101010101010101};
}

// Sets the high bit of each byte that is `first` to `last`, which are ASCII; no other bits.
constexpr std::uint64_t bytes_in(std::uint64_t word, char first, char last) {
    // The high bit of a byte of these tells whether it is at least `first`, and above `last`.
    const std::uint64_t rest = word & each_byte(0x7f);
    const std::uint64_t from_first = rest + each_byte(static_cast<std::uint8_t>(0x80 - first));
    const std::uint64_t above_last = rest + each_byte(static_cast<std::uint8_t>(0x7f - last));
    return (from_first ^ above_last) & ~word & each_byte(0x80);
}

// Turns the letters A to Z into lower case.
constexpr std::uint64_t to_lower(std::uint64_t word) {
    return word | bytes_in(word, 'A', 'Z') >> 2;
}

// Puts `other` in place of each byte that is neither a digit nor a letter in lower case.
constexpr std::uint64_t replace_others(std::uint64_t word, char other) {
    const std::uint64_t kept = bytes_in(word, 'a', 'z') | bytes_in(word, '0', '9');
    const std::uint64_t whole = (kept << 1) - (kept >> 7);  // all bits of those bytes
    return (word & whole) | (each_byte(static_cast<std::uint8_t>(other)) & ~whole);
}

// How many bytes at the beginning of the text are printable ASCII, 0x20 to 0x7e; it skips the last
// ones if they fill no word.
constexpr std::size_t printable_size(std::string_view text) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    constexpr bool kFirstIsLow = std::endian::native == std::endian::little;
    std::size_t size = 0;
    for (; text.size() - size >= kWord; size += kWord) {
        const auto word = load_word<std::uint64_t>(text.data() + size);
        const std::uint64_t others = ~bytes_in(word, ' ', '~') & each_byte(0x80);
        if (others == 0) continue;
        const int bits = kFirstIsLow ? std::countr_zero(others) : std::countl_zero(others);
        return size + static_cast<std::size_t>(bits) / 8;
    }
    return size;
}

// Whether `value` is `pattern`, in which each `*` stands for any text, also none. Each part between
// two `*` is taken at the first place where it fits, which leaves most room for those behind it.
inline bool matches_wildcard(std::string_view pattern, std::string_view value) {
    std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return pattern == value;
    if (!value.starts_with(pattern.substr(0, star))) return false;
    value.remove_prefix(star);
    for (;;) {
        pattern.remove_prefix(star + 1);
        star = pattern.find('*');
        if (star == std::string_view::npos) return value.ends_with(pattern);
        const std::size_t at = value.find(pattern.substr(0, star));
        if (at == std::string_view::npos) return false;
        value.remove_prefix(at + star);
    }
}

// The hash of a map of texts in which views are looked up; it goes with std::equal_to<>.
struct TextHash : std::hash<std::string_view> {
    using is_transparent = void;
};

// Empties a text or a list for its next use. One of unusual size gives its room back.
template <class Container>
void clear_for_reuse(Container& container, std::size_t capacity_kept = 65'536) {
    container.clear();
    if (container.capacity() > capacity_kept) container.shrink_to_fit();
}

// Empties `text` and frees its memory. To assign an empty text would keep it for the next one.
inline void free_text(std::string& text) {
    std::string().swap(text);
}

}  // namespace tidegate
