// `holdfast queue`: shows queues of resty.holdfast.queue, and pushes, takes and ends jobs.
#include "queue/queue_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/name.h"
#include "cli/key_command.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/print_json.h"
#include "holdfast.h"
#include "inspect/dictionaries.h"
#include "inspect/files.h"
#include "inspect/proc.h"
#include "inspect/text.h"
#include "inspect/world.h"

namespace holdfast::cli {

namespace {

using inspect::Json;

constexpr std::size_t kWordsMax = 10000;

std::string claims_of(const std::string& name) { return name + ".claims"; }

}  // namespace

void add_seconds(Arguments& arguments, const char* names, const char* text, Json& options, const char* field) {
  arguments.add_value(names, "SECONDS", text, [&options, field](const std::string& given) {
    double seconds = 0;
    std::string wrong = read_seconds(given, seconds);
    if (wrong.empty()) options[field] = seconds;
    return wrong;
  });
}

void add_wait(Arguments& arguments, Json& options) {
  add_seconds(arguments, "-w,--wait,--timeout", "Wait at most SECONDS; default: 5", options, "timeout");
}

std::string job_in_words(const Json& job) {
  return fmt::format("{}/{}", inspect::number_in_words(job["number"].get<double>()),
                     inspect::number_in_words(job["attempts"].get<double>()));
}

void QueueCommand::may_create() {
  arguments_.add_flag("--create", creates_, "Create the queue if it is missing");
  arguments_.add_value("--size", "SIZE", "With --create: the size of a new queue, such as 1m; default: 8m",
                       [this](const std::string& given) {
                         std::uint64_t bytes = 0;
                         std::string wrong = read_size(given, bytes);
                         if (wrong.empty()) options_["size"] = bytes;
                         return wrong;
                       });
}

void QueueCommand::may_take() {
  arguments_.add_value("--max-attempts", "N", "A job is dead after N attempts; default: 5",
                       [this](const std::string& given) {
                         const auto number = inspect::whole_number_of(given);
                         if (!number || *number == 0)
                           return fmt::format("bad number {}: expected 1 or more", quote(given));
                         options_["max_attempts"] = *number;
                         return std::string();
                       });
}

void QueueCommand::check() const {
  if (!creates_ && options_.contains("size")) arguments_.refuse("--size needs --create");
}

LuaQueue& QueueCommand::load() {
  options_["name"] = name();
  options_["create"] = creates_;
  queue_.emplace().get("open", options_);
  return *queue_;
}

LuaQueue& QueueCommand::open() {
  world_.enter(creates_ ? inspect::IfMissing::create : inspect::IfMissing::refuse);
  if (!creates_) {
    value_or_fail(inspect::attach(name()));
    if (!inspect::attach(claims_of(name()))) fail("{} is a dictionary, but not a queue", quote_name(name()));
  }
  return load();
}

LuaQueue& QueueCommand::observe() {
  world_.observe();
  value_or_fail(inspect::attach(name()));
  if (!inspect::attach(claims_of(name()))) fail("{} is a dictionary, but not a queue", quote_name(name()));
  return load();
}

namespace {

// --- ls ---

/// Returns the dictionaries that are queues.
std::vector<std::string> queues_among(const std::vector<std::string>& names) {
  std::vector<std::string> queues;
  for (const std::string& name : names)
    if (std::binary_search(names.begin(), names.end(), claims_of(name))) queues.push_back(name);
  return queues;
}

std::vector<Cell> row_of(const std::string& name, const Json& counts) {
  const auto count = [&](const char* field) { return inspect::number_in_words(counts[field].get<double>()); };
  std::string workers;
  for (const Json& worker : counts["workers"])
    workers += fmt::format("{}{}", workers.empty() ? "" : ",", worker["pid"].get<std::uint64_t>());
  const double oldest = counts["oldest"].get<double>();
  const bool has_dead = counts["dead"].get<double>() > 0;
  return {Cell(inspect::escaped(name)),
          Cell(count("ready")),
          Cell(count("delayed")),
          Cell(count("taken")),
          Cell(count("dead"), has_dead ? Style::red : Style::plain),
          Cell(inspect::duration_in_words(oldest), Style::plain, inspect::number_in_words(oldest)),
          Cell(workers.empty() ? "-" : workers)};
}

int run_ls(Arguments& arguments) {
  WorldOptions world(arguments, WorldOptions::Prints::columns);
  arguments.parse(0, kWordsMax, {"NAME"});
  const auto directory = world.observe_if_used(arguments.words());
  std::vector<std::string> names;
  if (directory) names = queues_among(value_or_fail(inspect::named_dictionaries(*directory)));
  for (const std::string& name : arguments.words())
    if (!std::binary_search(names.begin(), names.end(), name)) fail("there is no queue {}", quote_name(name));
  using Align = Table::Align;
  Table table({{"QUEUE", Align::left, true, 1},
               {"READY", Align::right, false, 1},
               {"DELAYED", Align::right},
               {"TAKEN", Align::right},
               {"DEAD", Align::right},
               {"OLDEST", Align::right},
               {"WORKERS", Align::left, true}});
  Json queues = Json::array();
  std::optional<LuaQueue> lua;
  for (const std::string& name : arguments.words().empty() ? names : arguments.words()) {
    if (!lua) lua.emplace();
    lua->get("open", {{"name", name}});
    Json counts = lua->get("stats");
    if (!counts["workers"].is_array()) counts["workers"] = Json::array();
    table.add(row_of(name, counts));
    Json queue;
    inspect::add_text(queue, "name", name);
    for (const char* const field : {"ready", "delayed", "taken", "dead", "oldest", "workers"})
      queue[field] = counts[field];
    queues.push_back(std::move(queue));
  }
  const Output output = world.output();
  if (world.json()) {
    Json json;
    inspect::add_text(json, "directory", directory.value_or(inspect::directory_to_be()));
    json["queues"] = std::move(queues);
    print_json(json, output);
  } else if (!table.empty()) {
    print(table.text(output));
  } else if (output.columns && directory) {
    print(fmt::format("no queues in {}\n", *directory));
  }
  return exit_status::kYes;
}

// --- push and take ---

int run_push(Arguments& arguments) {
  QueueCommand command(arguments, WorldOptions::Prints::nothing);
  Json job = Json::object();
  bool from_input = false;
  command.may_create();
  arguments.add_flag("--stdin", from_input, "Read the job from standard input");
  add_seconds(arguments, "--delay", "Make the job available only after SECONDS", job, "delay");
  std::uint64_t priority = 0;
  arguments.add_number("--priority", "N", "Have the job taken before jobs with a lower priority; default: 0", priority,
                       {.most = 1000});
  arguments.add_value("--key", "KEY", "Push only if no job with this key exists", [&job](const std::string& given) {
    job["key"] = given;
    const bool is_bad = given.empty() || given.size() >= HOLDFAST_KEY_MAX;
    return is_bad ? fmt::format("bad key: expected 1 to {} bytes, got {}", HOLDFAST_KEY_MAX - 1, given.size()) : "";
  });
  std::uint64_t most = 0;
  arguments.add_number("--max", "N", "Wait while N or more jobs are ready; default: no limit", most, {.least = 1});
  add_wait(arguments, job);
  arguments.parse(1, 2, {"NAME", "JOB"});
  command.check();
  if ((arguments.words().size() == 2) == from_input) arguments.refuse("expected either JOB or --stdin");
  const auto text = from_input ? inspect::read_whole("/dev/stdin") : arguments.word(1);
  if (!text) fail("cannot read standard input");
  job["value"] = *text;
  job["priority"] = priority;
  if (most != 0) command.options()["max"] = most;
  const LuaQueue::Answer answer = command.open().call("push", job);
  if (answer.error == "exists")
    return say_no("there is a job with the key {}", quote_key(job["key"].get<std::string>()));
  if (answer.error == "full") return say_no("the queue {} is full", quote_name(command.name()));
  if (answer.value.is_null()) fail("{}", answer.error);
  print(inspect::number_in_words(answer.value.get<double>()) + "\n");
  return exit_status::kYes;
}

Json for_json(const Json& job) {
  Json json{{"number", job["number"]}, {"attempts", job["attempts"]}};
  if (job["value"].is_string())
    inspect::add_text(json, "value", job["value"].get<std::string>());
  else
    json["value"] = job["value"];
  return json;
}

int run_take(Arguments& arguments) {
  QueueCommand command(arguments, WorldOptions::Prints::something);
  Json options{{"lease", nullptr}};
  command.may_create();
  command.may_take();
  add_seconds(arguments, "--lease", "Reserve the job for SECONDS; required", options, "lease");
  add_wait(arguments, options);
  arguments.parse(1, 1, {"NAME"});
  command.check();
  if (options["lease"].is_null()) arguments.refuse("no --lease was given: how long may the job take?");
  const LuaQueue::Answer answer = command.open().call("take", options);
  if (answer.error == "timeout") return say_no("no job can be taken from {}", quote_name(command.name()));
  if (answer.value.is_null()) fail("{}", answer.error);
  const Output output = command.world().output();
  if (command.world().json()) {
    print_json(for_json(answer.value), output);
    return exit_status::kYes;
  }
  const std::string job = job_as_bytes(answer.value["value"]);
  print(job_in_words(answer.value) + "\n" + (output.columns ? inspect::escaped(job) + "\n" : job));
  return exit_status::kYes;
}

// --- done, retry and dead ---

/// Reads NUMBER or NUMBER/ATTEMPTS.
Json read_job(const Arguments& arguments, const std::string& word) {
  const std::size_t slash = word.find('/');
  const auto number = inspect::whole_number_of(word.substr(0, slash));
  Json job{{"number", number.value_or(0)}};
  std::optional<std::uint64_t> attempts = 1;
  if (slash != std::string::npos) {
    attempts = inspect::whole_number_of(word.substr(slash + 1));
    job["attempts"] = attempts.value_or(0);
  }
  if (!number || *number == 0 || !attempts || *attempts == 0)
    arguments.refuse(fmt::format("bad job {}: expected NUMBER or NUMBER/ATTEMPTS, as in 4711/1", quote(word)));
  return job;
}

/// Calls a function of queue.lua for each job. Returns 1 if one of the jobs does not exist or another worker has taken
/// it.
int change_jobs(QueueCommand& command, const Arguments& arguments, const char* function, const Json& options) {
  std::vector<Json> jobs;
  for (std::size_t i = 1; i < arguments.words().size(); ++i) {
    Json job = read_job(arguments, arguments.word(i));
    job.update(options);
    jobs.push_back(std::move(job));
  }
  LuaQueue& queue = command.open();
  int status = exit_status::kYes;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const std::string word = arguments.word(i + 1);
    const LuaQueue::Answer answer = queue.call(function, jobs[i]);
    if (answer.error == "not found")
      status = say_no("there is no job {}", word);
    else if (answer.error == "not owner")
      status = say_no("job {} is taken by another worker, or has a different number of attempts", word);
    else if (answer.value.is_null())
      fail("{}", answer.error);
    else if (answer.error == "dead")
      say("job {} is dead", word);
  }
  return status;
}

int run_done(Arguments& arguments) {
  QueueCommand command(arguments, WorldOptions::Prints::nothing);
  arguments.parse(2, kWordsMax, {"NAME", "JOB"});
  return change_jobs(command, arguments, "done", Json::object());
}

int run_retry(Arguments& arguments) {
  QueueCommand command(arguments, WorldOptions::Prints::nothing);
  command.may_take();
  Json options = Json::object();
  add_seconds(arguments, "--delay", "Make the job available only after SECONDS", options, "delay");
  arguments.parse(2, kWordsMax, {"NAME", "JOB"});
  return change_jobs(command, arguments, "retry", options);
}

int run_dead(Arguments& arguments) {
  QueueCommand command(arguments, WorldOptions::Prints::columns);
  std::uint64_t most = 100;
  arguments.add_number("--max", "N", "Print at most N jobs; default: 100", most, {});
  arguments.parse(1, 1, {"NAME"});
  const Json dead = command.observe().get("dead", {{"max", most}});
  Table table({{"JOB", Table::Align::left, false, 1}, {"VALUE", Table::Align::left, true}});
  Json jobs = Json::array();
  for (const Json& job : dead) {
    jobs.push_back(for_json(job));
    table.add({Cell(job_in_words(job)), Cell(inspect::escaped(job_as_bytes(job["value"])))});
  }
  const Output output = command.world().output();
  if (command.world().json())
    print_json(jobs, output);
  else if (!table.empty())
    print(table.text(output));
  return exit_status::kYes;
}

// Runs `holdfast queue` without a subcommand. Each subcommand has its own row in the table of commands.
int run_queue(Arguments& arguments) {
  constexpr const char* kExpected = "expected ls, push, take, done, retry, dead or work";
  arguments.parse(0, SIZE_MAX, {});
  if (arguments.words().empty()) arguments.refuse(fmt::format("no subcommand was given: {}", kExpected));
  arguments.refuse(fmt::format("unknown subcommand {}: {}", quote(arguments.word(0)), kExpected));
}

}  // namespace

const Subcommand kQueue{"queue",         "Push, take and run the jobs of a queue",
                        "SUBCOMMAND",    "Push, take and run the jobs of a queue of resty.holdfast.queue.",
                        R"(Subcommands:
  ls     Show how many jobs each queue has
  push   Add a job
  work   Run a command for each job
  take   Take a job, and print it
  done   End jobs
  retry  Make jobs available again
  dead   Show the jobs that failed too often

Run "holdfast queue SUBCOMMAND --help" for help on a subcommand.)", run_queue};

const Subcommand kQueueLs{
    "queue ls",
    "Show how many jobs each queue has",
    "[NAME...]",
    "Show how many jobs each queue has.",
    R"(A terminal gets columns. Anything else gets one line per queue with tab-separated fields: name,
ready, delayed, taken and dead jobs, seconds since the oldest ready job was pushed, pids of the
workers that have jobs.)",
    run_ls};

const Subcommand kQueuePush{"queue push",
                            "Add a job",
                            "NAME [JOB]",
                            "Add a job to a queue, and print its number.",
                            R"(With --stdin, omit JOB: it is read from standard input.

Exit status: 0 success; 1 the queue is full, or a job with the key exists; 2 error.)",
                            run_push};

const Subcommand kQueueTake{"queue take",
                            "Take a job, and print it",
                            "NAME --lease SECONDS",
                            "Take a job, and print its name (NUMBER/ATTEMPTS) on one line, then the job itself.",
                            R"(The job can be taken again after SECONDS, unless "holdfast queue done" has ended it:

  holdfast queue take mails --lease 60 | {
      read -r job && send-mail && holdfast queue done mails "$job"
  }

Exit status: 0 success; 1 there was no job; 2 error.)",
                            run_take};

const Subcommand kQueueDone{
    "queue done",
    "End jobs",
    "NAME JOB...",
    "End jobs that \"holdfast queue take\" has taken, or that nobody has taken.",
    R"(JOB is NUMBER/ATTEMPTS, as "holdfast queue take" and "holdfast queue dead" print it. NUMBER
alone is enough for a job that was not taken.

Exit status: 0 success; 1 a job does not exist, or is taken by another worker; 2 error.)",
    run_done};

const Subcommand kQueueRetry{
    "queue retry",
    "Make jobs available again",
    "NAME JOB...",
    "Make jobs that \"holdfast queue take\" has taken, or dead jobs, available again.",
    R"(JOB is as for "holdfast queue done". A job that has been taken --max-attempts times becomes dead
instead.

Exit status: 0 success; 1 a job does not exist, or is taken by another worker; 2 error.)",
    run_retry};

const Subcommand kQueueDead{"queue dead",
                            "Show the jobs that failed too often",
                            "NAME",
                            "Show the jobs that failed too often, the oldest first.",
                            R"(To put them back: holdfast queue dead NAME | cut -f1 | xargs holdfast queue retry NAME
To delete them, use "done" instead of "retry".)",
                            run_dead};

}  // namespace holdfast::cli
