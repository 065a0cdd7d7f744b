# Compiles the files of a room together: headers and templates are then compiled once a unit and not
# once a file, and a cold build takes less time.
#   ON     the optimised program and the one under the thread sanitizer: up to 24 files a unit (64
#          where no request waits for them)
#   SMALL  the one under the address sanitizer: up to 12, so that a change compiles little as well
#   OFF    all other builds: each file by itself
#
# So a name in an anonymous namespace, and an alias at the top of a file, is the room's only one: the
# compiler refuses a second definition.
#
# `is_cold`: no request waits for the room.
function(tidegate_compile_together target is_cold)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
    # GCC collects garbage before it has allocated 128 MiB; a unit takes 600 MiB to 1.3 GiB anyhow.
    # Later, it compiles them in an eighth less time with a fifth more memory.
    target_compile_options(${target} PRIVATE
        "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=800000>")
    if(TIDEGATE_UNITY STREQUAL SMALL)
        set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 12)
        # What one file has at its top is no fault where another has a local of that name.
        target_compile_options(${target} PRIVATE -Wno-shadow
            $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local -Wno-subobject-linkage>)
        return()
    endif()
    # To the compiler all of these files are headers. The builds that compile file by file have these
    # warnings.
    target_compile_options(${target} PRIVATE -Wno-shadow
        $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
    if(is_cold)
        # GCC inlines only what makes a unit smaller: that takes a third less time than without the
        # bound, and the code is half as large.
        set_target_properties(${target} PROPERTIES UNITY_BUILD_BATCH_SIZE 64)
        target_compile_options(${target} PRIVATE -O1
            "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param inline-unit-growth=0>")
        return()
    endif()
    # GCC bounds how much a unit grows by inlining. A unit as large as these reaches the bound before
    # GCC has inlined the path of a request, which then takes 6 to 11 % more instructions (callgrind).
    target_compile_options(${target} PRIVATE
        "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param inline-unit-growth=1000>")
endfunction()
