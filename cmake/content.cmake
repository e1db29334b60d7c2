# holdfast_content(PATH VARIABLE) stores a text that identifies the content of a file or link, or "" if there is no such
# file.
function(holdfast_content path variable)
  set(content "")
  if(IS_SYMLINK "${path}")
    file(READ_SYMLINK "${path}" target)
    string(SHA256 content "link to ${target}")
  elseif(IS_DIRECTORY "${path}")
    set(content folder)
  elseif(EXISTS "${path}")
    file(SHA256 "${path}" content)
  endif()
  set(${variable} "${content}" PARENT_SCOPE)
endfunction()
