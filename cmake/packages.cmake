# Functions that find the packages that a part of the project needs. In both functions, `missing` is the list of
# packages to install.

set(CURL_package "libcurl (libcurl4-openssl-dev)")
set(fmt_package "fmt (libfmt-dev)")
set(nlohmann_json_package "JSON for Modern C++ (nlohmann-json3-dev)")

# Finds the packages with these names, and adds those that are not found to `missing`.
macro(holdfast_find)
  foreach(name ${ARGN})
    find_package(${name} QUIET)
    if(NOT ${name}_FOUND)
      list(APPEND missing "${${name}_package}")
    endif()
  endforeach()
endmacro()

# Reports the `missing` packages of a part. If there are any, fails, unless the option is AUTO; the caller then omits
# the part. `without`: what is built if the option is OFF.
function(holdfast_report_missing part option without)
  list(JOIN missing ", " missing)
  if(missing AND ${option} STREQUAL "AUTO")
    message(STATUS "${part} is omitted, because packages are missing: ${missing}")
  elseif(missing)
    message(FATAL_ERROR "${part} needs: ${missing}. Install them (scripts/setup does) or pass -D${option}=OFF to build "
                        "${without}.")
  endif()
endfunction()
