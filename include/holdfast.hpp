// holdfast for C++20: dictionaries, owners of locks, mutexes for the guards of the standard library, and results that
// say why there is none. docs/c.md shows how to use it; what a call does is said in holdfast.h.
//
// Nothing here throws but for want of memory for a string, and where the caller asks for it: by result::value(), and by
// lock() and its kin of the mutexes, as the standard has it. Without exceptions (-fno-exceptions) these end the
// process.
//
// All is inline, so no type of C++ crosses the boundary of the library, and in a namespace with a version, so that parts
// of a program may be compiled with different versions of it.
#ifndef HOLDFAST_HPP
#define HOLDFAST_HPP

#include "holdfast/dictionary.hpp"
#include "holdfast/lease.hpp"
#include "holdfast/mutex.hpp"
#include "holdfast/result.hpp"

#endif
