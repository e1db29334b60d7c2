// The program `holdfast-tools`, which contains every command. `holdfast` executes it for commands that it does not
// contain itself.
#include <sys/prctl.h>

#include "cli/commands.h"
#include "platform/standard_descriptors.h"
#include "run/title.h"

int main(int count, char** values) {
  holdfast::occupy_standard_descriptors();
  ::prctl(PR_SET_NAME, "holdfast");  // the name that users know, under which holders of locks are shown
  const holdfast::cli::Words words(values + 1, values + count);
  holdfast::cli::make_room_for_title(count, values);
  return holdfast::cli::run_command_line(words);
}
