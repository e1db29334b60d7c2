-- Declares libholdfast for the FFI, and the functions of others that are used with it.

local ffi = require "ffi"

local pcall = pcall

-- libc's, and nginx's clock. Our own names contradict no other declaration.
local OTHERS = [[
int getpid(void);
struct holdfast_pollfd { int fd; short events, revents; };
struct holdfast_timespec { long sec, nsec; };
int holdfast_ppoll(struct holdfast_pollfd *set, unsigned long count, const struct holdfast_timespec *timeout,
                   const void *signals) __asm__("ppoll");
int holdfast_close(int fd) __asm__("close");
int holdfast_gethostname(char *name, size_t size) __asm__("gethostname");
int holdfast_clock_gettime(int clock, struct holdfast_timespec *time) __asm__("clock_gettime");
extern volatile uintptr_t holdfast_nginx_msec[1] __asm__("ngx_current_msec");
]]

-- A second load in one Lua state (package.loaded cleared) finds the types declared.
if not pcall(ffi.typeof, "holdfast_lease") then
    ffi.cdef(require("resty.holdfast.ffi.header").declarations .. OTHERS)
end
