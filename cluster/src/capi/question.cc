// The C ABI for questions to a cluster's agent. Each function checks its arguments, calls one function and converts its
// result into the C form.
#include "gate/question.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "capi/handle.h"
#include "lock/release.h"
#include "platform/platform.h"
#include "world/world.h"

using namespace holdfast;
using namespace holdfast::capi;

namespace {

constexpr std::string_view kYes = "code=yes";
constexpr std::string_view kUnavailable = "code=unavailable";
constexpr std::string_view kUnsupported = "code=unsupported";

/// Returns the reason in an answer.
std::string sentence_of(std::string_view answer) {
  constexpr std::string_view kName = "\nsentence=";
  const std::size_t at = answer.find(kName);
  if (at == std::string_view::npos) return "the agent got no answer from the store";
  const std::string_view rest = answer.substr(at + kName.size());
  return std::string(rest.substr(0, rest.find('\n')));
}

/// Waits for the answer, and reads it. May return timeout or unavailable.
Code await_answer(int fd, double seconds, std::array<char, kAnswerMax>& text, std::size_t& size) noexcept {
  constexpr double kLongest = 1e6;
  const std::uint64_t begin = platform::monotonic_ns();
  double left = seconds;
  for (;;) {
    pollfd one{fd, POLLIN, 0};
    ::poll(&one, 1, static_cast<int>(std::ceil(std::clamp(left, 0.0, kLongest) * 1e3)));
    const Code code = read_answer(fd, text.data(), size);
    left = seconds - static_cast<double>(platform::monotonic_ns() - begin) / 1e9;
    if (code != Code::timeout || left <= 0) return code;
  }
}

/// Returns the dictionary's cluster, an empty string if the dictionary does not belong to a cluster, or nothing if it
/// was removed.
std::optional<std::string> cluster_of(Dictionary& dictionary) {
  const EpochGuard inside;
  const Segment* const segment = dictionary.segment(inside);
  if (segment == nullptr) return std::nullopt;
  return segment->gate_name();
}

}  // namespace

int holdfast_ask(holdfast_dict* dict, int question, const char* key, size_t key_length, uint64_t revision, int* fd) {
  return guarded([&]() -> int {
    static constexpr const char* kKinds[] = {"verify", "holder", "break", "status"};
    if (question < HOLDFAST_ASK_VERIFY || question > HOLDFAST_ASK_STATUS)
      return fail(Code::invalid, "bad question: expected verify (0), holder (1), break (2) or status (3)");
    const std::string_view asked = question == HOLDFAST_ASK_STATUS ? "" : std::string_view(key, key_length);
    if (question != HOLDFAST_ASK_STATUS)
      if (const int bad = check_key(key, key_length)) return bad;
    Dictionary& dictionary = unwrap(dict);
    const std::optional<std::string> cluster = cluster_of(dictionary);
    if (!cluster) return outcome(Code::removed, dictionary);
    if (cluster->empty())
      return fail({Code::not_found, "dictionary " + std::string(dictionary.quoted_name()) + " belongs to no cluster"});
    auto socket =
        ask_agent(dictionary.world().directory(), *cluster, {kKinds[question], dictionary.name(), revision, asked});
    if (!socket) return fail(socket.status());
    *fd = socket->release();
    return HOLDFAST_OK;
  });
}

int holdfast_answer(int fd, char* text, size_t* size) {
  return guarded([&]() -> int {
    if (*size < kAnswerMax)
      return fail(Code::invalid, "the buffer is too small for an answer; HOLDFAST_ANSWER_MAX bytes are enough");
    const Code code = read_answer(fd, text, *size);
    if (code != Code::timeout) ::close(fd);
    if (code == Code::ok) return HOLDFAST_OK;
    return fail(code, code == Code::unavailable ? "the agent has ended" : "");
  });
}

// Asks the store first, and then checks the lease. If the lease is valid, this machine has had the lock without
// interruption. So if the lease is valid after the answer, it was also valid when the store was read.
int holdfast_lock_verify(holdfast_dict* dict, const char* key, size_t key_length, const holdfast_lease* lease,
                         double seconds) {
  return guarded([&]() -> int {
    if (const int bad = check_key(key, key_length)) return bad;
    if (const int bad = check_seconds("seconds", seconds)) return bad;
    Dictionary& dictionary = unwrap(dict);
    const std::optional<std::string> cluster = cluster_of(dictionary);
    double left = 0;
    const Lease held{lease->owner, lease->sequence};
    const Code code = remaining(dictionary, {key, key_length}, held, left);
    if (code != Code::ok || !cluster || cluster->empty()) return outcome(code, dictionary);
    auto socket =
        ask_agent(dictionary.world().directory(), *cluster, {"verify", dictionary.name(), 0, {key, key_length}});
    if (!socket) return fail(socket.status());
    std::array<char, kAnswerMax> text;
    std::size_t size = 0;
    const Code came = await_answer(socket->get(), seconds, text, size);
    if (came == Code::timeout) return fail(came, "the agent did not answer in time");
    if (came != Code::ok) return fail(came, "the agent has ended");
    const std::string_view answer(text.data(), size);
    if (answer.starts_with(kUnavailable)) return fail({Code::unavailable, sentence_of(answer)});
    if (answer.starts_with(kUnsupported)) return fail({Code::unsupported, sentence_of(answer)});
    if (!answer.starts_with(kYes)) return outcome(Code::not_owner, dictionary);
    return outcome(remaining(dictionary, {key, key_length}, held, left), dictionary);
  });
}
