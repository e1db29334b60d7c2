# find_package(holdfast) provides holdfast::holdfast. The library needs only the C library, so this file finds nothing
# else.
include("${CMAKE_CURRENT_LIST_DIR}/holdfast-targets.cmake")
