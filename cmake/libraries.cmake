# The libraries we stand on, each as one target.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost 1.81 REQUIRED CONFIG COMPONENTS url)
find_package(OpenSSL 3 REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Protobuf REQUIRED)
pkg_check_modules(hiredis REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(nghttp2 REQUIRED IMPORTED_TARGET libnghttp2)
pkg_check_modules(re2 REQUIRED IMPORTED_TARGET re2)
# Abseil asks for it, which re2 stands on since 2023. All rooms have it then, as one precompiled header serves
# all.
if("-DNOMINMAX" IN_LIST re2_CFLAGS_OTHER)
    add_compile_definitions(NOMINMAX)
endif()
pkg_check_modules(cjose REQUIRED IMPORTED_TARGET cjose)
pkg_check_modules(crypt REQUIRED IMPORTED_TARGET libcrypt)
pkg_check_modules(prometheus REQUIRED IMPORTED_TARGET prometheus-cpp-core)

if(TIDEGATE_TESTS OR TIDEGATE_BENCH)
    find_package(doctest REQUIRED)
endif()
if(TIDEGATE_BENCH)
    find_package(benchmark REQUIRED)
endif()

add_library(tidegate_asio_options INTERFACE)
target_compile_definitions(tidegate_asio_options INTERFACE
    BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_NO_TS_EXECUTORS
    BOOST_ALL_NO_LIB)
target_link_libraries(tidegate_asio_options INTERFACE Boost::headers Threads::Threads)
