# Compiles the rooms that requests pass through for the traffic that bench/compare/training.py sends
# (`scripts/build profiled`): COUNT makes a program that counts how often each branch is taken, and
# writes that beside the object files when it ends; USE, in the same build folder, compiles by it.
# docs/packages.md says what it brings.

set(TIDEGATE_PROFILE "" CACHE STRING
    "Compile for traffic: COUNT, then USE in the same folder (GCC only; scripts/build profiled does both)")
set_property(CACHE TIDEGATE_PROFILE PROPERTY STRINGS "" COUNT USE)
if(TIDEGATE_PROFILE AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "TIDEGATE_PROFILE needs GCC")
endif()

if(TIDEGATE_PROFILE STREQUAL "COUNT")
    # Several threads count.
    set(tidegate_profile_options -fprofile-generate -fprofile-update=prefer-atomic)
    add_link_options(-fprofile-generate)
elseif(TIDEGATE_PROFILE STREQUAL "USE")
    # What the training did not reach is compiled as ever, and not for size. The warnings are false
    # alarms of GCC 12 in what it then inlines of the standard library.
    set(tidegate_profile_options -fprofile-use -fprofile-partial-training -Wno-missing-profile
        -Wno-restrict -Wno-stringop-overflow)
elseif(TIDEGATE_PROFILE)
    message(FATAL_ERROR "TIDEGATE_PROFILE is COUNT or USE, not ${TIDEGATE_PROFILE}")
endif()

function(tidegate_compile_for_traffic target)
    if(TIDEGATE_PROFILE)
        target_compile_options(${target} PRIVATE ${tidegate_profile_options})
        # A cache of objects knows the options and the sources, but not always the counts.
        set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "")
    endif()
endfunction()
