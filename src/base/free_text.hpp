// Gives back the memory of a text that is not needed any more.
#pragma once

#include <string>

namespace tidegate {

// Empties `text` and frees its memory. To assign an empty text would keep it for the next one.
inline void free_text(std::string& text) {
    std::string().swap(text);
}

}  // namespace tidegate
