#include "agent/ring.h"

#include <sstream>

namespace holdfast::agent {

namespace {

void write(std::ostream& to, Waiter waiter) { to << ' ' << waiter.since << ' ' << encode_lease(waiter.lease); }

bool read(std::istream& from, Waiter& waiter) {
  std::string lease;
  if (!(from >> waiter.since >> lease)) return false;
  const auto decoded = decode_lease(lease);
  waiter.lease = decoded.value_or(0);
  return decoded.has_value();
}

Ring read_grant(std::istream& from, LockName name, Revision revision) {
  Grant grant{std::move(name), {}, 0};
  if (!(from >> grant.complete)) return {};
  for (Waiter waiter; read(from, waiter);) {
    if (waiter.since == 0) waiter.since = revision;
    grant.next.push_back(waiter);
  }
  return grant;
}

}  // namespace

std::string write_ring(const Ring& ring) {
  std::ostringstream text;
  if (const auto* grant = std::get_if<Grant>(&ring)) {
    text << "grant " << encode_lock(grant->name) << ' ' << grant->complete;
    for (const Waiter waiter : grant->next) write(text, waiter);
  } else if (const auto* note = std::get_if<Note>(&ring)) {
    text << "note " << encode_lock(note->name) << ' ' << note->grant;
    write(text, note->first);
  } else if (const auto* broken = std::get_if<Broken>(&ring)) {
    text << "broken " << encode_lock(broken->name) << ' ' << broken->grant;
  }
  return text.str();
}

Ring read_ring(const std::string& text, Revision revision) {
  std::istringstream from(text);
  std::string kind;
  std::string lock;
  if (!(from >> kind >> lock)) return {};
  auto name = decode_lock(lock);
  if (!name) return {};
  if (kind == "grant") return read_grant(from, *std::move(name), revision);
  Note note{*std::move(name), 0, {}};
  if (!(from >> note.grant)) return {};
  if (kind == "broken") return Broken{std::move(note.name), note.grant};
  if (kind == "note" && read(from, note.first)) return note;
  return {};
}

}  // namespace holdfast::agent
