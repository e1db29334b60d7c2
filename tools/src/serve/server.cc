#include "serve/server.h"

#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "holdfast.h"
#include "serve/page.h"
#include "serve/reply.h"

namespace holdfast::serve {

namespace {

constexpr std::size_t kConnectionsMax = 256;
// Time limits in seconds for a request to arrive, for the client to receive the reply, and for the client to close the
// connection.
constexpr double kReadTimeout = 5;
constexpr double kWriteTimeout = 30;
constexpr double kCloseTimeout = 1;
// Time limits in seconds for reading the world, and for the doctor, which reads all memory.
constexpr double kWorldTimeout = 10;
constexpr double kDoctorTimeout = 120;
// The fractions of a core that gathering may use. Together with answering requests, the server uses less than 1 %.
constexpr double kWorldPart = 0.005;
constexpr double kDoctorPart = 0.001;
constexpr double kHistoryPart = 0.003;
/// If a sample is more than this number of seconds late, the machine or the server slept.
constexpr double kSlept = 5;
/// The pause in seconds before the next accept if there are no descriptors left.
constexpr double kPause = 0.1;
/// The size of the send buffer in bytes. By default, the kernel uses megabytes for each client that does not read.
constexpr int kSendBuffer = 32768;

/// Returns the text of the file. All connections share one copy.
Text text_of(const PageFile& file) {
  static std::map<const PageFile*, Text> texts;
  Text& text = texts[&file];
  if (text == nullptr) text = std::make_shared<const std::string>(file.text);
  return text;
}

/// Returns CLOCK_BOOTTIME in seconds, which also counts while the machine sleeps.
double boot_time() {
  constexpr double kNano = 1e-9;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * kNano;
}

}  // namespace

Server::Server(Settings settings, inspect::Descriptor listener)
    : settings_(std::move(settings)),
      listener_(std::move(listener)),
      world_([keys = settings_.keys] { return look_at_world(keys); }, kWorldTimeout, kWorldPart),
      doctor_(ask_doctor, kDoctorTimeout, kDoctorPart),
      sampler_([this] { return gather_sample(history_.wants_thorough()); }, kWorldTimeout, 1),
      history_(boot_time(), unix_time()) {
#ifdef __GLIBC__
  // Return the memory of large texts to the system immediately. By default, malloc raises this threshold when large
  // texts are freed.
  constexpr int kLargeText = 1 << 17;
  ::mallopt(M_MMAP_THRESHOLD, kLargeText);
#endif
}

void Server::run() {
  for (;;) {
    start_sample();
    const double before = holdfast_now();
    std::vector<pollfd> polled{{before >= accepts_after_ ? listener_.get() : -1, POLLIN, 0},
                               {world_.descriptor(), POLLIN, 0},
                               {doctor_.descriptor(), POLLIN, 0},
                               {sampler_.descriptor(), POLLIN, 0}};
    const std::size_t first = polled.size();
    std::vector<Connection*> those;
    for (Connection& one : connections_) {
      const short events = one.step == Step::writes ? POLLOUT : POLLIN;
      // A connection that waits for a document is not polled.
      polled.push_back({one.step == Step::awaits ? -1 : one.socket.get(), events, 0});
      those.push_back(&one);
    }
    ::poll(polled.data(), polled.size(), milliseconds_left(before));
    for (std::size_t i = 0; i < those.size(); ++i) handle(*those[i], polled[first + i].revents);
    if (polled[1].revents != 0 && world_.read()) answer_waiting(world_);
    if (polled[2].revents != 0 && doctor_.read()) answer_waiting(doctor_);
    if (polled[3].revents != 0 && sampler_.read()) keep_sample();
    drop_late(holdfast_now());
    if (polled[0].revents != 0) accept_all();
  }
}

int Server::milliseconds_left(double now) const {
  double next = now < accepts_after_ ? accepts_after_ : INFINITY;
  for (const Connection& one : connections_)
    if (one.step != Step::awaits) next = std::min(next, one.deadline);
  for (const Gatherer* const source : {&world_, &doctor_})
    if (source->deadline() != 0) next = std::min(next, source->deadline());
  next = std::min(next, sampler_.deadline() != 0 ? sampler_.deadline() : sample_at_);
  return std::isinf(next) ? -1 : static_cast<int>(std::ceil(std::max(next - now, 0.0) * 1e3));
}

void Server::start_sample() {
  if (sampler_.deadline() != 0 || holdfast_now() < sample_at_) return;
  if (sample_due_ != 0 && boot_time() > sample_due_ + kSlept) history_.add_gap();
  if (sampler_.documents() != nullptr) keep_sample();  // not null: no process could be started
}

void Server::keep_sample() {
  const auto latest = sampler_.latest();
  const auto found = latest->find(kSample);
  const auto sample = found != latest->end() ? parse_sample(*found->second) : std::nullopt;
  if (sample)
    history_.add(boot_time(), *sample);
  else
    history_.add_unknown(boot_time());
  // The pause depends on the average cost of a sample, because thorough samples take longer than others.
  samples_ = std::min(samples_ + 1, kChunkSamples);
  sample_cost_ += (sampler_.took() - sample_cost_) / static_cast<double>(samples_);
  const double pause = std::max(history_.pause(), seconds_kept(sample_cost_, kHistoryPart));
  sample_at_ = holdfast_now() + pause;
  sample_due_ = boot_time() + pause;
  drop_readers_of_old_texts();
}

void Server::accept_all() {
  for (;;) {
    inspect::Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) {
      const bool is_full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (is_full) accepts_after_ = holdfast_now() + kPause;
      return;
    }
    if (connections_.size() >= kConnectionsMax) make_room();
    if (connections_.size() >= kConnectionsMax) return;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
    connections_.push_back({std::move(socket), holdfast_now() + kReadTimeout});
  }
}

/// Closes the connection that has been silent longest, or the connection whose client receives its reply most slowly.
void Server::make_room() {
  auto found = std::find_if(connections_.begin(), connections_.end(),
                            [](const Connection& one) { return one.step == Step::reads || one.step == Step::closes; });
  if (found == connections_.end()) found = connections_.begin();
  connections_.erase(found);
}

std::size_t count_to_drop(const std::vector<Body>& bodies, const std::function<bool(const Text&)>& is_new) {
  // Count from the end, so that the newest connections remain.
  std::set<Text> kept;
  std::size_t size = 0;
  for (std::size_t i = bodies.size(); i > 0; --i) {
    for (const Text& text : bodies[i - 1]) {
      if (text == nullptr || is_new(text) || !kept.insert(text).second) continue;
      size += text->size();
      if (size > kOldTextsMax) return i;
    }
  }
  return 0;
}

void Server::drop_readers_of_old_texts() {
  std::vector<Body> bodies;
  for (const Connection& one : connections_) bodies.push_back(one.body);
  const auto is_new = [&](const Text& text) {
    for (const Gatherer* const source : {&world_, &doctor_}) {
      const auto latest = source->latest();
      if (latest && std::any_of(latest->begin(), latest->end(), [&](const auto& one) { return one.second == text; }))
        return true;
    }
    return history_.has(text);
  };
  auto connection = connections_.begin();
  for (std::size_t left = count_to_drop(bodies, is_new); left > 0; --left) {
    const Body& body = connection->body;
    const bool is_reader =
        std::any_of(body.begin(), body.end(), [&](const Text& text) { return text != nullptr && !is_new(text); });
    connection = is_reader ? connections_.erase(connection) : std::next(connection);
  }
}

void Server::drop_late(double now) {
  for (Gatherer* const source : {&world_, &doctor_}) {
    if (source->deadline() == 0 || source->deadline() > now) continue;
    source->give_up();
    answer_waiting(*source);
  }
  if (sampler_.deadline() != 0 && sampler_.deadline() <= now) {
    sampler_.give_up();
    keep_sample();
  }
  connections_.remove_if([&](Connection& one) {
    if (one.socket.get() < 0) return true;
    return one.step != Step::awaits && one.deadline <= now;
  });
}

void Server::handle(Connection& connection, short events) {
  if (events == 0) return;
  if (connection.step == Step::reads) return receive(connection);
  if (connection.step == Step::writes) return write(connection);
  if (connection.step == Step::closes) drain(connection);
}

void Server::receive(Connection& connection) {
  std::array<char, kRequestMax> room;
  const ssize_t size = ::recv(connection.socket.get(), room.data(), room.size(), 0);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return connection.socket.reset();
  connection.received.append(room.data(), static_cast<std::size_t>(size));
  if (is_complete(connection.received)) return answer(connection);
  if (connection.received.size() >= kRequestMax) send(connection, refusal(431, "the request is too long"));
}

void Server::answer(Connection& connection) {
  const auto request = parse_request(connection.received);
  connection.request.method = connection.received.substr(0, connection.received.find(' '));
  connection.received = {};
  if (!request) return send(connection, refusal(400, "not an HTTP/1.1 request"));
  connection.request = *request;
  const Place place = find(*request);
  if (Reply refused = judge(*request, place, settings_); refused.status != 200) return send(connection, refused);
  if (place.source == Source::page) {
    const PageFile* const file = find_page(place.document);
    return send(connection, {200, file->type, {text_of(*file)}});
  }
  if (place.source == Source::history)
    return send(connection, {200, place.type, history_.texts_from(place.from, boot_time(), unix_time())});
  Gatherer& source = place.source == Source::doctor ? doctor_ : world_;
  connection.document = place.document;
  if (const auto documents = source.documents()) return answer_from(connection, *documents);
  connection.source = &source;
  connection.step = Step::awaits;
}

void Server::answer_from(Connection& connection, const Texts& texts) {
  const auto found = texts.find(connection.document);
  if (found != texts.end()) return send(connection, {200, find(connection.request).type, {found->second}});
  if (const auto error = texts.find("error"); error != texts.end())
    return send(connection, refusal(503, *error->second));
  if (texts.contains(kTooLarge)) return send(connection, refusal(503, "too many dictionaries to show"));
  send(connection, refusal(404, "there is no such dictionary"));
}

void Server::answer_waiting(const Gatherer& source) {
  for (Connection& one : connections_)
    if (one.step == Step::awaits && one.source == &source) answer_from(one, *source.latest());
  drop_readers_of_old_texts();  // the previous texts are now old
}

void Server::send(Connection& connection, const Reply& reply) {
  connection.head = head_of(reply);
  if (connection.request.method != "HEAD") connection.body = reply.body;
  connection.step = Step::writes;
  connection.deadline = holdfast_now() + kWriteTimeout;
  write(connection);
}

void Server::write(Connection& connection) {
  for (;;) {
    const std::string& text = connection.part == 0 ? connection.head : *connection.body[connection.part - 1];
    if (connection.written == text.size()) {
      if (connection.part > 0) connection.body[connection.part - 1] = nullptr;
      if (connection.part == connection.body.size()) break;
      ++connection.part;
      connection.written = 0;
      continue;
    }
    const std::string_view rest = std::string_view(text).substr(connection.written);
    const ssize_t sent = ::send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) return connection.socket.reset();
    connection.written += static_cast<std::size_t>(sent);
  }
  // Read the rest of the input before closing. Otherwise, the kernel would discard the reply.
  ::shutdown(connection.socket.get(), SHUT_WR);
  connection.head = {};
  connection.body = {};
  connection.step = Step::closes;
  connection.deadline = holdfast_now() + kCloseTimeout;
}

void Server::drain(Connection& connection) {
  std::array<char, kRequestMax> room;
  const ssize_t size = ::recv(connection.socket.get(), room.data(), room.size(), 0);
  if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) return;
  connection.socket.reset();
}

}  // namespace holdfast::serve
