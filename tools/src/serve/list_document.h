// A JSON document with a list, to which items are added while there is room.
#pragma once

#include <cstddef>
#include <string>

#include "inspect/json.h"

namespace holdfast::serve {

/// The maximum size of a document, in bytes. A server keeps at most two generations of eight documents, and also older
/// documents that clients are still receiving.
inline constexpr std::size_t kDocumentMax = std::size_t{3} << 20;
/// The maximum number of bytes of a key in a document.
inline constexpr std::size_t kKeyShown = 1024;

class ListDocument {
 public:
  /// `head` contains the fields before the list.
  ListDocument(const inspect::Json& head, const char* name) : text_(inspect::to_text(head, inspect::Layout::line)) {
    text_.back() = ',';  // replaces the closing brace
    text_ += inspect::to_text(name, inspect::Layout::line) + ":[";
  }

  /// Adds an item. If there is no room, omits this item and all later items.
  void add(const inspect::Json& item) {
    if (truncated_) return;
    const std::string text = inspect::to_text(item, inspect::Layout::line);
    truncated_ = text_.size() + text.size() + kEnd > kDocumentMax;
    if (truncated_) return;
    if (count_++ != 0) text_ += ',';
    text_ += text;
  }

  std::string text() && {
    return std::move(text_) + (truncated_ ? "],\"truncated\":true}\n" : "],\"truncated\":false}\n");
  }

 private:
  static constexpr std::size_t kEnd = 32;

  std::string text_;
  std::size_t count_ = 0;
  bool truncated_ = false;
};

/// Returns the beginning of a key that is too long, without a partial UTF-8 character.
inline std::string beginning_of(const std::string& key, std::size_t most = kKeyShown) {
  if (key.size() <= most) return key;
  std::size_t end = most;
  const auto continues = [&] { return (static_cast<unsigned char>(key[end]) & 0xC0) == 0x80; };
  while (end > most - 4 && continues()) --end;
  return key.substr(0, continues() ? most : end);
}

}  // namespace holdfast::serve
