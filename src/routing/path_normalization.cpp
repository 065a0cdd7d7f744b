#include "routing/path_normalization.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>

#include "base/text.hpp"

namespace tidegate::routing {
namespace {

enum class Class : std::uint8_t { plain, cased, forbidden, percent, slash, backslash, semicolon };

constexpr std::array<Class, 256> make_classes() {
    std::array<Class, 256> classes{};
    for (std::size_t c = 0; c <= ' '; ++c) classes[c] = Class::forbidden;
    classes[0x7f] = classes['?'] = classes['#'] = Class::forbidden;
    for (std::size_t c = 'A'; c <= 'Z'; ++c) classes[c] = Class::cased;
    for (std::size_t c = 0x80; c <= 0xff; ++c) classes[c] = Class::cased;
    classes['%'] = Class::percent;
    classes['/'] = Class::slash;
    classes['\\'] = Class::backslash;
    classes[';'] = Class::semicolon;
    return classes;
}
constexpr std::array<Class, 256> kClasses = make_classes();

Class class_of(char c) {
    return kClasses[static_cast<std::uint8_t>(c)];
}

// Returns the byte that the `%xx` at `at` encodes, or -1 when it is malformed.
int encoded_byte(std::string_view text, std::size_t at) {
    if (text.size() - at < 3) return -1;
    return hex_byte(text[at + 1], text[at + 2]);
}

// Holds one byte of a path, decoded.
struct Unit {
    char c;
    bool encoded;
};

// Takes the next unit off a path that examine_path() found well-formed.
Unit take_unit(std::string_view text, std::size_t& at) {
    if (text[at] != '%') return {text[at++], false};
    const int byte = encoded_byte(text, at);
    at += 3;
    return {static_cast<char>(byte), true};
}

// Says whether a segment may hold the byte as it is (RFC 3986 section 3.3).
bool is_segment_char(char c) {
    return is_alphanumeric(c) ||
           std::string_view("-._~!$&'()*+,;=:@").find(c) != std::string_view::npos;
}

// Follows segments through anything that some server takes for their end.
class SegmentScan {
  public:
    void separator() {
        // The first separator opens the path; two in a row hold an empty segment between them.
        if (!first_ && length_ == 0) features_ |= kEmptySegments;
        end_segment();
        first_ = false;
    }
    // Some servers throw away the text from a `;` up to a separator, with the `;` itself.
    void parameters() {
        features_ |= kParameters;
        if (length_ == 0) features_ |= kEmptySegments;
        end_segment();
        length_ = 1;
    }
    void character(char c) {
        dots_ = c == '.' && (length_ == 0 || dots_);
        ++length_;
    }
    std::uint8_t end() {
        end_segment();
        return features_;
    }

  private:
    void end_segment() {
        if (dots_ && length_ <= 2) features_ |= kDotSegments;
        dots_ = false;
        length_ = 0;
    }

    std::size_t length_ = 0;
    bool dots_ = false;
    bool first_ = true;
    std::uint8_t features_ = 0;
};

// Finds the features of a path that is well-formed but not plain.
std::uint8_t features_of(std::string_view path) {
    SegmentScan scan;
    std::uint8_t features = 0;
    for (std::size_t at = 0; at < path.size();) {
        const Unit unit = take_unit(path, at);
        if (unit.encoded) features |= kEncoded;
        switch (class_of(unit.c)) {
            case Class::slash:
                if (unit.encoded) features |= kEncodedSlash;
                scan.separator();
                break;
            case Class::backslash:
                features |= kBackslash;
                scan.separator();
                break;
            case Class::semicolon:
                scan.parameters();
                break;
            default:
                scan.character(unit.c);
                break;
        }
    }
    return features | scan.end();
}

enum class Parameters : std::uint8_t { keep, cut, cut_before_decoding };

// Describes how one kind of server reads a path.
struct Manner {
    bool slash_decoded = false;  // the server takes %2F for a separator
    bool backslash_separates = false;
    Parameters parameters = Parameters::keep;
    bool empty_merged = false;  // `//` is `/`
    bool dots_removed = true;   // RFC 3986 section 5.2.4
};

// Builds the text of one reading, segment by segment. Linear: `..` removes only text that was added
// once.
class PathReader {
  public:
    PathReader(std::string_view path, const Manner& manner) : path_(path), manner_(manner) {
        out_.reserve(path.size());
        out_ = "/";
    }

    std::string read() {
        for (std::size_t at = 1; at < path_.size();) {
            const Unit unit = take_unit(path_, at);
            if (unit.c == ';' && cuts(unit)) {
                at = skip_parameters(at);
            } else if (separates(unit)) {
                end_segment(true);
            } else if (unit.encoded && unit.c == '/') {
                out_ += "%2F";
            } else {
                out_ += unit.c;
            }
        }
        end_segment(false);
        return std::move(out_);
    }

  private:
    bool cuts(const Unit& unit) const {
        return manner_.parameters == Parameters::cut ||
               (manner_.parameters == Parameters::cut_before_decoding && !unit.encoded);
    }

    bool separates(const Unit& unit) const {
        if (unit.c == '/') return !unit.encoded || manner_.slash_decoded;
        return unit.c == '\\' && manner_.backslash_separates;
    }

    // Returns where the parameters that begin at `at` end: at a separator, or at the end.
    std::size_t skip_parameters(std::size_t at) const {
        if (manner_.parameters == Parameters::cut_before_decoding)
            return std::min(path_.find('/', at), path_.size());
        while (at < path_.size()) {
            std::size_t next = at;
            if (separates(take_unit(path_, next))) return at;
            at = next;
        }
        return at;
    }

    void end_segment(bool more) {
        const std::string_view segment = std::string_view(out_).substr(start_);
        if (manner_.dots_removed && (segment == "." || segment == "..")) {
            const bool up = segment.size() == 2;
            out_.resize(start_);
            // A `..` at the root leads to the root.
            if (up && start_ > 1) out_.resize(out_.rfind('/', start_ - 2) + 1);
        } else if (more && !(manner_.empty_merged && segment.empty())) {
            out_ += '/';
        }
        start_ = out_.size();
    }

    std::string_view path_;
    const Manner& manner_;
    std::string out_;
    std::size_t start_ = 1;  // of the segment being read; a `/` comes before it
};

// Returns the path as the client sent it, in one spelling: the function decodes the bytes that a
// path must encode, as these can mean nothing else, and writes the digits of the other encoded
// bytes in one case (RFC 3986 section 6.2.2.1).
std::string as_sent(std::string_view path) {
    std::string out;
    out.reserve(path.size());
    for (std::size_t at = 0; at < path.size();) {
        const Unit unit = take_unit(path, at);
        if (unit.encoded && (is_segment_char(unit.c) || unit.c == '/')) {
            append_percent_encoded(unit.c, out);
        } else {
            out += unit.c;
        }
    }
    return out;
}

void add_reading(std::string_view path, const Manner& manner, std::vector<PathReading>& readings) {
    std::string text = PathReader(path, manner).read();
    for (const PathReading& reading : readings)
        if (reading.text == text && reading.decoded == text) return;
    readings.push_back({text, text});
}

// Calls `each` with false and, if `possible`, with true.
template <class F>
void both(bool possible, F each) {
    each(false);
    if (possible) each(true);
}

// Returns the readings of servers that take the end of the path as it is.
std::vector<PathReading> readings_of(std::string_view path, const PathShape& shape) {
    const auto has = [&](PathFeature feature) { return (shape.features & feature) != 0; };
    std::vector<PathReading> readings;
    Manner untouched;
    untouched.dots_removed = false;
    readings.push_back({as_sent(path), PathReader(path, untouched).read()});

    both(has(kEncodedSlash), [&](bool slash) {
        both(has(kBackslash), [&](bool backslash) {
            both(has(kEmptySegments), [&](bool merged) {
                both(has(kDotSegments), [&](bool dots_kept) {
                    Manner manner{slash, backslash, Parameters::keep, merged, !dots_kept};
                    add_reading(path, manner, readings);
                    if (!has(kParameters)) return;
                    manner.parameters = Parameters::cut;
                    add_reading(path, manner, readings);
                    manner.parameters = Parameters::cut_before_decoding;
                    add_reading(path, manner, readings);
                });
            });
        });
    });
    return readings;
}

}  // namespace

PathShape examine_path(std::string_view path) {
    if (path.empty() || path.front() != '/') return {true, 0};
    bool plain = true;
    bool cased = false;
    char before = 'a';
    for (std::size_t at = 0; at < path.size(); ++at) {
        const char c = path[at];
        switch (class_of(c)) {
            case Class::plain:
                // A segment that begins with a dot may be a dot segment.
                if (c == '.' && before == '/') plain = false;
                break;
            case Class::cased:
                cased = true;
                break;
            case Class::forbidden:
                return {true, 0};
            case Class::percent:
                if (encoded_byte(path, at) <= 0) return {true, 0};
                plain = false;
                break;
            case Class::slash:
                if (before == '/') plain = false;
                break;
            case Class::backslash:
            case Class::semicolon:
                plain = false;
                break;
        }
        before = c;
    }
    return {false, plain ? std::uint8_t{0} : features_of(path), cased};
}

bool has_too_many_readings(const PathShape& shape) {
    return std::popcount(static_cast<std::uint8_t>(shape.features & ~kEncoded)) > kMixedFeaturesMax;
}

PathShape with_slash_kept(PathShape shape) {
    if ((shape.features & kDotSegments) == 0) {
        shape.features &= static_cast<std::uint8_t>(~kEncodedSlash);
    }
    return shape;
}

std::vector<PathReading> path_readings(std::string_view path, const PathShape& shape) {
    std::vector<PathReading> readings = readings_of(path, shape);
    // `$` of many regular expressions matches before a final newline, too: frameworks that route by
    // such expressions take `/a%0A` for `/a`.
    constexpr std::size_t kNewlineBytes = 3;
    if (path.size() <= kNewlineBytes) return readings;
    const std::size_t end = path.size() - kNewlineBytes;
    if (path[end] != '%' || encoded_byte(path, end) != '\n') return readings;
    for (PathReading& other : readings_of(path.substr(0, end), shape)) {
        const bool is_new =
            std::none_of(readings.begin(), readings.end(), [&](const PathReading& reading) {
                return reading.text == other.text && reading.decoded == other.decoded;
            });
        if (is_new) readings.push_back(std::move(other));
    }
    return readings;
}

std::optional<std::string> decode_segment(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] == '%' && encoded_byte(text, at) <= 0) return std::nullopt;
        const Unit unit = take_unit(text, at);
        if (unit.encoded && unit.c == '/')
            out += "%2F";
        else
            out += unit.c;
    }
    return out;
}

}  // namespace tidegate::routing
