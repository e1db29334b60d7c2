# cmake -P cmake/uninstall.cmake MANIFEST removes the installed files, and folders that are empty afterwards and named
# after holdfast or resty. $DESTDIR must be the same as for the installation.

set(manifest ${CMAKE_ARGV3})
if(NOT EXISTS "${manifest}")
  message(FATAL_ERROR "There is no ${manifest}: nothing was installed from this build.")
endif()

file(STRINGS ${manifest} files)
foreach(file IN LISTS files)
  file(REMOVE "$ENV{DESTDIR}${file}")
endforeach()

# Deepest folders first. Other folders may have a purpose even if they are empty.
list(TRANSFORM files REPLACE "/[^/]*$" "" OUTPUT_VARIABLE folders)
list(REMOVE_DUPLICATES folders)
list(FILTER folders INCLUDE REGEX "/(resty|cmake/holdfast|include/holdfast)(/|$)")
list(SORT folders ORDER DESCENDING)
foreach(folder IN LISTS folders)
  file(GLOB left "$ENV{DESTDIR}${folder}/*" "$ENV{DESTDIR}${folder}/.*")
  if(NOT left)
    file(REMOVE_RECURSE "$ENV{DESTDIR}${folder}")
  endif()
endforeach()

list(LENGTH files count)
message(STATUS "${count} files removed")
