# Hardens the library and the command. tests/library/hardened checks the result.

# Sanitizers have their own checks for these errors.
if(HOLDFAST_SANITIZE)
  return()
endif()

add_compile_options(-fstack-protector-strong)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|i.86)$")
  add_compile_options(-fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  add_compile_options(-mbranch-protection=standard)
endif()
# This macro has an effect only with optimisation. A distribution may have defined it with a different value.
add_compile_options("$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
