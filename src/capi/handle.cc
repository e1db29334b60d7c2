#include "capi/handle.h"

#include <cmath>
#include <string>

#include "world/world.h"

namespace holdfast::capi {

namespace {

thread_local std::string last_error;

}  // namespace

int fail(const Status& status) noexcept {
  try {
    last_error = status.message;
  } catch (...) {
    last_error.clear();
  }
  return static_cast<int>(status.code);
}

int fail(Code code, const char* message) noexcept {
  try {
    last_error = message;
  } catch (...) {
    last_error.clear();
  }
  return static_cast<int>(code);
}

int fail_outcome(Code code, Dictionary& dictionary) noexcept {
  try {
    switch (code) {
      case Code::removed:
        return fail({code, "dictionary \"" + dictionary.name() + "\" was removed"});
      case Code::too_large:
        return fail({code, "key and value are too large: a dictionary of " + std::to_string(dictionary.capacity()) +
                               " bytes takes at most " + std::to_string(dictionary.room_for_one()) + " for both"});
      case Code::timeout:
        return fail(code, "the process that changes this part of the dictionary is stopped");
      case Code::busy:
        return fail(code, "called from inside another holdfast call of this thread");
      case Code::system:
        if (dictionary.world().token() == kNobody) return fail(World::last_failure());
        return fail({code, "cannot lock the file of dictionary \"" + dictionary.name() +
                               "\", whose mutex is \"file\": no descriptor is left, or the file is gone"});
      case Code::corrupt:
        return fail(code, "another process writes over the dictionary");
      default:  // the code says all
        last_error.clear();
        break;
    }
  } catch (...) {
    return fail(code, "out of memory");
  }
  return static_cast<int>(code);
}

int fail_key(const char* key, std::size_t length) noexcept {
  if (key == nullptr) return fail(Code::invalid, "nil key");
  if (length == 0) return fail(Code::invalid, "empty key");
  return fail(Code::invalid, "key too long");
}

int fail_seconds(const char* name, double seconds) noexcept {
  try {
    return fail({Code::invalid, std::string("bad \"") + name + "\": " + std::to_string(seconds) +
                                    ", expected a number of seconds, 0 or more"});
  } catch (...) {
    return fail(Code::invalid, "bad seconds");
  }
}

}  // namespace holdfast::capi

using holdfast::capi::last_error;

const char* holdfast_error(void) { return last_error.c_str(); }
