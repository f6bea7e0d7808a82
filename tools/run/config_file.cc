#include "tools/run/config_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace phantora {
namespace {

// A file of options has some lines.
constexpr size_t kLongest = 1 << 20;

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  absl::StatusOr<std::vector<ConfigItem>> Read() {
    std::ifstream file(path_, std::ios::binary);
    std::string text(kLongest + 1, '\0');
    if (!file.read(text.data(), kLongest + 1) && !file.eof()) {
      return absl::NotFoundError(absl::StrCat("cannot read ", path_));
    }
    text.resize(static_cast<size_t>(file.gcount()));
    if (text.size() > kLongest) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " is no file of options: too long"));
    }
    const toml::parse_result parsed = toml::parse(text, path_);
    if (!parsed) {
      return At(static_cast<int>(parsed.error().source().begin.line),
                std::string(parsed.error().description()));
    }
    for (const auto& [key, value] : parsed.table()) Add(std::string(key.str()), value);
    if (!wrong_.ok()) return wrong_;
    std::stable_sort(items_.begin(), items_.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return std::move(items_);
  }

 private:
  static int LineOf(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

  absl::Status At(int line, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ":", line, ": ", what));
  }

  void Wrong(const toml::node& node, const std::string& what) {
    if (wrong_.ok()) wrong_ = At(LineOf(node), what);
  }

  void Add(const std::string& key, const toml::node& value) {
    if (const toml::table* table = value.as_table()) {
      if (key != "env") {
        return Wrong(value, absl::StrCat("there is a table [env] only, and no [", key, "]"));
      }
      for (const auto& [name, text] : *table) {
        if (const auto word = WordOf(text)) {
          items_.push_back(
              {"env", absl::StrCat(std::string(name.str()), "=", *word), LineOf(text)});
        } else {
          Wrong(text, absl::StrCat("a variable of [env] is a word or a number"));
        }
      }
      return;
    }
    if (const toml::array* list = value.as_array()) {
      std::vector<std::string> words;
      for (const toml::node& each : *list) {
        const auto word = WordOf(each);
        if (!word) return Wrong(each, absl::StrCat(key, " is a list of words or numbers"));
        words.push_back(*word);
      }
      items_.push_back({key, absl::StrJoin(words, ","), LineOf(value)});
      return;
    }
    const auto word = WordOf(value);
    if (!word) return Wrong(value, absl::StrCat(key, " is a word, a number, true or false"));
    items_.push_back({key, *word, LineOf(value)});
  }

  // That is read as the same number again.
  static std::string ShortestOf(double number) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
  }

  static std::optional<std::string> WordOf(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
    if (const auto* number = node.as_floating_point()) return ShortestOf(number->get());
    if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
    return std::nullopt;
  }

  const std::string path_;
  std::vector<ConfigItem> items_;
  absl::Status wrong_;
};

}  // namespace

absl::StatusOr<std::vector<ConfigItem>> ReadConfigFile(const std::string& path) {
  return Reader(path).Read();
}

FoundConfig FindConfigFile() {
  struct stat status {};
  if (stat(kConfigFile, &status) != 0 || !S_ISREG(status.st_mode)) return {};
  FoundConfig found{.there = true};
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    found.refused = absl::StrCat("it belongs to another user (number ", status.st_uid, ")");
  } else if ((status.st_mode & S_IWOTH) != 0) {
    found.refused = "everybody can write to it";
  }
  return found;
}

}  // namespace phantora
