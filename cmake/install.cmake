# Installs one copy of the library. Lua finds the same file through a link in a folder of package.cpath, because two
# copies in one process would count as two processes.

install(
  TARGETS holdfast_library
  EXPORT holdfast
  LIBRARY DESTINATION ${HOLDFAST_LIBRARY_DIR}
  INCLUDES
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY lua/ DESTINATION ${HOLDFAST_LUADIR} FILES_MATCHING PATTERN "*.lua")
# Installs the Lua files of cluster/ if it exists, even if no agent is built. The library (src/CMakeLists.txt) includes
# its part of cluster/ under the same condition.
if(EXISTS ${PROJECT_SOURCE_DIR}/cluster/lua)
  install(DIRECTORY cluster/lua/ DESTINATION ${HOLDFAST_LUADIR} FILES_MATCHING PATTERN "*.lua")
endif()

if(HOLDFAST_INSTALL_C)
  install(FILES include/holdfast.h include/holdfast.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY include/holdfast DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")

  set(generated ${PROJECT_BINARY_DIR}/generated)
  cmake_path(ABSOLUTE_PATH HOLDFAST_CLIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE clibdir)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${clibdir} OUTPUT_VARIABLE link_target)
  if(NOT link_target STREQUAL ".")
    get_target_property(abi holdfast_library SOVERSION)
    file(CREATE_LINK ${link_target}/libholdfast.so.${abi} ${generated}/libholdfast.so SYMBOLIC)
    install(FILES ${generated}/libholdfast.so DESTINATION ${HOLDFAST_CLIBDIR})
  endif()

  # pkg-config and CMake find all files relative to their configuration files. So the prefix may be chosen at
  # installation, and the installed files may be moved together later.
  set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  cmake_path(ABSOLUTE_PATH pkgconfig_dir BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE pkgconfig_full)
  set(to_prefix ${CMAKE_INSTALL_PREFIX})
  cmake_path(RELATIVE_PATH to_prefix BASE_DIRECTORY ${pkgconfig_full})
  set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(pc_libdir ${CMAKE_INSTALL_LIBDIR})
  endif()
  if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_includedir ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
  configure_file(cmake/holdfast.pc.in ${generated}/holdfast.pc @ONLY)
  install(FILES ${generated}/holdfast.pc DESTINATION ${pkgconfig_dir})

  include(CMakePackageConfigHelpers)
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
  # Before 1.0, a minor version may change anything.
  write_basic_package_version_file(${generated}/holdfast-config-version.cmake COMPATIBILITY SameMinorVersion)
  install(FILES cmake/holdfast-config.cmake ${generated}/holdfast-config-version.cmake DESTINATION ${package_dir})
  install(EXPORT holdfast FILE holdfast-targets.cmake NAMESPACE holdfast:: DESTINATION ${package_dir})
endif()

install(SCRIPT cmake/record.cmake)
