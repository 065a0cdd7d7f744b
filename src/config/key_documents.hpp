// What all rows of keys together say: the JSON Schema of a configuration, the tables of
// docs/configuration.md, and what a reload cannot change. Any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/keys.hpp"

namespace tidegate::config {

// JSON Schema 2020-12, ends with a line end.
std::string schema_text();

// A table in Markdown of the keys at these places, each with those below it in their order:
// `timeouts` or `listen[].tls`. `response.cors.*`: only those below it. `identity.user[].`: the
// same, and their paths begin there. Keys of sections that occur in several places (`policy`) are
// only shown where such a place is asked for. Empty: no key is at one of the places.
std::string key_table(std::span<const std::string> places);

// A message for each key that `change` changes and that only a restart can change.
std::vector<std::string> needs_restart(const ConfigChange& change);

}  // namespace tidegate::config
