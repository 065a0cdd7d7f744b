# How everything is compiled: warnings, sanitizers, and what makes a rebuild quick.

find_program(TIDEGATE_CCACHE ccache)
if(TIDEGATE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Precompiled headers hide behind macros and times; without this sloppiness ccache never hits. Without
    # the comments it takes a header precompiled before a comment changed for one of today, and GCC, which
    # compares the bytes of each file, then reads what is marked `#pragma once` a second time.
    # Paths below the root are compared as relative ones, so that checkouts can share a cache. A debugger
    # finds sources by where they were compiled first.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_COMMENTS=1 CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
        ${TIDEGATE_CCACHE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        add_compile_options(-fpch-preprocess)
    endif()
endif()

find_program(TIDEGATE_MOLD mold)
if(TIDEGATE_MOLD)
    add_link_options(-fuse-ld=mold)
endif()

# Names of files in what a test prints are those below the root, so that its object serves every checkout.
add_compile_options("-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=")

# Names of files in the optimised program are those below the root, wherever that is: the same sources
# give the same bytes (scripts/reproduce). Of two that fit, the compiler takes the later one.
add_compile_options("$<$<CONFIG:Release>:-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=>"
    "$<$<CONFIG:Release>:-ffile-prefix-map=${CMAKE_BINARY_DIR}/=build/>")

add_compile_options(-pthread)
# As hiredis asks for: one precompiled header serves all.
add_compile_definitions(_FILE_OFFSET_BITS=64)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wold-style-cast
    -Wcast-align -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False alarms of GCC 12 inside coroutine frames and inlined library code.
    add_compile_options(-Wno-maybe-uninitialized -Wno-mismatched-new-delete)
    # False alarms of GCC 13 and later: about a reference into a table that outlives the call, because the
    # function that returns it takes a temporary string_view.
    if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
        add_compile_options(-Wno-dangling-reference)
    endif()
endif()
if(TIDEGATE_WERROR)
    add_compile_options(-Werror)
endif()
if(TIDEGATE_SANITIZE)
    add_compile_options(-fsanitize=${TIDEGATE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${TIDEGATE_SANITIZE})
    if(TIDEGATE_SANITIZE MATCHES undefined)
        # These five checks take half of the time that the compiler needs, and the address sanitizer
        # reports what most of their findings lead to:
        #   null              a null pointer is used: the access ends the program with a report
        #   object-size       an access behind an object: it meets a red zone
        #   pointer-overflow  pointer arithmetic wraps: an access through the result is reported
        #   vptr              a cast to a wrong class: few classes here have virtual functions, and
        #                     an object that is gone is reported
        #   alignment         only this check finds a misaligned access, which x86 and ARMv8 allow;
        #                     the fuzz targets keep it, for the rooms that parse
        add_compile_options(-fno-sanitize=null,object-size,pointer-overflow,vptr,alignment)
    endif()
    if(TIDEGATE_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # It does not follow Asio's fences; what they order is under a mutex as well.
        add_compile_options(-Wno-tsan)
    endif()
endif()
