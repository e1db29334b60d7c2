// The program `holdfast-tools`: every command. `holdfast` runs it for those that it does not run itself.
#include <sys/prctl.h>

#include "cli/commands.h"
#include "platform/standard_descriptors.h"
#include "run/title.h"

int main(int count, char** values) {
  holdfast::occupy_standard_descriptors();
  ::prctl(PR_SET_NAME, "holdfast");  // which users know; a holder of a lock has this name
  const holdfast::cli::Words words(values + 1, values + count);
  holdfast::cli::make_room_for_title(count, values);
  return holdfast::cli::run_command_line(words);
}
