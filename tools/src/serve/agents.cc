// Asks the agents of clusters for their counts. If an agent is stopped or busy, this takes a second, and the agent's
// counts are missing.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "serve/view.h"

namespace holdfast::serve {

namespace {

constexpr double kAgentsTimeout = 0.9;  // seconds for all agents together

struct Question {
  std::string cluster;
  int fd;
};

void read_fields(std::string_view text, AgentView& agent) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (const std::size_t equals = line.find('='); equals != std::string_view::npos)
      agent.fields[std::string(line.substr(0, equals))] = line.substr(equals + 1);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  agent.answered = true;
}

std::vector<Question> ask_all(View& view) {
  std::vector<Question> questions;
  for (const DictionaryView& one : view.dictionaries) {
    const std::string cluster = static_cast<const char*>(one.cluster.name);
    if (!one.in_cluster || view.agents.contains(cluster)) continue;
    view.agents[cluster] = {};
    int fd = -1;
    if (holdfast_ask(one.dictionary.handle, HOLDFAST_ASK_STATUS, "", 0, 0, &fd) == HOLDFAST_OK)
      questions.push_back({cluster, fd});
  }
  return questions;
}

/// Reads the answer. Returns true if nothing more will arrive.
bool read_answer(const Question& question, AgentView& agent) {
  std::array<char, HOLDFAST_ANSWER_MAX> text{};
  std::size_t size = text.size();
  const int code = holdfast_answer(question.fd, text.data(), &size);
  if (code == HOLDFAST_OK) read_fields({text.data(), size}, agent);
  return code != HOLDFAST_TIMEOUT;
}

}  // namespace

void ask_agents(View& view) {
  std::vector<Question> questions = ask_all(view);
  const double end = holdfast_now() + kAgentsTimeout;
  while (!questions.empty()) {
    std::vector<pollfd> waiting;
    waiting.reserve(questions.size());
    for (const Question& question : questions) waiting.push_back({question.fd, POLLIN, 0});
    const double left = end - holdfast_now();
    if (left <= 0) break;
    ::poll(waiting.data(), waiting.size(), static_cast<int>(std::ceil(left * 1e3)));
    std::erase_if(questions,
                  [&](const Question& question) { return read_answer(question, view.agents[question.cluster]); });
  }
  for (const Question& question : questions) ::close(question.fd);
}

}  // namespace holdfast::serve
