#include "test/tracees/kernels.h"

#include "test/tracees/tracee.h"

// PTX 7.8 for sm_80 is the oldest that every supported driver's compiler and GPU accepts.
const char kPtx[] = R"ptx(.version 7.8
.target sm_80
.address_size 64

.visible .global .align 4 .u32 counter = 0x12345678;
.visible .global .align 16 .b8 table[4096];
.visible .const .align 4 .u32 constants[4] = {2, 3, 5, 7};
.extern .shared .align 16 .b8 dynamic_bytes[];

.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.u32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p, %r5, %r1;
  @%p bra done;
  mul.wide.u32 %rd4, %r5, 4;
  add.u64 %rd5, %rd1, %rd4;
  add.u64 %rd6, %rd2, %rd4;
  add.u64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
done:
  ret;
}

.visible .entry many_words(
    .param .u64 out,
    .param .u64 w0,
    .param .u64 w1,
    .param .u64 w2,
    .param .u64 w3,
    .param .u64 w4,
    .param .u64 w5,
    .param .u64 w6,
    .param .u64 w7,
    .param .u64 w8,
    .param .u64 w9,
    .param .u64 w10,
    .param .u64 w11,
    .param .u64 w12,
    .param .u64 w13,
    .param .u64 w14,
    .param .u64 w15,
    .param .u64 w16,
    .param .u64 w17,
    .param .u64 w18,
    .param .u64 w19,
    .param .u64 w20,
    .param .u64 w21,
    .param .u64 w22,
    .param .u64 w23,
    .param .u64 w24,
    .param .u64 w25,
    .param .u64 w26,
    .param .u64 w27,
    .param .u64 w28,
    .param .u64 w29,
    .param .u64 w30,
    .param .u64 w31)
{
  .reg .b64 %rd<4>;
  .reg .b32 %r1;
  ld.param.u64 %rd1, [out];
  mov.u64 %rd3, 0;
  ld.param.u64 %rd2, [w0];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w1];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w2];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w3];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w4];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w5];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w6];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w7];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w8];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w9];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w10];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w11];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w12];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w13];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w14];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w15];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w16];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w17];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w18];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w19];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w20];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w21];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w22];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w23];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w24];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w25];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w26];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w27];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w28];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w29];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w30];
  xor.b64 %rd3, %rd3, %rd2;
  ld.param.u64 %rd2, [w31];
  xor.b64 %rd3, %rd3, %rd2;
  cvt.u32.u64 %r1, %rd3;
  st.global.u32 [%rd1], %r1;
  ret;
}

.visible .entry big_parameter(.param .u64 out, .param .align 8 .b8 words[4000])
{
  .reg .b64 %rd1;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [words];
  ld.param.u32 %r2, [words+3996];
  xor.b32 %r3, %r1, %r2;
  st.global.u32 [%rd1], %r3;
  ret;
}

.visible .entry no_parameters()
{
  ret;
}

.visible .entry dynamic_shared(.param .u64 out, .param .u32 words)
{
  .reg .pred %p;
  .reg .b64 %rd1;
  .reg .b32 %r<8>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [words];
  mov.u32 %r2, %tid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, dynamic_bytes;
loop:
  setp.ge.u32 %p, %r2, %r1;
  @%p bra written;
  shl.b32 %r5, %r2, 2;
  add.u32 %r6, %r4, %r5;
  st.shared.u32 [%r6], %r2;
  add.u32 %r2, %r2, %r3;
  bra loop;
written:
  bar.sync 0;
  ld.shared.u32 %r7, [%r4];
  st.global.u32 [%rd1], %r7;
  ret;
}

.visible .entry static_shared(.param .u64 out)
{
  .shared .align 4 .b8 words[1024];
  .reg .b64 %rd1;
  .reg .b32 %r<5>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 255;
  shl.b32 %r2, %r2, 2;
  mov.u32 %r3, words;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %r1;
  bar.sync 0;
  ld.shared.u32 %r4, [words];
  st.global.u32 [%rd1], %r4;
  ret;
}

.visible .entry local_array(.param .u64 out, .param .u32 index)
{
  .local .align 4 .b8 words[256];
  .reg .b64 %rd1;
  .reg .b32 %r<6>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [index];
  and.b32 %r1, %r1, 63;
  shl.b32 %r1, %r1, 2;
  mov.u32 %r2, words;
  add.u32 %r3, %r2, %r1;
  mov.u32 %r4, %tid.x;
  st.local.u32 [words+128], %r4;
  st.local.u32 [%r3], %r4;
  ld.local.u32 %r5, [words+128];
  st.global.u32 [%rd1], %r5;
  ret;
}

.visible .entry at_most_128_threads(.param .u64 out)
.maxntid 128, 1, 1
{
  .reg .b64 %rd1;
  .reg .b32 %r1;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %ntid.x;
  st.global.u32 [%rd1], %r1;
  ret;
}

.visible .entry all_blocks_meet(.param .u64 counter_address)
{
  .reg .pred %p;
  .reg .b64 %rd1;
  .reg .b32 %r<5>;
  ld.param.u64 %rd1, [counter_address];
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p, %r1, 0;
  @%p bra together;
  mov.u32 %r2, %nctaid.x;
  atom.global.add.u32 %r3, [%rd1], 1;
wait:
  ld.volatile.global.u32 %r4, [%rd1];
  setp.lt.u32 %p, %r4, %r2;
  @%p bra wait;
together:
  bar.sync 0;
  ret;
}

.visible .entry add_to_counter(.param .u32 n)
{
  .reg .b64 %rd1;
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [n];
  mov.u64 %rd1, counter;
  atom.global.add.u32 %r2, [%rd1], %r1;
  ret;
}

.visible .entry busy(.param .u32 nanoseconds)
{
  .reg .pred %p;
  .reg .b64 %rd<5>;
  .reg .b32 %r1;
  ld.param.u32 %r1, [nanoseconds];
  cvt.u64.u32 %rd1, %r1;
  mov.u64 %rd2, %globaltimer;
again:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p, %rd4, %rd1;
  @%p bra again;
  ret;
}
)ptx";

Kernels::Kernels() {
  CU_CHECK(cuModuleLoadData(&module_, kPtx));
  vector_add_ = Get("vector_add");
}

Kernels::~Kernels() { CU_CHECK(cuModuleUnload(module_)); }

CUfunction Kernels::Get(const char* name) const {
  CUfunction function = nullptr;
  CU_CHECK(cuModuleGetFunction(&function, module_, name));
  return function;
}

void Kernels::VectorAdd(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, uint32_t n,
                        CUstream stream) const {
  void* parameters[] = {&a, &b, &c, &n};
  CU_CHECK(cuLaunchKernel(vector_add_, (n + 255) / 256, 1, 1, 256, 1, 1, 0, stream, parameters,
                          nullptr));
}
