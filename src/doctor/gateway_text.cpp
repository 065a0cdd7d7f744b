#include "doctor/gateway_text.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

namespace tidegate::doctor {

namespace {

constexpr std::size_t kDepthMax = 32;

class GatewayReader {
  public:
    enum class Syntax : std::uint8_t { nginx, caddy };

    GatewayReader(std::string_view text, Syntax syntax) : text_(text), syntax_(syntax) {}

    std::optional<Directives> read() {
        Directives all;
        return read_block(all, 0) ? std::optional(std::move(all)) : std::nullopt;
    }

  private:
    enum class Sign : std::uint8_t { word, end_of_directive, open, close, end_of_text, broken };

    bool is_caddy() const { return syntax_ == Syntax::caddy; }

    // Reads until the brace that closes the block; at depth 0, to the end. False: broken.
    bool read_block(Directives& out, std::size_t depth) {
        if (depth > kDepthMax) return false;
        Directive next;
        const auto finish = [&] {
            if (!next.words.empty()) out.push_back(std::move(next));
            next = {};
        };
        while (true) {
            const Sign sign = read_sign();
            switch (sign) {
                case Sign::word:
                    if (next.words.empty()) next.line = word_line_;
                    next.words.push_back(std::move(word_));
                    break;
                case Sign::end_of_directive:
                    finish();
                    break;
                case Sign::open:
                    if (!open_block(next, depth)) return false;
                    finish();
                    break;
                case Sign::close:
                case Sign::end_of_text:
                    // nginx ends each directive with `;`.
                    if (!next.words.empty() && !is_caddy()) return false;
                    finish();
                    return (sign == Sign::close) == (depth > 0);
                case Sign::broken:
                    return false;
            }
        }
    }

    bool open_block(Directive& of, std::size_t depth) {
        // The global options of a Caddyfile have no name.
        if (of.words.empty() && (!is_caddy() || depth > 0)) return false;
        if (of.words.empty()) of.words.emplace_back();
        if (of.name().ends_with("_by_lua_block")) return skip_lua();
        return read_block(of.block, depth + 1);
    }

    // Lua is not read: it has the same braces, as a rule.
    bool skip_lua() {
        for (std::size_t depth = 1; at_ < text_.size();) {
            const char c = take();
            if (c == '{') ++depth;
            if (c == '}' && --depth == 0) return true;
        }
        return false;
    }

    char take() {
        if (text_[at_] == '\n') ++line_;
        return text_[at_++];
    }

    bool is_blank_or_end(std::size_t at) const {
        return at >= text_.size() || text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\r' ||
               text_[at] == '\n';
    }

    // Whether the next character ends a word.
    bool is_at_end_of_word() const {
        if (is_blank_or_end(at_)) return true;
        return !is_caddy() && (text_[at_] == ';' || text_[at_] == '{');
    }

    Sign read_sign() {
        while (at_ < text_.size()) {
            const char c = text_[at_];
            if (c == '#') {
                while (at_ < text_.size() && text_[at_] != '\n') ++at_;
            } else if (c == '\n' && is_caddy()) {
                take();
                return Sign::end_of_directive;
            } else if (c == '\\' && is_caddy() && text_.substr(at_ + 1).starts_with('\n')) {
                take();
                take();
            } else if (is_blank_or_end(at_)) {
                take();
            } else {
                return read_visible();
            }
        }
        return Sign::end_of_text;
    }

    Sign read_visible() {
        const char c = text_[at_];
        // In a Caddyfile, `{host}` is a word.
        const bool is_alone = !is_caddy() || is_blank_or_end(at_ + 1);
        if ((c == '{' || c == '}') && is_alone) {
            take();
            return c == '{' ? Sign::open : Sign::close;
        }
        if (c == ';' && !is_caddy()) {
            take();
            return Sign::end_of_directive;
        }
        if (is_caddy() && text_.substr(at_).starts_with("<<")) return Sign::broken;  // a heredoc
        word_line_ = line_;
        word_.clear();
        const bool is_quoted = c == '"' || c == (is_caddy() ? '`' : '\'');
        return is_quoted ? read_quoted(take()) : read_plain();
    }

    Sign read_quoted(char quote) {
        while (at_ < text_.size()) {
            char c = take();
            if (c == quote) return Sign::word;
            if (c == '\\' && quote != '`' && at_ < text_.size()) {
                const char escaped = take();
                if (escaped != quote && escaped != '\\') word_ += c;
                c = escaped;
            }
            word_ += c;
        }
        return Sign::broken;
    }

    Sign read_plain() {
        while (!is_at_end_of_word()) {
            // `${name}` of nginx is one word, and so is a backslash with the next sign.
            const bool is_variable = !is_caddy() && text_.substr(at_).starts_with("${");
            const bool is_escape = !is_caddy() && text_[at_] == '\\' && at_ + 1 < text_.size();
            word_ += take();
            if (is_variable || is_escape) word_ += take();
        }
        return Sign::word;
    }

    std::string_view text_;
    Syntax syntax_;
    std::size_t at_ = 0;
    int line_ = 1;
    std::string word_;  // that was read last
    int word_line_ = 1;
};

}  // namespace

std::optional<Directives> read_nginx(std::string_view text) {
    return GatewayReader(text, GatewayReader::Syntax::nginx).read();
}

std::optional<Directives> read_caddyfile(std::string_view text) {
    return GatewayReader(text, GatewayReader::Syntax::caddy).read();
}

}  // namespace tidegate::doctor
