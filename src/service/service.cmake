# The program holdfast-agent. All is linked into it: it is no host, and uses what the library does not export.
file(GLOB service_sources CONFIGURE_DEPENDS service/*.cc)
list(REMOVE_ITEM service_sources ${CMAKE_CURRENT_SOURCE_DIR}/service/main.cc)
add_library(holdfast_service STATIC ${service_sources})
target_link_libraries(holdfast_service PUBLIC holdfast_agent_core holdfast_etcd holdfast_core fmt::fmt
                                       PRIVATE nlohmann_json::nlohmann_json)
add_executable(holdfast_agent service/main.cc)
set_source_files_properties(service/main.cc PROPERTIES COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O1>)
set_target_properties(holdfast_agent PROPERTIES OUTPUT_NAME holdfast-agent
                                                RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_link_libraries(holdfast_agent PRIVATE holdfast_service CLI11::CLI11)
