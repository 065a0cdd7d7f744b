# What a memory error still has to get past (tests/integration/hardening_test.cpp reads the program
# for it; docs/security.md says what it costs).

include(CheckCXXCompilerFlag)

# The program at a random address, its stack guarded, its tables read-only before main() begins.
add_compile_options(-fPIE -fstack-protector-strong -fstack-clash-protection)
add_link_options(-pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
add_compile_definitions(_GLIBCXX_ASSERTIONS)

# Debian's start files lack the note that says so, and without it the linker drops it: so it is
# asked for. They hold no target of an indirect jump.
check_cxx_compiler_flag(-fcf-protection=full TIDEGATE_CF_PROTECTION)
if(TIDEGATE_CF_PROTECTION AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    add_compile_options(-fcf-protection=full)
    add_link_options(-Wl,-z,ibt -Wl,-z,shstk)
endif()

# It needs an optimising compiler, and hides from the address sanitizer what that would find.
if(NOT TIDEGATE_SANITIZE AND NOT TIDEGATE_FUZZ)
    add_compile_options($<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
endif()
