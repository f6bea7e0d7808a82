#!/usr/bin/env python3
"""A small transformer sharded by FSDP 1 and 2, with checkpointed activations and gathered state.

    torchrun --standalone --nproc-per-node 2 fsdp.py [1|2]
"""

import functools
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, MixedPrecision, StateDictType
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy

try:
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
except ImportError:
    from torch.distributed._composable.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

LAYERS, HIDDEN, HEADS, VOCAB, SEQ = 3, 256, 4, 1024, 64


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        batch, seq, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, seq, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, seq, HIDDEN))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCAB, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens):
        x = self.token(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(model, device, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        tokens = torch.randint(VOCAB, (4, SEQ + 1)).to(device)
        loss = F.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        if isinstance(model, FullyShardedDataParallel):
            model.clip_grad_norm_(1.0)
        else:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    loss.item()
    return optimizer


def reference_state():
    torch.manual_seed(0)
    return Transformer().state_dict()


def same_state(state, expected):
    assert set(state) == set(expected), set(state) ^ set(expected)
    for name, tensor in expected.items():
        assert torch.equal(state[name].cpu(), tensor), name


def fsdp1(rank, world, device):
    reference = reference_state()
    torch.manual_seed(0)
    model = FullyShardedDataParallel(
        Transformer().to(device), device_id=device,
        auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block}),
        mixed_precision=MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
        use_orig_params=True, limit_all_gathers=True)
    apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Block))
    shard = sum(p.numel() for p in model.parameters())
    total = sum(t.numel() for t in reference.values())
    assert shard < total / world * 1.05 + 4096, (shard, total)

    config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
        state = model.state_dict()
    if rank == 0:
        assert set(state) == set(reference), set(state) ^ set(reference)
        assert all(state[name].shape == tensor.shape for name, tensor in reference.items())
    train(model, device)
    with FullyShardedDataParallel.summon_full_params(model):
        assert sum(p.numel() for p in model.parameters()) == total
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        model.load_state_dict(model.state_dict())
    return shard, total


def fsdp2(rank, world, device):
    reference = reference_state()
    mesh = init_device_mesh("cuda", (world,), mesh_dim_names=("dp",))
    with torch.device("meta"):
        model = Transformer()
    assert all(p.is_meta for p in model.parameters())
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, Block))
    model.to_empty(device=device)
    set_model_state_dict(model, dict(reference), options=StateDictOptions(full_state_dict=True))
    shard = sum(p.to_local().numel() for p in model.parameters())
    total = sum(t.numel() for t in reference.values())
    assert shard == total / world, (shard, total)

    # What was uploaded in shards comes back whole.
    same_state(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)), reference)
    same_state({name: p.full_tensor() for name, p in model.state_dict().items()}, reference)
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    assert rank == 0 and state or rank and not state
    if rank == 0:
        same_state(state, reference)
    train(model, device)

    # Parameters on the host.
    torch.manual_seed(0)
    small = nn.Sequential(*(nn.Linear(HIDDEN, HIDDEN) for _ in range(2)))
    expected = {name: tensor.clone() for name, tensor in small.state_dict().items()}
    fully_shard(small, mesh=mesh, offload_policy=CPUOffloadPolicy())
    small(torch.ones(4, HIDDEN, device=device)).sum().backward()
    local = small[0].weight.to_local()
    assert local.device.type == "cpu" and torch.equal(local, expected["0.weight"].chunk(world)[rank])
    return shard, total


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, world = dist.get_rank(), dist.get_world_size()
    for version, run in (("1", fsdp1), ("2", fsdp2)):
        if sys.argv[1:] not in ([], [version]):
            continue
        shard, total = run(rank, world, device)
        if rank == 0:
            print(f"FSDP {version}: {shard:,} of {total:,} parameters per rank, "
                  f"peak {torch.cuda.max_memory_allocated() / 2**20:.1f} MiB")
            print(f"PASSED fsdp{version}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
