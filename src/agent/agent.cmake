# The engine of the agent for clusters: it knows a store only by store.h, so that it builds without libcurl.

find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  return()  # etcd/etcd.cmake says so
endif()

file(GLOB engine_sources CONFIGURE_DEPENDS agent/*.cc)
add_library(holdfast_agent_core STATIC ${engine_sources})
target_link_libraries(holdfast_agent_core PUBLIC holdfast_includes PRIVATE nlohmann_json::nlohmann_json)
