// The allocator of OpenSSL, which allocates a buffer of a little more than 16 KiB for each record
// and frees it at once, so that an idle connection holds none. For these, each thread has two
// static buffers (above 64 threads some share theirs); where both are taken, and for all else,
// malloc() serves.
#pragma once

#include <cstddef>

namespace tidegate {

// Has OpenSSL use the functions below. Before any other use of OpenSSL; false: it is too late, and
// OpenSSL stays with malloc().
bool use_record_memory();

// Like malloc(), realloc() and free(), on any thread; any thread may free. A size of 0 returns
// null, and to reallocate to 0 frees. `file` and `line` are ignored.
void* openssl_malloc(std::size_t size, const char* file, int line);
void* openssl_realloc(void* block, std::size_t size, const char* file, int line);
void openssl_free(void* block, const char* file, int line);

}  // namespace tidegate
