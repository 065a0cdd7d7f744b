// What the rows of the keys come to for readers: the JSON Schema of a configuration, and the tables
// of docs/configuration.md. Any thread.
#pragma once

#include <span>
#include <string>

namespace tidegate::config {

// JSON Schema 2020-12, ends with a line end.
std::string schema_text();

// A table in Markdown of the keys at these places, each with those below it in their order:
// `timeouts` or `listen[].tls`. `response.cors.*`: only those below it. `identity.user[].`: the
// same, and their paths begin there. Keys of sections that occur in several places (`policy`) are
// only shown where such a place is asked for. Empty: no key is at one of the places.
std::string key_table(std::span<const std::string> places);

}  // namespace tidegate::config
