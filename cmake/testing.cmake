# Builds every folder of C++ tests.

if(CMAKE_CROSSCOMPILING)
  # Debian builds GoogleTest only for its own processor. The sources are in the package googletest.
  if(NOT TARGET gtest)
    set(INSTALL_GTEST OFF CACHE BOOL "" FORCE)
    add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    foreach(library gtest gmock gmock_main)
      target_compile_options(${library} PRIVATE -w)
    endforeach()
  endif()
else()
  find_package(GTest REQUIRED)
endif()
include(GoogleTest)

# Most of the build time is spent on the tests, and their code need not be fast except in long runs. The tested library
# is compiled as usual.
add_compile_options(-O0)
# Omits the flags that harden a package's programs, because the precompiled headers are compiled without them.
add_compile_options("SHELL:-U _FORTIFY_SOURCE")
set(long_run_options $<$<NOT:$<CONFIG:Debug>>:-O2>)
