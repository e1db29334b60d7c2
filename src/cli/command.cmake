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

# Only the screen of `holdfast top` needs ncurses; without, that command prints text.
set(has_screen FALSE)
if(NOT HOLDFAST_TOP STREQUAL "OFF")
  pkg_check_modules(NCURSES QUIET ncursesw)
  set(has_screen ${NCURSES_FOUND})
  if(NOT has_screen AND HOLDFAST_TOP STREQUAL "AUTO")
    message(STATUS "The full screen of holdfast top is left out, for want of: ncursesw (libncurses-dev)")
  elseif(NOT has_screen)
    message(FATAL_ERROR "The full screen of holdfast top needs: ncursesw (libncurses-dev, found by pkg-config). Install "
                        "it (scripts/setup does) or pass -DHOLDFAST_TOP=OFF to build without it.")
  endif()
endif()

include(serve/page.cmake)
# What looks at worlds, and serves it: tests use it without a command line.
file(GLOB look_sources CONFIGURE_DEPENDS inspect/*.cc serve/*.cc base/*.cc)
add_library(holdfast_look OBJECT ${look_sources} ${page_source})
target_link_libraries(holdfast_look PUBLIC holdfast_includes holdfast_library fmt::fmt nlohmann_json::nlohmann_json)
file(GLOB command_sources CONFIGURE_DEPENDS cli/*.cc)
if(NOT has_screen)
  list(FILTER command_sources EXCLUDE REGEX "cli/top_(screen|live)\\.cc$")
endif()
add_executable(holdfast_command ${command_sources})
# These files take longest to compile by far, and run once in a process.
set_source_files_properties(cli/command_line.cc cli/arguments.cc PROPERTIES COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-O1>)
# The command uses the library as any other host does, and so do the Lua files it runs: there is one copy per process.
# It looks for it beside itself, as in the build folder, then from the folder it is installed in. LuaRocks moves what
# was installed, hence the last place. Of libraries outside of the system's folders, as a LuaJIT of OpenResty, it keeps
# the folder.
cmake_path(ABSOLUTE_PATH HOLDFAST_CLIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE clibdir)
cmake_path(RELATIVE_PATH clibdir BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR} OUTPUT_VARIABLE clibdir)
set_target_properties(
  holdfast_command
  PROPERTIES OUTPUT_NAME holdfast
             RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}
             BUILD_WITH_INSTALL_RPATH ON
             INSTALL_RPATH "$ORIGIN;$ORIGIN/${clibdir};$ORIGIN/../lib/lua/5.1"
             INSTALL_RPATH_USE_LINK_PATH ON)
target_link_libraries(holdfast_command PRIVATE holdfast_look PkgConfig::LUAJIT CLI11::CLI11)
if(has_screen)
  set_source_files_properties(cli/top_command.cc PROPERTIES COMPILE_DEFINITIONS HOLDFAST_TOP=1)
  set_source_files_properties(cli/top_screen.cc PROPERTIES COMPILE_OPTIONS "${NCURSES_CFLAGS}")
  target_link_libraries(holdfast_command PRIVATE ${NCURSES_LINK_LIBRARIES})
endif()
