// Calls every function of a dictionary on a box that may be damaged, and checks the results.
#pragma once

#include <string>
#include <string_view>

#include "damage/box.h"
#include "support/call_limit.h"

namespace holdfast::damage {

class Battery {
 public:
  Battery(Box& box, test::CallLimit& limit);
  ~Battery();
  Battery(const Battery&) = delete;
  Battery& operator=(const Battery&) = delete;

  /// Makes all calls. Returns a description of the first forbidden result, or "".
  std::string run();

  /// Returns whether a stored value or a held lock was missing although no process had removed it.
  bool lost() const { return lost_; }
  /// Returns whether a call reported the damage.
  bool named() const { return named_; }
  /// Returns whether the live process's lock was also granted to another process.
  bool ownership_violated() const { return ownership_violated_; }

 private:
  void look();
  void look_at(const Item& item);
  void compare_versions(const Item& item);
  void look_at_all();
  void change();
  void change_value(const Item& item);
  void change_list(const Item& item);
  void change_lock(const Item& item);
  void change_permits(const Item& item);
  void wait_for(const Item& item);
  void fill_up();
  void finish();
  void use_as_new();
  void use_locks_as_new();

  int heard(const char* name, int code);
  void fail(const std::string& what);
  template <class Call>
  int call(const char* name, Call&& call);
  void expect(const char* name, bool good);

  Box& box_;
  test::CallLimit& limit_;
  holdfast_parker* parker_;
  std::uint32_t waiter_;
  std::uint64_t repairs_ = 0;
  std::string problem_;
  bool lost_ = false;
  bool named_ = false;
  bool ownership_violated_ = false;
  bool removed_ = false;  // a call reported the removal, so nothing is left to check
};

}  // namespace holdfast::damage
