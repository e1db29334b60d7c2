// The `holdfast` command.
#include "cli/commands.h"
#include "platform/standard_descriptors.h"
#include "run/title.h"

int main(int count, char** values) {
  holdfast::occupy_standard_descriptors();
  const holdfast::cli::Words words(values + 1, values + count);
  holdfast::cli::make_room_for_title(count, values);
  return holdfast::cli::run_command_line(words);
}
