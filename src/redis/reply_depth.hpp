// How deep lists in lists may go. Newer versions of hiredis follow them as deep as they are sent,
// and each takes memory; 0.14 stops at seven.
#pragma once

#include <hiredis/read.h>

namespace tidegate::redis {

// Deeper than any answer that we ask for.
inline bool is_too_deep(const redisReadTask* task) {
    constexpr int kDepthMax = 7;
    int depth = 0;
    while ((task = task->parent) != nullptr && depth <= kDepthMax) ++depth;
    return depth > kDepthMax;
}

}  // namespace tidegate::redis
