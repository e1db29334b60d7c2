// In a library that is built without cluster/.
#include "dict/gate.h"

namespace holdfast {

const Gate* cluster_gate() noexcept { return nullptr; }

}  // namespace holdfast
