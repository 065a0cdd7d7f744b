# Compiles the files of a room, or of a test program, together: headers and templates are then compiled
# once a unit and not once a file, and a cold build takes less time.
#   ON     the optimised program and the one under the thread sanitizer: up to 24 files a unit (64
#          where no request waits for them)
#   SMALL  the one under the address sanitizer, and fuzz targets: up to 12, so that a change compiles little as well
#   OFF    for the debugger: each file by itself
# With ON and SMALL, a unit has up to 8 files of tests.
#
# So a name in an anonymous namespace, and an alias at the top of a file, is the room's only one: the
# compiler refuses a second definition. A file of tests has a namespace of its own; what a test program
# has beside them shares one, as a room does.

# `files`: how many a unit has at most.
function(tidegate_set_units target files)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${files})
    # GCC begins to collect garbage at 128 MiB, and a unit takes several times that: a later begin saves
    # time and costs memory.
    target_compile_options(${target} PRIVATE
        "$<$<CXX_COMPILER_ID:GNU>:SHELL:--param ggc-min-heapsize=800000>")
endfunction()

# -Wshadow would compare the locals of one file with the names at the top of another; =local compares
# locals only.
function(tidegate_allow_names_of_other_files target)
    target_compile_options(${target} PRIVATE -Wno-shadow
        $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local -Wno-subobject-linkage>)
endfunction()

# The files of a test program, in every build that compiles files together.
function(tidegate_compile_tests_together target)
    tidegate_set_units(${target} 8)
    tidegate_allow_names_of_other_files(${target})
endfunction()

# The files of a room. `is_cold`: no request waits for the room.
function(tidegate_compile_together target is_cold)
    if(TIDEGATE_UNITY STREQUAL SMALL)
        tidegate_set_units(${target} 12)
        tidegate_allow_names_of_other_files(${target})
        return()
    endif()
    tidegate_set_units(${target} 24)
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
