// Where the files are that tests read. Only places.cpp is compiled with these paths, so a compiler
// cache serves every checkout.
#pragma once

#include <string>

namespace tidegate::test {

// The root of the checkout, absolute, without a slash at its end.
std::string source_folder();

// The program of this build; it may not be built yet.
std::string built_program();

}  // namespace tidegate::test
