// Words that options of phantora-run take. Each check gives what is wrong with one, as an end of a
// sentence; "" if nothing is.
#ifndef PHANTORA_TOOLS_RUN_OPTION_VALUES_H_
#define PHANTORA_TOOLS_RUN_OPTION_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>

namespace phantora {

// "full" or a number of bytes.
std::string CheckBytes(const std::string& given);

// "off", "small", "all", "gpu" or a number of thread instructions.
std::string CheckExecution(const std::string& given);

// "16G", "500MiB", "1.5 TB", a number of bytes; units are powers of 1024, as of ulimit and Slurm.
std::optional<uint64_t> ParseSize(const std::string& given);
std::string CheckSize(const std::string& given);

// A number above 0.
std::string CheckScale(const std::string& given);

// "NAME=VALUE" of an environment.
std::string CheckVariable(const std::string& given);

}  // namespace phantora

#endif  // PHANTORA_TOOLS_RUN_OPTION_VALUES_H_
