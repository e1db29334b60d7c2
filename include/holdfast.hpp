// holdfast for C++20: dictionaries, leases, mutexes for the guards of the standard library, and results that are a
// value or an error. docs/c.md shows how to use it; holdfast.h says what each call does.
//
// Functions throw only std::bad_alloc, except where the caller asks for exceptions: result::value(), and lock() and its
// variants of the mutexes, as the standard requires. Without exceptions (-fno-exceptions) these abort the process.
//
// Everything is inline, so no C++ type crosses the boundary of the library. The namespace contains a version, so that
// parts of a program may be compiled with different versions of this header.
#ifndef HOLDFAST_HPP
#define HOLDFAST_HPP

#include "holdfast/dictionary.hpp"
#include "holdfast/lease.hpp"
#include "holdfast/mutex.hpp"
#include "holdfast/result.hpp"

#endif
