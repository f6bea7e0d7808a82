// See BUILD.
#include <cstdint>
#include <cstdio>
#include <string>

#include "trap/gpu/sass/printer.h"

int main() {
  using namespace phantora::sass;
  int architecture;
  unsigned long long low, high, index;
  while (std::scanf("%d %llx %llx %llx", &architecture, &low, &high, &index) == 4) {
    const Decoded decoded = Decode({low, high}, architecture, static_cast<uint32_t>(index));
    if (decoded.encoding == nullptr) {
      std::printf("?\t%s\t%016llx %016llx\n", decoded.why,
                  static_cast<unsigned long long>(decoded.unknown.low),
                  static_cast<unsigned long long>(decoded.unknown.high));
      continue;
    }
    const Text text = Print(decoded, architecture);
    std::printf("%s\t%s", text.guard.c_str(), text.name.c_str());
    for (const std::string& operand : text.operands) std::printf("\t%s", operand.c_str());
    std::printf("\n");
  }
  return 0;
}
