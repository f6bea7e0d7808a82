#include "trap/gpu/front/gpu_services.h"

namespace phantora {

const char* Name(PriceSource source) {
  switch (source) {
    case PriceSource::kMeasured:
      return "measured";
    case PriceSource::kInterpolated:
      return "interpolated";
    case PriceSource::kModelled:
      return "modelled";
    case PriceSource::kEstimated:
      return "estimated";
    case PriceSource::kPlaceholder:
      return "placeholder";
  }
  return "";
}

}  // namespace phantora
