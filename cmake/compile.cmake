# Sets how every target of the project is compiled.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Lines and functions for a backtrace; variables would take a third of the build time. BUILD_TYPE=Debug has all of them.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# Compiles ten files at a time on request. Then names in anonymous namespaces must be unique within a target.
function(holdfast_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HOLDFAST_UNITY} UNITY_BUILD_BATCH_SIZE 10)
endfunction()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_compile_options(-Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -Wformat=2 -Wundef -Wvla)
if(HOLDFAST_WERROR)
  add_compile_options(-Werror)
endif()

# libFuzzer watches only the library and the programs that it drives. Without it, a test compiles a fifth faster.
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
  # The check of virtual tables opens a pipe, which fails in tests that have no descriptor left.
  add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
  add_compile_definitions(HOLDFAST_SANITIZED)
  # ThreadSanitizer ignores fences. That is sound: fences order only atomic words of segments, which have no data races;
  # plain data is handed over by release and acquire.
  if("thread" IN_LIST holdfast_wanted AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)
  endif()
endif()
