# Profile-guided optimisation of the rooms that requests pass through: all but the COLD ones
# (src/CMakeLists.txt). `scripts/build profiled` does both steps. GENERATE makes a program that counts
# how often each branch is taken, and writes that beside its object files when it ends. USE, in the
# same build folder, compiles by these counts. docs/packages.md says what it brings.

set(TIDEGATE_PROFILE "" CACHE STRING
    "Profile-guided optimisation: GENERATE, then USE in the same folder (scripts/build profiled does both)")
set_property(CACHE TIDEGATE_PROFILE PROPERTY STRINGS "" GENERATE USE)
if(TIDEGATE_PROFILE AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    message(FATAL_ERROR "TIDEGATE_PROFILE needs GCC, not ${CMAKE_CXX_COMPILER_ID}: "
        "configure anew, in an empty folder, with CMAKE_CXX_COMPILER=g++, or without TIDEGATE_PROFILE")
endif()

if(TIDEGATE_PROFILE STREQUAL "GENERATE")
    # Threads count at the same time.
    set(tidegate_profile_options -fprofile-generate -fprofile-update=prefer-atomic)
    add_link_options(-fprofile-generate)
elseif(TIDEGATE_PROFILE STREQUAL "USE")
    # What the training did not reach is compiled as ever, and not for size; its files may have no
    # counts. The other two warnings are false alarms of GCC 12 in what it inlines of the library.
    set(tidegate_profile_options -fprofile-use -fprofile-partial-training -Wno-missing-profile
        -Wno-restrict -Wno-stringop-overflow)
elseif(TIDEGATE_PROFILE)
    message(FATAL_ERROR "TIDEGATE_PROFILE is GENERATE or USE, not ${TIDEGATE_PROFILE}")
endif()

function(tidegate_optimise_by_profile target)
    if(TIDEGATE_PROFILE)
        target_compile_options(${target} PRIVATE ${tidegate_profile_options})
        # ccache may have an object that was compiled by other counts.
        set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "")
    endif()
endfunction()
