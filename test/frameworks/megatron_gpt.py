#!/usr/bin/env python3
"""Megatron-core's GPT, its schedules, and its distributed optimizer.

    phantora-run --cluster dgx-h100:1 -- python megatron_gpt.py --tensor 2 --pipeline 2 [--virtual 2]
    phantora-run --cluster dgx-h100:1 --ranks-per-host 4 -- python megatron_gpt.py --experts 4 --expert-parallel 4
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer.moe import moe_utils
from megatron.core.transformer.transformer_config import TransformerConfig

from tiny_models import tokens

VOCABULARY, LENGTH, BATCH, STEPS = 512, 128, 4, 6


# Release 0.16.1 asks whether it is None without having set it, where TransformerEngine is not installed.
if not hasattr(moe_utils, "te_general_gemm"):
    moe_utils.te_general_gemm = None


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensor", type=int, default=1)
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--virtual", type=int, help="stages of each pipeline rank: interleaved schedule")
    parser.add_argument("--experts", type=int)
    parser.add_argument("--expert-parallel", type=int, default=1)
    return parser.parse_args()


def build(args):
    config = TransformerConfig(
        num_layers=4, hidden_size=128, ffn_hidden_size=256, num_attention_heads=4, bf16=True,
        params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, attention_dropout=0.0, hidden_dropout=0.0,
        tensor_model_parallel_size=args.tensor, pipeline_model_parallel_size=args.pipeline,
        virtual_pipeline_model_parallel_size=args.virtual,
        expert_model_parallel_size=args.expert_parallel, num_moe_experts=args.experts, moe_router_topk=2,
        moe_token_dispatcher_type="alltoall", gradient_accumulation_fusion=False,
        # Between two stages, sends both ways in one group would meet each other's receives.
        overlap_p2p_comm=args.virtual is not None, batch_p2p_comm=args.virtual is None,
        # Torch's own kernels: the fused ones are of Apex and TransformerEngine.
        persist_layer_norm=False, masked_softmax_fusion=False, bias_dropout_fusion=False)
    chunks = []
    for stage in range(args.virtual or 1):
        virtual = stage if args.virtual else None
        model = GPTModel(
            config=config, transformer_layer_spec=get_gpt_layer_local_spec(num_experts=args.experts),
            vocab_size=VOCABULARY, max_sequence_length=LENGTH, position_embedding_type="rope",
            pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=virtual),
            post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=virtual),
            vp_stage=virtual)
        model = model.cuda().bfloat16()
        ddp = DistributedDataParallelConfig(use_distributed_optimizer=True, overlap_grad_reduce=False)
        chunks.append(DistributedDataParallel(config, ddp, model, disable_bucketing=stage > 0))
    config.finalize_model_grads_func = finalize_model_grads
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=3e-3, bf16=True, params_dtype=torch.bfloat16, clip_grad=1.0,
                        use_distributed_optimizer=True), chunks)
    config.grad_scale_func = optimizer.scale_loss
    return chunks, optimizer


def forward_step(data, model):
    ids = next(data).cuda()
    positions = torch.arange(LENGTH, device=ids.device).expand_as(ids)
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device=ids.device).triu(1)
    output = model(ids, positions, mask, labels=ids.roll(-1, 1))

    def mean(losses):
        loss = losses.float().mean()
        return loss, {"loss": loss.detach().clone()}  # the schedule divides the first in its place

    return output, mean


def main():
    args = parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    parallel_state.initialize_model_parallel(
        args.tensor, args.pipeline, args.virtual, expert_model_parallel_size=args.expert_parallel)
    tensor_parallel.model_parallel_cuda_manual_seed(0)
    torch.manual_seed(0)
    replicas = parallel_state.get_data_parallel_world_size()
    parts = 4 if args.pipeline > 1 else 1  # micro-batches
    init_num_microbatches_calculator(dist.get_rank(), None, BATCH * parts * replicas, BATCH, replicas)
    chunks, optimizer = build(args)
    schedule = get_forward_backward_func()

    data = tokens(STEPS * parts * replicas * BATCH, LENGTH, VOCABULARY).view(STEPS, replicas, parts, BATCH, LENGTH)
    mine, means, start = data[:, parallel_state.get_data_parallel_rank()], [], 0.0
    for step in range(STEPS):
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        batches = [iter(mine[step]) for _ in chunks]
        losses = schedule(forward_step_func=forward_step, data_iterator=batches if args.virtual else batches[0],
                          model=chunks, num_microbatches=parts, seq_length=LENGTH, micro_batch_size=BATCH,
                          forward_only=False)
        done, norm, _ = optimizer.step()
        assert done and norm > 0, (done, norm)
        means.append(sum(part["loss"].item() for part in losses) / parts if losses else None)
        if step == 1:
            torch.cuda.synchronize()
            start = time.perf_counter()
    torch.cuda.synchronize()
    step_ms = (time.perf_counter() - start) / (STEPS - 2) * 1e3
    if dist.get_rank() == dist.get_world_size() - 1:
        assert means[-1] < means[0], means
        print(f"RESULT {step_ms:.2f} ms a step, gradient norm {norm:.3f}, loss {means[0]:.3f} to {means[-1]:.3f}",
              flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
