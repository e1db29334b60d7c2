#include "cluster/question.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace holdfast::cli {

namespace {

Answer parse(std::string_view text) {
  Answer answer;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (const std::size_t equals = line.find('='); equals != std::string_view::npos)
      answer[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return answer;
}

}  // namespace

Expected<Answer> ask_agent(holdfast_dict* dict, holdfast_question question, const std::string& key,
                           std::uint64_t revision, double seconds) {
  int fd = -1;
  if (const int code = holdfast_ask(dict, question, key.data(), key.size(), revision, &fd); code != HOLDFAST_OK)
    return Status{static_cast<Code>(code), holdfast_error()};
  return await_answer(fd, seconds);
}

Expected<Answer> await_answer(int fd, double seconds) {
  std::array<char, HOLDFAST_ANSWER_MAX> text{};
  std::size_t size = text.size();
  pollfd one{fd, POLLIN, 0};
  ::poll(&one, 1, static_cast<int>(seconds * 1e3));
  const int code = holdfast_answer(fd, text.data(), &size);
  if (code == HOLDFAST_TIMEOUT) {
    ::close(fd);
    return Status{Code::timeout, fmt::format("the agent did not answer within {:g} s", seconds)};
  }
  if (code != HOLDFAST_OK) return Status{static_cast<Code>(code), holdfast_error()};
  Answer answer = parse({text.data(), size});
  if (answer["code"] == "unavailable") return Status{Code::unavailable, answer["sentence"]};
  if (answer["code"] == "unsupported") return Status{Code::unsupported, answer["sentence"]};
  return answer;
}

}  // namespace holdfast::cli
