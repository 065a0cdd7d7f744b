// Fetches a key set from where tokens have their keys: from its URL, or from the URL that the
// metadata of an issuer name.
#pragma once

#include <string>

#include "app/https_get.hpp"
#include "base/result.hpp"
#include "identity/key_source.hpp"
#include "net/asio.hpp"

namespace tidegate::app {

// The text of the key set, as it came, and the certificate of the server that sent it. Or why there
// is none: a clause for an operator. The metadata of an issuer are fetched anew each time, within
// the same time. Those of an https:// issuer must name an https:// URL. Throws as https_get() does.
Task<Result<HttpsBody, std::string>> fetch_key_set(Executor executor,
                                                   identity::KeyLocation location,
                                                   HttpsBounds bounds);

// The location for logs and metrics: without the query, which may hold a secret.
std::string shown(const identity::KeyLocation& location);

}  // namespace tidegate::app
