#include "tools/run/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "tools/run/manual.h"
#include "tools/run/option_names.h"

namespace phantora {
namespace {

// Words of a type such as off|small|N that are meant literally.
std::vector<std::string> WordsOf(const CLI::Option& option) {
  std::vector<std::string> words;
  const std::string type = TypeOf(option);
  if (!absl::StrContains(type, "|")) return words;
  for (const absl::string_view word : absl::StrSplit(type, '|')) {
    const bool literal = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return absl::ascii_islower(static_cast<unsigned char>(c)) || c == '-';
    });
    if (literal) words.emplace_back(word);
  }
  return words;
}

bool TakesPath(const CLI::Option& option) {
  const std::string type = TypeOf(option);
  return absl::StrContains(type, "FILE") || absl::StrContains(type, "DIR");
}

std::string BashCompletion(const CLI::App& app) {
  std::vector<std::string> own, flags, values, cases;
  for (const OwnCommand& command : OwnCommands()) own.emplace_back(command.name);
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> names = NamesOf(*option);
    flags.insert(flags.end(), names.begin(), names.end());
    if (!TakesValue(*option)) continue;
    values.insert(values.end(), names.begin(), names.end());
    const std::string pattern = absl::StrJoin(names, "|");
    std::string reply;
    if (option->check_lname("gpu")) {
      reply = "_phantora_words \"$(phantora-run gpus 2>/dev/null | cut -d' ' -f1)\"";
    } else if (option->check_lname("cluster")) {
      reply = "_phantora_words \"$(phantora-run clusters 2>/dev/null | cut -d' ' -f1)\"";
    } else if (const auto words = WordsOf(*option); !words.empty()) {
      reply = absl::StrCat("_phantora_words '", absl::StrJoin(words, " "), "'");
    } else if (TakesPath(*option)) {
      reply = "COMPREPLY=($(compgen -f -- \"$current\"))";
    }
    if (reply.empty()) reply = "COMPREPLY=()";
    cases.push_back(absl::StrCat("    ", pattern, ") ", reply, "; return ;;\n"));
  }
  return absl::StrCat(
      "# Completion of phantora-run for bash: eval \"$(phantora-run completion bash)\"\n"
      "_phantora_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$current\")); }\n"
      "_phantora_run() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} at=1\n"
      "  # After the options comes a command with completions of its own.\n"
      "  while ((at < COMP_CWORD)); do\n"
      "    case ${COMP_WORDS[at]} in\n"
      "    --) ((at += 1)); break ;;\n    ",
      absl::StrJoin(values, "|"),
      ") ((at += 2)) ;;\n"
      "    -*) ((at += 1)) ;;\n"
      "    *) break ;;\n"
      "    esac\n"
      "  done\n"
      "  if ((at < COMP_CWORD)) || [[ ${COMP_WORDS[at - 1]} == -- ]]; then\n"
      "    if [[ $at == 1 && ${COMP_WORDS[1]} == completion ]]; then\n"
      "      _phantora_words 'bash zsh fish'\n"
      "    elif declare -F _command_offset >/dev/null; then\n"
      "      _command_offset \"$at\"\n"
      "    elif ((at == COMP_CWORD)); then\n"
      "      COMPREPLY=($(compgen -c -f -- \"$current\"))\n"
      "    else\n"
      "      COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "    fi\n"
      "    return\n"
      "  fi\n"
      "  case $before in\n",
      absl::StrJoin(cases, ""),
      "  esac\n"
      "  if [[ $current == -* ]]; then\n"
      "    _phantora_words '",
      absl::StrJoin(flags, " "),
      "'\n"
      "  else\n"
      "    COMPREPLY=($(compgen -c -- \"$current\"))\n"
      "    if ((COMP_CWORD == 1)); then COMPREPLY+=($(compgen -W '",
      absl::StrJoin(own, " "),
      "' -- \"$current\")); fi\n"
      "  fi\n"
      "}\n"
      "complete -F _phantora_run phantora-run\n");
}

// As text between quotes of zsh's _arguments and of fish: no quotes, brackets or colons.
std::string Plain(const std::string& text) {
  return absl::StrReplaceAll(text.substr(0, text.find(". ")),
                             {{"'", ""}, {"[", "("}, {"]", ")"}, {":", ";"}, {"\\", ""}});
}

std::string ZshCompletion(const CLI::App& app) {
  std::string script =
      "#compdef phantora-run\n"
      "# Completion of phantora-run for zsh: source <(phantora-run completion zsh)\n"
      "_phantora_run() {\n"
      "  local state line\n"
      "  _arguments -S \\\n";
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : NamesOf(*option)) {
      std::string value;
      if (TakesValue(*option)) {
        const auto words = WordsOf(*option);
        const std::string choice =
            option->check_lname("gpu") ? "(${(f)\"$(phantora-run gpus | cut -d\" \" -f1)\"})"
            : option->check_lname("cluster")
                ? "(${(f)\"$(phantora-run clusters | cut -d\" \" -f1)\"})"
            : !words.empty()     ? absl::StrCat("(", absl::StrJoin(words, " "), ")")
            : TakesPath(*option) ? "_files"
                                 : "";
        value = absl::StrCat(":", Plain(TypeOf(*option)), ":", choice);
      }
      absl::StrAppend(&script, "    '", name, "[", Plain(option->get_description()), "]", value,
                      "' \\\n");
    }
  }
  std::vector<std::string> own;
  for (const OwnCommand& command : OwnCommands()) own.emplace_back(command.name);
  absl::StrAppend(&script,
                  "    '*:: :->command'\n"
                  "  [[ $state == command ]] || return\n"
                  "  if [[ $CURRENT == 1 ]]; then\n"
                  "    _alternative 'own:word of phantora-run:(",
                  absl::StrJoin(own, " "),
                  ")' 'commands:command:_command_names -e' 'files:file:_files'\n"
                  "  elif [[ $words[1] == completion ]]; then\n"
                  "    _values shell bash zsh fish\n"
                  "  else\n"
                  "    _normal\n"
                  "  fi\n"
                  "}\n"
                  "# In a folder of $fpath this file is the function.\n"
                  "if [[ ${funcstack[1]} == _phantora-run ]]; then\n"
                  "  _phantora_run \"$@\"\n"
                  "else\n"
                  "  compdef _phantora_run phantora-run\n"
                  "fi\n");
  return script;
}

std::string FishCompletion(const CLI::App& app) {
  std::string script =
      "# Completion of phantora-run for fish: phantora-run completion fish | source\n";
  for (const OwnCommand& command : OwnCommands()) {
    absl::StrAppend(&script, "complete -c phantora-run -n __fish_is_first_token -a ", command.name,
                    " -d '", Plain(std::string(command.about)), "'\n");
  }
  for (const CLI::Option* option : app.get_options()) {
    absl::StrAppend(&script, "complete -c phantora-run");
    for (const std::string& name : option->get_snames()) absl::StrAppend(&script, " -s ", name);
    for (const std::string& name : option->get_lnames()) absl::StrAppend(&script, " -l ", name);
    if (TakesValue(*option)) {
      absl::StrAppend(&script, TakesPath(*option) ? " -r" : " -x");
      const auto words = WordsOf(*option);
      if (option->check_lname("gpu") || option->check_lname("cluster")) {
        absl::StrAppend(&script, " -a '(phantora-run ",
                        option->check_lname("gpu") ? "gpus" : "clusters",
                        " | string split -f1 \" \")'");
      } else if (!words.empty()) {
        absl::StrAppend(&script, " -a '", absl::StrJoin(words, " "), "'");
      }
    }
    absl::StrAppend(&script, " -d '", Plain(option->get_description()), "'\n");
  }
  return script;
}

}  // namespace

std::string CompletionScript(const CLI::App& app, absl::string_view shell) {
  if (shell == "bash") return BashCompletion(app);
  if (shell == "zsh") return ZshCompletion(app);
  if (shell == "fish") return FishCompletion(app);
  return "";
}

}  // namespace phantora
