// What carries instructions out, by kind. Each does it for the active threads of a warp; the names
// say what, and the encodings' rows for which words.
//
// Semantics: what Mesa's NAK folds (ir.rs, which its tests compare with GPUs), the PTX ISA for what
// an operation is for, and IEEE 754. Where neither says it, the comment at the definition does.
#ifndef PHANTORA_TRAP_GPU_SASS_OPERATIONS_H_
#define PHANTORA_TRAP_GPU_SASS_OPERATIONS_H_

#include "trap/gpu/sass/warp.h"

namespace phantora::sass {

#define PHANTORA_OPERATION_LIST(HANDLER, SELECTOR)                                                 \
  /* execute_integer.cc */                                                                         \
  SELECTOR(SelectMove)                                                                             \
  SELECTOR(SelectCompareIntegers)                                                                  \
  SELECTOR(SelectAdd3)                                                                             \
  SELECTOR(SelectLogic3)                                                                           \
  SELECTOR(SelectShift)                                                                            \
  SELECTOR(SelectMultiplyAdd)                                                                      \
  SELECTOR(SelectMultiplyAddWide) SELECTOR(SelectLoadEffectiveAddress) HANDLER(Select)             \
      HANDLER(MinMaxInteger) HANDLER(MinMaxAndWhich) HANDLER(MinMax3)                              \
          HANDLER(AddIntegers) HANDLER(AddMinMax)                                                  \
          HANDLER(AbsoluteInteger) HANDLER(PermuteBytes) HANDLER(SignExtend) HANDLER(BitMask)      \
              HANDLER(DotProduct4) HANDLER(DotProduct2) HANDLER(AbsoluteDifference)                \
                  HANDLER(AbsoluteDifference4) HANDLER(PackSaturated) HANDLER(MultiplyAddHigh)     \
                      HANDLER(FindLeadingOne) HANDLER(ReverseBits) HANDLER(CountBits)              \
                          HANDLER(PredicatesToRegister) HANDLER(RegisterToPredicates)              \
                              HANDLER(LogicPredicates) /* execute_uniform.cc */                    \
      SELECTOR(SelectUniformLoadEffectiveAddress) HANDLER(UniformMove)                             \
          HANDLER(UniformPredicatesToRegister) HANDLER(UniformSelect) HANDLER(UniformCompare)      \
              HANDLER(UniformAdd3) HANDLER(UniformLogic3) HANDLER(UniformPermuteBytes)             \
                  HANDLER(UniformAdd64) HANDLER(UniformShift) HANDLER(UniformSignExtend)           \
                      HANDLER(UniformBitMask) HANDLER(UniformLogicPredicates)                      \
                          HANDLER(UniformMultiplyAdd) HANDLER(UniformMultiplyAddWide)              \
                              HANDLER(UniformLoadConstant) HANDLER(UniformFindLeadingOne)          \
                                  HANDLER(UniformReverseBits)                                      \
                                      HANDLER(UniformCountBits) /* execute_float.cc */             \
      SELECTOR(SelectMultiplyFloat) SELECTOR(SelectAddFloat) SELECTOR(SelectFusedMultiplyAdd)      \
          SELECTOR(SelectFunction) HANDLER(SelectFloat) HANDLER(MinMaxFloat) HANDLER(SetFloat)     \
              HANDLER(CompareFloats) HANDLER(CheckDivision) HANDLER(MultiplyDouble)                \
                  HANDLER(AddDouble) HANDLER(CompareDoubles)                                       \
                      HANDLER(FusedMultiplyAddDouble) /* execute_half.cc */                        \
      HANDLER(AddHalves) HANDLER(MultiplyHalves) HANDLER(FusedMultiplyAddHalves)                   \
      HANDLER(ConjugateMultiplyAddHalves)                                                          \
          HANDLER(CompareHalves) HANDLER(SetHalves) HANDLER(MinMaxHalves) HANDLER(PackFloats)      \
              HANDLER(RoundToTf32) HANDLER(PackBytes) HANDLER(UnpackBytes) HANDLER(FloatToByte)    \
                  SELECTOR(SelectHalfFunction) HANDLER(WideDoubleMatrixProduct)                    \
                      /* execute_convert.cc */                                                     \
      HANDLER(FloatToFloat) HANDLER(FloatToInteger) HANDLER(IntegerToFloat)                        \
          HANDLER(IntegerToFloat32) HANDLER(RoundToIntegral)                                       \
              HANDLER(SaturateInteger) /* execute_memory.cc */                                     \
      HANDLER(LoadGlobal) HANDLER(StoreGlobal) HANDLER(LoadGeneric) HANDLER(StoreGeneric)          \
          HANDLER(LoadShared) HANDLER(StoreShared) HANDLER(LoadLocal) HANDLER(StoreLocal)          \
              HANDLER(LoadConstant) HANDLER(QuerySpace) HANDLER(CopyAsync)                         \
                  HANDLER(Nothing) /* execute_atomic.cc */                                         \
      HANDLER(AtomicGlobal) HANDLER(AtomicGeneric) HANDLER(ReduceGlobal) HANDLER(SwapGlobal)       \
          HANDLER(SwapGeneric) HANDLER(AtomicShared) HANDLER(CountShared)                          \
              HANDLER(SwapShared) /* execute_warp.cc */                                            \
      SELECTOR(SelectReadSpecial) SELECTOR(SelectReadSpecial64) SELECTOR(SelectReadSpecialUniform) \
          HANDLER(Vote) HANDLER(VoteUniform) HANDLER(Shuffle) HANDLER(Match)                       \
              HANDLER(RegisterToUniform) HANDLER(ReduceWarp) HANDLER(ReadConvergence)              \
                  HANDLER(WriteConvergence) HANDLER(ReadWarpState)                                 \
                  HANDLER(WriteWarpState) HANDLER(ReadBarrierResult)                               \
                      HANDLER(LoadProgramCounter) /* execute_tensor.cc */                          \
      SELECTOR(SelectMatrixProduct) HANDLER(IntegerMatrixProduct) HANDLER(BitMatrixProduct)        \
          HANDLER(TransposeMatrix)                                                                 \
          HANDLER(DoubleMatrixProduct) HANDLER(LoadMatrix)                                         \
              HANDLER(StoreMatrix)                            /* execute_warpgroup.cc */           \
      SELECTOR(SelectWarpgroupProduct) HANDLER(MeetWarpgroup) /* execute_cluster.cc */             \
      HANDLER(Elect) HANDLER(ReserveRegisters) HANDLER(SwapMemoryBarrier)                          \
          HANDLER(ArriveAtMemoryBarrier) HANDLER(CheckMemoryBarrier) HANDLER(ArriveAfterCopies)    \
              HANDLER(StoreAsync) HANDLER(ArriveAtCluster)                                         \
                  HANDLER(WaitForCluster) /* execute_bulk.cc */                                    \
      SELECTOR(SelectBulkCopy) HANDLER(LoadTensor) HANDLER(StoreTensor) HANDLER(ReduceTensor)

#define PHANTORA_DECLARE_HANDLER(name) void name(Warp& warp, const Instruction& instruction);
#define PHANTORA_DECLARE_SELECTOR(name) Handler name(const Instruction& instruction);
PHANTORA_OPERATION_LIST(PHANTORA_DECLARE_HANDLER, PHANTORA_DECLARE_SELECTOR)
#undef PHANTORA_DECLARE_HANDLER
#undef PHANTORA_DECLARE_SELECTOR

}  // namespace phantora::sass

#endif  // PHANTORA_TRAP_GPU_SASS_OPERATIONS_H_
