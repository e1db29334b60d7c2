#include "service/dictionaries.h"

#include <dirent.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <utility>

#include "dict/layout.h"
#include "dict/registry.h"
#include "world/file_use.h"
#include "world/world.h"
#include "world/world_file.h"

namespace holdfast::agent {

namespace {

struct Close {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

}  // namespace

Dictionaries::Dictionaries(World& world, std::string cluster) : world_(world), cluster_(std::move(cluster)) { watch(); }

void Dictionaries::watch() {
  const std::string& path = world_.directory().path();
  notice_ = platform::FileDescriptor(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (notice_ && ::inotify_add_watch(notice_.get(), path.c_str(), IN_CREATE | IN_MOVED_TO | IN_DELETE) >= 0) return;
  const int error = errno;
  trouble_ = "cannot watch " + path + ": " + platform::error_text(error);
  notice_.reset();
}

Dictionary* Dictionaries::find(const std::string& name) const {
  const auto found = all_.find(name);
  return found != all_.end() ? found->second : nullptr;
}

Dictionaries::Kind Dictionaries::kind_of(const std::string& file) const {
  // Only read the file, without cleaning up after other processes, because the cleaning may take as long as a lease
  // lasts.
  auto opened = look_at_world_file(world_.directory(), file, FileKind::dictionary);
  if (!opened) return opened.status().code == Code::not_found ? Kind::other : Kind::unknown;
  if (opened->header().retired.load(kRelaxed) != 0) return Kind::other;
  const auto& header = *reinterpret_cast<const DictionaryHeader*>(opened->page->data());
  if (!is_gate_name_sound(header.gate)) return Kind::unknown;
  return gate_name(header.gate) == cluster_ ? Kind::ours : Kind::other;
}

Dictionary* Dictionaries::attach(const std::string& name) const {
  auto opened = Registry::get().attach(name);
  const EpochGuard inside;
  const Segment* const segment = opened ? (*opened)->segment(inside) : nullptr;
  return segment != nullptr && segment->gate() != nullptr && segment->gate_name() == cluster_ ? *opened : nullptr;
}

void Dictionaries::check_again() noexcept {
  constexpr int kRarest = 64;  // the largest interval, in calls; no benchmark depends on it
  calls_ = incomplete_ ? calls_ + 1 : 0;
  const bool is_time = std::has_single_bit(static_cast<unsigned>(calls_)) || calls_ % kRarest == 0;
  if (!notice_ || (incomplete_ && is_time)) changed_ = true;
}

void Dictionaries::refresh() {
  std::array<char, 4096> events{};
  while (notice_ && ::read(notice_.get(), events.data(), events.size()) > 0) changed_ = true;
  // A dictionary belongs to its cluster as long as it exists, even if its header was overwritten.
  std::erase_if(all_, [](const auto& one) { return one.second->segment(EpochGuard()) == nullptr; });
  if (!std::exchange(changed_, false)) return;
  const std::unique_ptr<DIR, Close> directory(::opendir(world_.directory().path().c_str()));
  incomplete_ = directory == nullptr;
  if (incomplete_) return;
  std::set<std::pair<std::string, ino_t>> others;
  const auto next = [&directory] {
    errno = 0;
    return ::readdir(directory.get());
  };
  while (const dirent* const entry = next()) {
    const std::string file = entry->d_name;
    const auto name = dictionary_of_file(file);
    if (!name || all_.contains(*name) || (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN)) continue;
    const std::pair<std::string, ino_t> seen(file, entry->d_ino);
    const Kind kind = others_.contains(seen) ? Kind::other : kind_of(file);
    if (kind == Kind::other) {
      others.insert(seen);
      continue;
    }
    Dictionary* const dictionary = kind == Kind::ours ? attach(*name) : nullptr;
    if (dictionary != nullptr)
      all_[*name] = dictionary;
    else
      incomplete_ = true;
  }
  if (errno != 0) incomplete_ = true;
  others_ = std::move(others);
}

}  // namespace holdfast::agent
