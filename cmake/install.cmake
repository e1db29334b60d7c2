# One copy of the library is installed, where Lua's package.cpath finds it. C hosts link the same file through a link
# in the library folder: two copies in one process would be two members of the world.

install(TARGETS holdfast_library LIBRARY DESTINATION ${HOLDFAST_CLIBDIR})
install(DIRECTORY lua/ DESTINATION ${HOLDFAST_LUADIR} FILES_MATCHING PATTERN "*.lua")
if(TARGET holdfast_command)
  install(TARGETS holdfast_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

if(HOLDFAST_INSTALL_C)
  install(FILES include/holdfast.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  configure_file(cmake/holdfast.pc.in ${PROJECT_BINARY_DIR}/generated/holdfast.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/generated/holdfast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

  cmake_path(ABSOLUTE_PATH HOLDFAST_CLIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE clibdir)
  cmake_path(RELATIVE_PATH clibdir BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR} OUTPUT_VARIABLE link_target)
  if(NOT link_target STREQUAL ".")
    file(CREATE_LINK ${link_target}/libholdfast.so ${PROJECT_BINARY_DIR}/generated/libholdfast.so SYMBOLIC)
    install(FILES ${PROJECT_BINARY_DIR}/generated/libholdfast.so DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endif()
