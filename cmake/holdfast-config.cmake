# find_package(holdfast) gives holdfast::holdfast. The library needs only the C library: there is nothing else to find.
include("${CMAKE_CURRENT_LIST_DIR}/holdfast-targets.cmake")
