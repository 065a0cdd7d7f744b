// Reads a JSON object that is whole in memory, faster than a parser that takes pieces. Leaves what
// is uncommon to that parser. Pure.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace tidegate::usage {

// Calls the handler as Boost.JSON's parser would (its *Handler*), with these differences. Texts are
// one part, and names come by on_name(name, whether it is ASCII). The handler's `ignores()` says
// that it need not hear of what is in the container that began, and `wants_value()` whether it is
// to hear of the number or the text that comes; else it gets pass_value().
//
// read() returns false, and leaves the document to the other parser, if it is not whole, not JSON,
// not an object, or nested deeper than kDepthMax; if a name or a text that the handler needs has an
// escape; if a number that it needs is no plain integer; or if there is an escape of a surrogate or
// a long number. The handler has then seen a part: it must begin again.
//
// Boost.JSON copies a text byte by byte behind its first escape, and prompts have line breaks: most
// of its time goes there. This reader passes over texts that the handler does not need.
template <class Handler>
class WholeJson {
  public:
    static constexpr std::uint8_t kDepthMax = 60;

    explicit WholeJson(Handler& handler) : handler_(handler) {}

    // False: it leaves the document to the other parser.
    bool read(std::string_view text) {
        at_ = begin_ = text.data();
        end_ = at_ + text.size();
        skip_space();
        if (peek() != '{' || !container<true>(0)) return false;
        skip_space();
        return at_ == end_;
    }

  private:
    // 0, which begins nothing, behind the last byte.
    char peek() const { return at_ != end_ ? *at_ : '\0'; }

    // One comparison with ' ' rules out most bytes: documents of programs have little white space.
    void skip_space() {
        while (at_ != end_ && is_space(*at_)) ++at_;
    }
    static bool is_space(char byte) {
        constexpr std::uint64_t kSpaces = 1ULL << ' ' | 1ULL << '\n' | 1ULL << '\r' | 1ULL << '\t';
        const auto code = static_cast<unsigned char>(byte);
        return code <= ' ' && (kSpaces >> code & 1) != 0;
    }

    // `kTold`: this reader calls the handler for what is inside.
    template <bool kTold>
    bool container(int depth) {
        if (depth == kDepthMax) return false;
        const bool is_object = *at_++ == '{';
        std::size_t size = 0;
        if constexpr (kTold) {
            is_object ? handler_.on_object_begin(ignored_) : handler_.on_array_begin(ignored_);
            if (!handler_.ignores()) {
                if (!(is_object ? members<true>(depth) : elements<true>(depth, size))) return false;
            } else if (!(is_object ? members<false>(depth) : elements<false>(depth, size))) {
                return false;
            }
            is_object ? handler_.on_object_end(0, ignored_) : handler_.on_array_end(size, ignored_);
            return true;
        } else {
            return is_object ? members<false>(depth) : elements<false>(depth, size);
        }
    }

    template <bool kTold>
    bool members(int depth) {
        skip_space();
        if (peek() == '}') return ++at_, true;
        for (;;) {
            if (peek() != '"' || !name<kTold>()) return false;
            skip_space();
            if (peek() != ':') return false;
            ++at_;
            skip_space();
            if (!value<kTold>(depth)) return false;
            skip_space();
            const char behind = peek();
            if (behind != ',' && behind != '}') return false;
            ++at_;
            if (behind == '}') return true;
            skip_space();
        }
    }

    template <bool kTold>
    bool elements(int depth, std::size_t& size) {
        skip_space();
        if (peek() == ']') return ++at_, true;
        for (;;) {
            if (!value<kTold>(depth)) return false;
            ++size;
            skip_space();
            const char behind = peek();
            if (behind != ',' && behind != ']') return false;
            ++at_;
            if (behind == ']') return true;
            skip_space();
        }
    }

    template <bool kTold>
    bool value(int depth) {
        switch (peek()) {
            case '{':
            case '[':
                return container<kTold>(depth + 1);
            case '"':
                return text<kTold>();
            case 't':
                return literal<kTold>("true", [&] { handler_.on_bool(true, ignored_); });
            case 'f':
                return literal<kTold>("false", [&] { handler_.on_bool(false, ignored_); });
            case 'n':
                return literal<kTold>("null", [&] { handler_.on_null(ignored_); });
            default:
                return number<kTold>();
        }
    }

    template <bool kTold, class Tell>
    bool literal(std::string_view word, Tell tell) {
        if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) {
            return false;
        }
        at_ += word.size();
        if constexpr (kTold) tell();
        return true;
    }

    template <bool kTold>
    bool name() {
        const char* const begin = at_ + 1;
        if (!skip_text()) return false;
        if constexpr (kTold) {
            if (!is_plain_) return false;
            const auto size = static_cast<std::size_t>(at_ - 1 - begin);
            handler_.on_name({begin, size}, is_ascii_);
        }
        return true;
    }

    template <bool kTold>
    bool text() {
        const char* const begin = at_ + 1;
        if (!skip_text()) return false;
        if constexpr (kTold) {
            if (!handler_.wants_value()) return handler_.pass_value(), true;
            if (!is_plain_) return false;
            const auto size = static_cast<std::size_t>(at_ - 1 - begin);
            handler_.on_string({begin, size}, size, ignored_);
        }
        return true;
    }

    // To behind the text that begins here.
    bool skip_text() {
        is_plain_ = is_ascii_ = true;
        for (++at_;;) {
            skip_ascii();
            if (at_ != end_ && *at_ == '"') return ++at_, true;
            if (!skip_uncommon()) return false;
        }
    }

    // Apart, so that the way of most texts is short.
    [[gnu::noinline]] bool skip_uncommon() {
        const auto byte = static_cast<unsigned char>(peek());
        if (byte == '\\') {
            is_plain_ = false;
            return skip_escape();
        }
        if (byte < 0x80) return false;  // a control, or the end
        is_ascii_ = false;
        const std::size_t size = utf8_length({at_, static_cast<std::size_t>(end_ - at_)});
        at_ += size;
        return size > 0;
    }

    // To the next byte that is no ASCII or has a meaning in a text.
    void skip_ascii() {
        const char* at = at_;
#ifdef __SSE2__
        // Names, and most texts, end in the first bytes.
        constexpr int kShort = 3;
        for (int passed = 1; end_ - at >= Bytes::kSize; ++passed) {
            if (const unsigned found = Bytes(at).not_plain()) {
                at_ = at + std::countr_zero(found);
                return;
            }
            at += Bytes::kSize;
            if (passed == kShort) at = skip_long(at);
        }
        // The last bytes of a document, with those before them.
        if (end_ - begin_ >= Bytes::kSize) {
            const unsigned found =
                Bytes(end_ - Bytes::kSize).not_plain() >> (Bytes::kSize - (end_ - at));
            at_ = found != 0 ? at + std::countr_zero(found) : end_;
            return;
        }
#endif
        while (at != end_ && *at != '"' && *at != '\\' && static_cast<signed char>(*at) >= ' ')
            ++at;
        at_ = at;
    }

#ifdef __SSE2__
    // Sixteen bytes of a text, of which some are not plain: no ASCII, or with a meaning.
    struct Bytes {
        static constexpr std::ptrdiff_t kSize = 16;
        // Turns controls, the quote and bytes that are no ASCII to less than all others, so that
        // the least of several blocks says whether one has any.
        static constexpr char kTurn = '\x82';
        static constexpr char kQuoteTurned = '"' ^ kTurn;

        explicit Bytes(const char* at) {
            __m128i bytes;
            std::memcpy(&bytes, at, sizeof bytes);
            turned = _mm_xor_si128(bytes, _mm_set1_epi8(kTurn));
            backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
        }
        // As if both were one.
        Bytes operator&(const Bytes& other) const {
            Bytes both = *this;
            both.turned = _mm_min_epu8(turned, other.turned);
            both.backslash = _mm_or_si128(backslash, other.backslash);
            return both;
        }
        // A bit for each that is not plain.
        unsigned not_plain() const {
            const __m128i least = _mm_min_epu8(turned, _mm_set1_epi8(kQuoteTurned));
            const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(least, turned), backslash);
            return static_cast<unsigned>(_mm_movemask_epi8(found));
        }

        __m128i turned;
        __m128i backslash;
    };

    // Behind as many bytes of a long text as are plain, four blocks at a time.
    const char* skip_long(const char* at) const {
        constexpr std::ptrdiff_t kFour = 4 * Bytes::kSize;
        while (end_ - at >= kFour) {
            const Bytes all = Bytes(at) & Bytes(at + Bytes::kSize) & Bytes(at + 2 * Bytes::kSize) &
                              Bytes(at + 3 * Bytes::kSize);
            if (all.not_plain() != 0) break;
            at += kFour;
        }
        return at;
    }
#endif

    bool skip_escape() {
        const auto left = static_cast<std::size_t>(end_ - at_);
        constexpr std::string_view kLetters = "\"\\/bfnrt";
        if (left >= 2 && kLetters.find(at_[1]) != kLetters.npos) return at_ += 2, true;
        constexpr std::size_t kSize = 6;
        if (left < kSize || at_[1] != 'u') return false;
        const int high = hex_byte(at_[2], at_[3]);
        const int low = hex_byte(at_[4], at_[5]);
        const bool is_surrogate = high >= 0xd8 && high <= 0xdf;
        if (high < 0 || low < 0 || is_surrogate) return false;
        at_ += kSize;
        return true;
    }

    template <bool kTold>
    bool number() {
        constexpr std::ptrdiff_t kBytesMax = 32;
        constexpr std::ptrdiff_t kDigitsMax = 18;
        const char* const begin = at_;
        bool is_plain = peek() != '-';
        if (!is_plain) ++at_;
        const char* const digits = at_;
        std::int64_t number = 0;
        const char* at = digits;
        for (; at != end_ && is_digit(*at) && at - digits < kBytesMax; ++at) {
            if (at - digits < kDigitsMax) number = 10 * number + (*at - '0');
        }
        at_ = at;
        const std::ptrdiff_t count = at - digits;
        if (count == 0 || (*digits == '0' && count > 1)) return false;
        is_plain = is_plain && count <= kDigitsMax;
        if (peek() == '.') {
            is_plain = false;
            ++at_;
            if (skip_digits(kBytesMax) == 0) return false;
        }
        if (peek() == 'e' || peek() == 'E') {
            is_plain = false;
            ++at_;
            if (peek() == '+' || peek() == '-') ++at_;
            const std::ptrdiff_t power = skip_digits(kBytesMax);
            // What is beyond a double is for the other parser to judge.
            if (power == 0 || power > 2) return false;
        }
        if (at_ - begin >= kBytesMax) return false;
        if constexpr (kTold) {
            if (!handler_.wants_value()) return handler_.pass_value(), true;
            if (!is_plain) return false;
            handler_.on_int64(number, {begin, static_cast<std::size_t>(at_ - begin)}, ignored_);
        }
        return true;
    }

    std::ptrdiff_t skip_digits(std::ptrdiff_t most) {
        const char* const begin = at_;
        while (at_ != end_ && is_digit(*at_) && at_ - begin < most) ++at_;
        return at_ - begin;
    }

    Handler& handler_;
    typename Handler::Error ignored_{};
    const char* begin_ = nullptr;
    const char* at_ = nullptr;
    const char* end_ = nullptr;
    bool is_plain_ = true;  // the last text has no escape
    bool is_ascii_ = true;  // and no letter beyond ASCII
};

}  // namespace tidegate::usage
