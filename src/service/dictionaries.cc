#include "service/dictionaries.h"

#include <dirent.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "dict/layout.h"
#include "dict/names.h"
#include "dict/registry.h"
#include "world/world.h"
#include "world/world_file.h"

namespace holdfast::agent {

namespace {

struct Close {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

}  // namespace

Dictionaries::Dictionaries(World& world, std::string cluster)
    : world_(world), cluster_(std::move(cluster)), notice_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  const int watch = notice_.get() < 0 ? -1
                                      : ::inotify_add_watch(notice_.get(), world_.directory().path().c_str(),
                                                            IN_CREATE | IN_MOVED_TO | IN_DELETE);
  if (watch < 0) throw std::system_error(errno, std::generic_category(), "cannot watch " + world_.directory().path());
}

Dictionary* Dictionaries::find(const std::string& name) const {
  const auto found = all_.find(name);
  return found != all_.end() ? found->second : nullptr;
}

Dictionaries::Kind Dictionaries::kind_of(const std::string& file) const {
  auto opened = open_world_file(world_.directory(), file, FileKind::dictionary);
  if (!opened) return opened.status().code == Code::not_found ? Kind::other : Kind::unknown;
  if (opened->header().retired.load(kRelaxed) != 0) return Kind::other;
  const auto& header = *reinterpret_cast<const DictionaryHeader*>(opened->page.data());
  if (!is_cluster_name_sound(header.cluster)) return Kind::unknown;
  return cluster_name(header.cluster) == cluster_ ? Kind::ours : Kind::other;
}

void Dictionaries::look_again() noexcept {
  constexpr int kRarest = 64;
  calls_ = incomplete_ ? calls_ + 1 : 0;
  const bool is_time = std::has_single_bit(static_cast<unsigned>(calls_)) || calls_ % kRarest == 0;
  if (incomplete_ && is_time) changed_ = true;
}

void Dictionaries::refresh() {
  std::array<char, 4096> events{};
  while (::read(notice_.get(), events.data(), events.size()) > 0) changed_ = true;
  std::erase_if(all_, [this](const auto& one) {
    const Segment* const segment = one.second->segment();
    return segment == nullptr || !segment->in_cluster() || segment->cluster() != cluster_;
  });
  if (!std::exchange(changed_, false)) return;
  const std::unique_ptr<DIR, Close> directory(::opendir(world_.directory().path().c_str()));
  incomplete_ = directory == nullptr;
  if (incomplete_) return;
  std::set<std::pair<std::string, ino_t>> others;
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string file = entry->d_name;
    const auto name = dictionary_of_file(file);
    if (!name || all_.contains(*name)) continue;
    const std::pair<std::string, ino_t> seen(file, entry->d_ino);
    const Kind kind = others_.contains(seen) ? Kind::other : kind_of(file);
    if (kind == Kind::other) {
      others.insert(seen);
    } else if (auto opened = Registry::get().attach(*name); opened && (*opened)->in_cluster()) {
      all_[*name] = *opened;
    } else {
      incomplete_ = true;
    }
  }
  others_ = std::move(others);
}

}  // namespace holdfast::agent
