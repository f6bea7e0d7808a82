#!/usr/bin/env python3
"""Do models of Hugging Face's transformers generate the same tokens on an emulated GPU as on the processor?

    phantora-run --execute all -- python test/programs/generate.py [--models gpt2 llama qwen3] [--tokens 24]

Models of two layers with random weights in float32, greedily, several prompts at a time. Needs an environment with
transformers (tools/setup.sh framework training).
"""

import argparse
import sys

PROMPTS, LENGTH, WORDS = 3, 12, 1000


def make(name, transformers):
    common = {"vocab_size": WORDS, "initializer_range": 0.1}
    if name == "gpt2":
        config = transformers.GPT2Config(n_embd=256, n_layer=2, n_head=4, n_positions=256, **common)
        return transformers.GPT2LMHeadModel(config)
    sizes = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "max_position_embeddings": 256, **common}
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(head_dim=64, **sizes))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=["gpt2", "llama", "qwen3"], default=["gpt2", "llama", "qwen3"])
    parser.add_argument("--tokens", type=int, default=24)
    options = parser.parse_args()
    import torch  # pylint: disable=import-outside-toplevel
    import transformers  # pylint: disable=import-outside-toplevel
    prompts = torch.tensor([[(37 * i + 11 * j * j) % (WORDS - 1) + 1 for j in range(LENGTH)] for i in range(PROMPTS)])
    same = True
    for name in options.models:
        torch.manual_seed(1)
        model = make(name, transformers).eval()
        answers = []
        for device in ("cpu", "cuda"):
            model.to(device)
            out = model.generate(prompts.to(device), attention_mask=torch.ones_like(prompts).to(device), do_sample=False,
                                 max_new_tokens=options.tokens, min_new_tokens=options.tokens, pad_token_id=0)
            answers.append(out[:, LENGTH:].tolist())
        equal = sum(a == b for a, b in zip(*answers))
        kinds = len({token for answer in answers[0] for token in answer})
        print(f"{name}: {equal} of {PROMPTS} answers of {options.tokens} tokens ({kinds} different ones) are the same",
              flush=True)
        same &= equal == PROMPTS and kinds > options.tokens // 2
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
