// `include`: other files with upstreams, policies and routes, which become part of a configuration.
#pragma once

#include <vector>

#include "config/config.hpp"
#include "config/value.hpp"

namespace tidegate::config {

// The files that `include` of the whole document names: sorted by the bytes of their paths, each
// once. Reports patterns that are wrong and files that cannot be read.
std::vector<IncludedFile> read_included(const TreeNode& document, Context& context);

// Makes the files part of the document, as if their upstreams, policies and routes were written
// there; their routes come first. The places of what comes from them name their file. Reports a
// name that is there twice, and keys that an included file may not have.
void merge_included(const std::vector<IncludedFile>& files, TreeNode& document, Context& context);

}  // namespace tidegate::config
