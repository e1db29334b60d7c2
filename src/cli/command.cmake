# The holdfast command: the whole library, LuaJIT and the command line in one program.

set(missing "")
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(LUAJIT QUIET IMPORTED_TARGET luajit)
endif()
if(NOT LUAJIT_FOUND)
  list(APPEND missing "LuaJIT (libluajit2-5.1-dev, found by pkg-config)")
endif()
find_package(CLI11 QUIET)
if(NOT CLI11_FOUND)
  list(APPEND missing "CLI11 (libcli11-dev)")
endif()
find_package(fmt QUIET)
if(NOT fmt_FOUND)
  list(APPEND missing "fmt (libfmt-dev)")
endif()

find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  list(APPEND missing "JSON for Modern C++ (nlohmann-json3-dev)")
endif()

if(missing)
  list(JOIN missing ", " missing)
  if(HOLDFAST_CLI STREQUAL "AUTO")
    message(STATUS "The holdfast command is left out, for want of: ${missing}")
    return()
  endif()
  message(FATAL_ERROR "The holdfast command needs: ${missing}. Install them (scripts/setup does) or pass "
                      "-DHOLDFAST_CLI=OFF to build only the library.")
endif()

file(GLOB command_sources CONFIGURE_DEPENDS cli/*.cc inspect/*.cc base/*.cc)
add_executable(holdfast_command ${command_sources})
# These files take longest to compile by far, and run once in a process.
set_source_files_properties(cli/command_line.cc cli/arguments.cc PROPERTIES COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O1>)
# The command uses the library as any other host does, and so do the Lua files it runs: there is one copy per process.
# It looks for it beside itself, as in the build folder, then from the folder it is installed in. LuaRocks moves what
# was installed, hence the last place.
cmake_path(ABSOLUTE_PATH HOLDFAST_CLIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE clibdir)
cmake_path(RELATIVE_PATH clibdir BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR} OUTPUT_VARIABLE clibdir)
set_target_properties(
  holdfast_command
  PROPERTIES OUTPUT_NAME holdfast
             RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
             BUILD_WITH_INSTALL_RPATH ON
             INSTALL_RPATH "$ORIGIN;$ORIGIN/${clibdir};$ORIGIN/../lib/lua/5.1")
target_link_libraries(holdfast_command PRIVATE holdfast_includes holdfast_library PkgConfig::LUAJIT CLI11::CLI11
                                               fmt::fmt nlohmann_json::nlohmann_json)
