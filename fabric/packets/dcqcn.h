// DCQCN, the congestion control of RoCE NICs: the rate of one sender.
#ifndef PHANTORA_FABRIC_PACKETS_DCQCN_H_
#define PHANTORA_FABRIC_PACKETS_DCQCN_H_

#include "clock/virtual_time.h"

namespace phantora {

// Names in brackets are those of Zhu et al., Congestion Control for Large-Scale RDMA Deployments,
// SIGCOMM 2015; the defaults are its values, for links of 40 Gbit/s.
struct DcqcnOptions {
  VirtualSpan cnp_interval = VirtualSpan::Microseconds(50);    // [N] of a receiver, for each flow
  VirtualSpan alpha_timer = VirtualSpan::Microseconds(55);     // [K]
  double gain = 1.0 / 256;                                     // [g]
  VirtualSpan increase_timer = VirtualSpan::Microseconds(55);  // [T]
  double increase_bytes = 10e6;                                // [B]; 0: only the timer counts
  int fast_recoveries = 5;                                     // [F] halvings of the distance
  double additive_bytes_per_s = 40e6 / 8;                      // [R_AI]
  // [R_HAI]; the paper names none. Ten times R_AI, as in vendors' defaults (5 and 50 Mbit/s).
  double hyper_bytes_per_s = 400e6 / 8;
  double least_bytes_per_s = 40e6 / 8;
  // Decreases without an increase between them keep the first one's target [R_T], as ConnectX does
  // (RdmaHw::CheckRateDecreaseMlx in alibaba-edu/High-Precision-Congestion-Control); in the paper
  // each sets it anew.
  bool keeps_target = false;

  // The paper's, with what is in bytes or bytes/s in proportion to the link's speed.
  static DcqcnOptions Paper(double link_bytes_per_s);
  // The NIC vendor's, as of Li et al., HPCC, SIGCOMM 2019 (simulation/run.py in its repository):
  // reacts every 4 us, recovers every 300.
  static DcqcnOptions Vendor(double link_bytes_per_s);
};

// The reaction point [RP]: who calls it has the timers, which run while `limited`. Not thread-safe.
class DcqcnRate {
 public:
  // `options` stay the caller's.
  DcqcnRate(const DcqcnOptions* options, double link_bytes_per_s)
      : options_(options), line_(link_bytes_per_s), rate_(line_), target_(line_) {}

  double bytes_per_s() const { return rate_; }
  // It has been told of congestion, and has not got back to the link's speed.
  bool limited() const { return limited_; }

  // A congestion notification: slower at once. The increase timer starts anew.
  void OnCnp();
  // The paper raises alpha with each CNP and lowers it when none came for [K]; CNPs are that far
  // apart at most, so one change per period is the same.
  void OnAlphaTimer();
  void OnIncreaseTimer();
  void OnSent(double bytes);

 private:
  void Increase();

  const DcqcnOptions* options_;
  double line_, rate_, target_;  // bytes/s; [R_C] and [R_T]
  double alpha_ = 1;
  double sent_ = 0;                         // bytes since the last increase by bytes
  int timer_rounds_ = 0, byte_rounds_ = 0;  // since the last decrease
  bool limited_ = false, notified_ = false;
};

}  // namespace phantora

#endif  // PHANTORA_FABRIC_PACKETS_DCQCN_H_
