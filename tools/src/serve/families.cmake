# Generates families.inc from the tables in lua/resty/holdfast/prometheus.lua and, if cluster/ exists, in its gate. The
# tables contain the metric families that the Lua modules and `holdfast serve` share, and the bounds of their
# histograms. So there is only one list of metrics.

set(module ${PROJECT_SOURCE_DIR}/lua/resty/holdfast/prometheus.lua)
set(of_clusters ${PROJECT_SOURCE_DIR}/cluster/lua/resty/holdfast/cluster/gate.lua)
file(READ ${module} text)
set(catalogues "${text}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${module})
if(EXISTS ${of_clusters})
  file(READ ${of_clusters} text_of_clusters)
  string(APPEND catalogues "${text_of_clusters}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${of_clusters})
endif()
string(REGEX MATCHALL "{ \"holdfast_[a-z_]+\", \"[a-z]+\", \"[^\"]+\"" families "${catalogues}")
string(REGEX MATCH "local BOUNDS = {([^}]+)}" ignored "${text}")
set(bounds "${CMAKE_MATCH_1}")
list(LENGTH families count)
if(count EQUAL 0 OR NOT bounds)
  message(FATAL_ERROR "found no families of metrics in ${module}: expected lines as { \"holdfast_NAME\", \"TYPE\", \"HELP\"")
endif()
list(JOIN families "},\n    " families)
configure_file(${CMAKE_CURRENT_LIST_DIR}/families.inc.in ${PROJECT_BINARY_DIR}/generated/serve/families.inc @ONLY)
