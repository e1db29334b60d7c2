# Sets how every target of the project is compiled.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Keeps line numbers and function names for backtraces. Information about variables, which only BUILD_TYPE=Debug keeps,
# would take a third of the build time.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# With HOLDFAST_UNITY, ten files are compiled at a time, so names in anonymous namespaces must be unique within a
# target.
function(holdfast_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HOLDFAST_UNITY} UNITY_BUILD_BATCH_SIZE 10)
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_compile_options(-Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Wformat=2 -Wundef -Wvla)
if(HOLDFAST_WERROR)
  add_compile_options(-Werror)
endif()

# libFuzzer instruments only the library and the fuzz targets. Tests compile a fifth faster without the instrumentation.
if(HOLDFAST_FUZZ)
  set(HOLDFAST_COVERAGE -fsanitize=fuzzer-no-link)
endif()
if(HOLDFAST_SANITIZE)
  set(holdfast_sanitizers address undefined leak thread)
  string(REPLACE "," ";" holdfast_wanted "${HOLDFAST_SANITIZE}")
  foreach(sanitizer IN LISTS holdfast_wanted)
    if(NOT sanitizer IN_LIST holdfast_sanitizers)
      message(FATAL_ERROR "HOLDFAST_SANITIZE: '${sanitizer}' is not one of ${holdfast_sanitizers}")
    endif()
  endforeach()
  # The check of virtual tables (vptr) opens a pipe, which fails in tests that use up all descriptors.
  add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
  add_compile_definitions(HOLDFAST_SANITIZED)
  # ThreadSanitizer ignores fences. This hides no error, because fences order only atomic words of segments, which
  # cannot have data races; plain data is passed on with release and acquire.
  if("thread" IN_LIST holdfast_wanted AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)
  endif()
endif()
