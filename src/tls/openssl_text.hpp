// Texts that OpenSSL reads and writes, and its words for what went wrong.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/types.h>

namespace tidegate {

struct FreeBio {
    void operator()(BIO* bio) const;
};
using BioPtr = std::unique_ptr<BIO, FreeBio>;

// To read `text`, which outlives it. Null when there is no memory, or more than 2 GiB. Forgets
// older complaints of OpenSSL.
BioPtr open_text(std::string_view text);

// Why the last object of a PEM text (RFC 7468) could not be read: there was none; else what is
// there is broken. Takes the complaint from OpenSSL.
bool was_end_of_pem();

// All objects of `pem` that `read`, one of OpenSSL's PEM_read_bio functions, looks for, in their
// order; other text is passed over. Nothing: one is broken.
template <class Ptr, class Read>
std::optional<std::vector<Ptr>> read_all(std::string_view pem, Read* read) {
    std::vector<Ptr> found;
    const BioPtr bio = open_text(pem);
    while (bio != nullptr) {
        Ptr next(read(bio.get(), nullptr, nullptr, nullptr));
        if (next == nullptr) break;
        found.push_back(std::move(next));
    }
    // The end of the text is an error like others.
    if (!was_end_of_pem()) return std::nullopt;
    return found;
}

// To write into; null when there is no memory.
BioPtr open_memory();
// What was written into `memory`.
std::string written(BIO& memory);

// What OpenSSL complained of last, which it then forgets: `key too small`.
std::string openssl_reason();

}  // namespace tidegate
