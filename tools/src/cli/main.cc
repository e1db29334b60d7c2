// The `holdfast` command.
#include "cli/commands.h"
#include "platform/standard_descriptors.h"
#include "run/title.h"

int main(int count, char** values) {
  holdfast::occupy_standard_descriptors();
  holdfast::cli::Words words(values + 1, values + count);
  // A link named flock takes the place of flock(1).
  const std::string name = count > 0 ? values[0] : "";
  if (name.substr(name.rfind('/') + 1) == "flock") words.insert(words.begin(), "flock");
  holdfast::cli::make_room_for_title(count, values);
  return holdfast::cli::run_command_line(words);
}
