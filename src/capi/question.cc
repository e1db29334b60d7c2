// Questions to the agent of a cluster: check the arguments, call one thing, map the result.
#include "cluster/question.h"

#include <unistd.h>

#include "capi/handle.h"
#include "world/world.h"

using namespace holdfast;
using namespace holdfast::capi;

int holdfast_ask(holdfast_dict* dict, int question, const char* key, size_t key_length, uint64_t revision, int* fd) {
  return guarded([&]() -> int {
    static constexpr const char* kKinds[] = {"verify", "holder", "break"};
    if (question < HOLDFAST_ASK_VERIFY || question > HOLDFAST_ASK_BREAK)
      return fail(Code::invalid, "bad question: expected verify (0), holder (1) or break (2)");
    if (const int bad = check_key(key, key_length)) return bad;
    Dictionary& dictionary = unwrap(dict);
    const Segment* const segment = dictionary.segment();
    if (segment == nullptr) return outcome(Code::removed, dictionary);
    if (!segment->in_cluster())
      return fail({Code::not_found, "dictionary " + std::string(dictionary.quoted_name()) + " belongs to no cluster"});
    auto asked = ask_agent(dictionary.world().directory(), segment->cluster(),
                           {kKinds[question], dictionary.name(), revision, {key, key_length}});
    if (!asked) return fail(asked.status());
    *fd = asked->release();
    return HOLDFAST_OK;
  });
}

int holdfast_answer(int fd, char* text, size_t* size) {
  return guarded([&]() -> int {
    if (*size < kAnswerMax) return fail(Code::invalid, "no room for an answer: HOLDFAST_ANSWER_MAX bytes are enough");
    const Code code = read_answer(fd, text, *size);
    if (code != Code::timeout) ::close(fd);
    if (code == Code::ok) return HOLDFAST_OK;
    return fail(code, code == Code::unavailable ? "the agent has ended" : "");
  });
}
