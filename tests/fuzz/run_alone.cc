// `holdfast run` for its command line only: what it runs is not linked.
#include "cli/commands.h"

namespace holdfast::cli {

const Subcommand kRun{"run", "", "", "", "", nullptr};

}  // namespace holdfast::cli
