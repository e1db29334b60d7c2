# Hardens the library and the command. tests/library/hardened checks the result.

# Sanitizers have their own checks for these errors.
if(HOLDFAST_SANITIZE)
  return()
endif()

add_compile_options(-fstack-protector-strong)
# Signs return addresses. Other branch protection (x86's IBT and SHSTK, aarch64's BTI) has no effect unless all files of
# the process are marked for it, and Debian's C runtime is not.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  add_compile_options(-mbranch-protection=pac-ret)
endif()
# This macro has an effect only with optimisation. A distribution may have defined it with a different value.
add_compile_options("$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
add_link_options(LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
