// Letters without their case, for paths and names that a server may compare so. Pure; any thread.
//
// Servers differ in which letters they take for the same: some know ASCII only, some all of
// Unicode, some the Turkish ones as well. Two texts fold to the same bytes if any of them could
// take them for the same: ASCII, Unicode 14's simple lower, upper and title case and its case
// folding, dotless and dotted i as i, ligatures and sharp s as the letters they stand for. A byte
// that is not UTF-8 is read as Latin-1.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tidegate {

// Whether folding could change the text: an ASCII capital, or anything beyond ASCII.
bool may_fold(std::string_view text);

// Writes `text` folded to `out`, which has room for text.size() bytes. Returns the bytes written,
// never more than those, and never less than a third.
std::size_t fold_case(std::string_view text, char* out);
std::string fold_case(std::string_view text);

// The same for all but ASCII, which stays as it is.
std::string fold_beyond_ascii(std::string_view text);

}  // namespace tidegate
