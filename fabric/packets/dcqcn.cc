#include "fabric/packets/dcqcn.h"

#include <algorithm>

namespace phantora {
namespace {

constexpr double kBytesPerGbit = 1e9 / 8;

}  // namespace

DcqcnOptions DcqcnOptions::Paper(double link_bytes_per_s) {
  DcqcnOptions options;
  const double scale = link_bytes_per_s / (40 * kBytesPerGbit);
  options.increase_bytes *= scale;
  options.additive_bytes_per_s *= scale;
  options.hyper_bytes_per_s *= scale;
  options.least_bytes_per_s *= scale;
  return options;
}

DcqcnOptions DcqcnOptions::Vendor(double link_bytes_per_s) {
  DcqcnOptions options;
  const double scale = link_bytes_per_s / (25 * kBytesPerGbit);
  options.cnp_interval = VirtualSpan::Microseconds(4);
  options.alpha_timer = VirtualSpan::Microseconds(1);
  options.increase_timer = VirtualSpan::Microseconds(300);
  options.increase_bytes = 0;
  options.fast_recoveries = 1;
  options.additive_bytes_per_s = 5e6 / 8 * scale;
  options.hyper_bytes_per_s = 50e6 / 8 * scale;
  options.least_bytes_per_s = 1 * kBytesPerGbit;
  options.keeps_target = true;
  return options;
}

void DcqcnRate::OnCnp() {
  if (!limited_) alpha_ = 1;
  const bool again = limited_ && timer_rounds_ == 0 && byte_rounds_ == 0;
  if (!again || !options_->keeps_target) target_ = rate_;
  rate_ = std::max(std::min(options_->least_bytes_per_s, line_), rate_ * (1 - alpha_ / 2));
  limited_ = notified_ = true;
  timer_rounds_ = byte_rounds_ = 0;
  sent_ = 0;
}

void DcqcnRate::OnAlphaTimer() {
  alpha_ = (1 - options_->gain) * alpha_ + (notified_ ? options_->gain : 0);
  notified_ = false;
}

void DcqcnRate::OnIncreaseTimer() {
  ++timer_rounds_;
  Increase();
}

void DcqcnRate::OnSent(double bytes) {
  if (!limited_ || options_->increase_bytes <= 0) return;
  sent_ += bytes;
  if (sent_ < options_->increase_bytes) return;
  sent_ -= options_->increase_bytes;
  ++byte_rounds_;
  Increase();
}

// Fast recovery towards where it was; then on from there, and faster if time and bytes agree.
void DcqcnRate::Increase() {
  const int most = std::max(timer_rounds_, byte_rounds_);
  const int least =
      options_->increase_bytes > 0 ? std::min(timer_rounds_, byte_rounds_) : timer_rounds_ - 1;
  if (least > options_->fast_recoveries) {
    target_ += options_->hyper_bytes_per_s;
  } else if (most > options_->fast_recoveries) {
    target_ += options_->additive_bytes_per_s;
  }
  target_ = std::min(target_, line_);
  rate_ = (rate_ + target_) / 2;
  // Closer is the link's speed.
  if (rate_ > line_ * 0.999) {
    rate_ = line_;
    limited_ = false;
  }
}

}  // namespace phantora
