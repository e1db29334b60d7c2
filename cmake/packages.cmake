# Packages that a part of the project needs. In both, `missing` is a list of what people have to install.

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

# Says what is `missing`, if anything, for a part. Ends unless the option is AUTO: then the caller leaves the part out.
# without: what is built with the option OFF.
function(holdfast_report_missing part option without)
  list(JOIN missing ", " missing)
  if(missing AND ${option} STREQUAL "AUTO")
    message(STATUS "${part} is left out, for want of: ${missing}")
  elseif(missing)
    message(FATAL_ERROR "${part} needs: ${missing}. Install them (scripts/setup does) or pass -D${option}=OFF to build "
                        "${without}.")
  endif()
endfunction()
