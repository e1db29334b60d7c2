# The etcd client of the agent: the only part of the project that needs libcurl and nlohmann-json.

set(missing "")
find_package(CURL QUIET)
if(NOT CURL_FOUND)
  list(APPEND missing "libcurl (libcurl4-openssl-dev)")
endif()
find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  list(APPEND missing "nlohmann-json (nlohmann-json3-dev)")
endif()

if(missing)
  list(JOIN missing ", " missing)
  if(HOLDFAST_AGENT STREQUAL "AUTO")
    message(STATUS "The agent for clusters is left out, for want of: ${missing}")
    return()
  endif()
  message(FATAL_ERROR "The agent for clusters needs: ${missing}. Install them (scripts/setup does) or pass "
                      "-DHOLDFAST_AGENT=OFF to build without it.")
endif()

file(GLOB etcd_sources CONFIGURE_DEPENDS etcd/*.cc)
add_library(holdfast_etcd STATIC ${etcd_sources})
target_link_libraries(holdfast_etcd PUBLIC holdfast_includes CURL::libcurl PRIVATE nlohmann_json::nlohmann_json)
