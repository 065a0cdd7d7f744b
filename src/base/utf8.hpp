// UTF-8 as far as a reader of foreign text needs it, and text of a client or a file made fit for a
// message. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidegate {

// Bytes of the first character of `text`; 0 when it is not UTF-8 (RFC 3629: no surrogates, no
// overlong forms, nothing above U+10FFFF). Requires a text that is not empty.
std::size_t utf8_length(std::string_view text);

bool is_utf8(std::string_view text);

// The longest beginning of `text` of at most `bytes_max` bytes that does not split a character.
std::string_view utf8_prefix(std::string_view text, std::size_t bytes_max);

// The character that `text` is, all of it. Requires that utf8_length(text) is its size.
char32_t code_point(std::string_view text);

// Whether a reader does not see the character, or a terminal obeys it: controls (C0, DEL, C1), line
// and paragraph separators, what turns the direction of writing, and whatever Unicode 15 lets a
// program leave out (Default_Ignorable_Code_Point: joiners, fillers, variation selectors, soft
// hyphens, tags), so that two texts with and without it look the same.
bool is_hidden(char32_t character);

// Whether it is a white space, or looks like one: U+0020, U+00A0, U+3000, U+2800 and the like.
bool is_blank(char32_t character);

// `text` without the characters at its ends that is_blank() or is_hidden(): what is left is the
// same to servers that cut off any white space, whichever they know, and to those that cut off
// none. In a text that is not UTF-8, the bytes 0x85 and 0xA0 are such characters, too, as in
// Latin-1.
std::string_view without_outer_blanks(std::string_view text);

// The length of the first character of `text` if is_hidden() says that a reader does not see it or
// that a terminal obeys it; else 0. Requires text that is not empty.
std::size_t misleading_bytes(std::string_view text);

// `text` with the bytes of such characters, and those that are not UTF-8, as `\x1b` and the like: a
// message stays one line, and commands no terminal.
std::string displayable(std::string_view text);

// Returns at most 60 bytes of `text`, displayable, in backquotes.
std::string quote(std::string_view text);

}  // namespace tidegate
