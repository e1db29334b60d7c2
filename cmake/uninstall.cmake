# cmake -P cmake/uninstall.cmake MANIFEST: removes what an installation has put there, and of the folders those that
# only holdfast has, or that are empty now and named after what it is part of. $DESTDIR as it was then.

set(manifest ${CMAKE_ARGV3})
if(NOT EXISTS "${manifest}")
  message(FATAL_ERROR "There is no ${manifest}: nothing was installed from this build.")
endif()

file(STRINGS ${manifest} files)
foreach(file IN LISTS files)
  file(REMOVE "$ENV{DESTDIR}${file}")
endforeach()

# The deepest first. What does not belong to holdfast alone may be there for a reason even when it is empty.
list(TRANSFORM files REPLACE "/[^/]*$" "" OUTPUT_VARIABLE folders)
list(REMOVE_DUPLICATES folders)
list(FILTER folders INCLUDE REGEX "/(resty|cmake/holdfast)(/|$)")
list(SORT folders ORDER DESCENDING)
foreach(folder IN LISTS folders)
  file(GLOB left "$ENV{DESTDIR}${folder}/*" "$ENV{DESTDIR}${folder}/.*")
  if(NOT left)
    file(REMOVE_RECURSE "$ENV{DESTDIR}${folder}")
  endif()
endforeach()

list(LENGTH files count)
message(STATUS "${count} files removed")
