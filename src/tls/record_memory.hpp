// The memory of OpenSSL, which takes a buffer of 16 KiB for each record and gives it back at once,
// so that an idle connection holds none. Each thread has two for that, and the rest is malloc()'s.
#pragma once

#include <cstddef>

namespace tidegate {

// Has OpenSSL use the functions below. Only before anything else of OpenSSL; without effect where
// it is too late for that.
void use_record_memory();

// Like malloc(), realloc() and free(), on any thread, but 0 bytes are null, and to resize to them
// gives back. What OpenSSL says of the place that asks is ignored.
void* take_openssl_memory(std::size_t size, const char* file, int line);
void* resize_openssl_memory(void* block, std::size_t size, const char* file, int line);
void give_openssl_memory(void* block, const char* file, int line);

}  // namespace tidegate
