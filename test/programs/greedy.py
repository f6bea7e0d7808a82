#!/usr/bin/env python3
"""Does vLLM on an emulated GPU choose the tokens that Hugging Face's generate chooses on the processor?

    phantora-run --execute all -- python test/programs/greedy.py [--dtype float16] [--tokens 16] [--gpus 2]

Makes a Qwen3 of two layers with random weights, saves it, and lets both answer some prompts greedily. Needs an
environment with vLLM and transformers (tools/setup.sh framework vllm-0.12.0). Where the two disagree, says how far
apart the processor's two largest logits are: in bfloat16 those that are closer than rounding may change places.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROMPTS, LENGTH = 4, 24


def make_model(folder, torch, transformers):
    torch.manual_seed(1)
    config = transformers.Qwen3Config(
        hidden_size=512, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=8, num_key_value_heads=4,
        head_dim=64, vocab_size=1024, max_position_embeddings=256, tie_word_embeddings=False, initializer_range=0.1)
    model = transformers.Qwen3ForCausalLM(config)
    model.to(torch.bfloat16).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(ROOT / "examples/models" / name, folder)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--gpus", type=int, default=1, help="tensor parallel")
    options = parser.parse_args()
    import torch  # pylint: disable=import-outside-toplevel
    import transformers  # pylint: disable=import-outside-toplevel
    from vllm import LLM, SamplingParams  # pylint: disable=import-outside-toplevel
    # vLLM forks, and GNU's OpenMP is of no use to a child whose parent had threads of it.
    torch.set_num_threads(1)
    prompts = [[(37 * i + 11 * j * j) % 1000 + 1 for j in range(LENGTH)] for i in range(PROMPTS)]
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(folder, torch, transformers).to(getattr(torch, options.dtype)).eval()
        expected, gaps = [], []
        for prompt in prompts:
            with torch.no_grad():
                out = model.generate(torch.tensor([prompt]), max_new_tokens=options.tokens, min_new_tokens=options.tokens,
                                     do_sample=False, output_logits=True, return_dict_in_generate=True)
            expected.append(out.sequences[0, LENGTH:].tolist())
            gaps.append([(lambda top: (top[0] - top[1]).item())(logits[0].float().topk(2).values) for logits in out.logits])
        llm = LLM(folder, dtype=options.dtype, max_model_len=128, enforce_eager=True, gpu_memory_utilization=0.1,
                  max_num_seqs=PROMPTS, skip_tokenizer_init=True, tensor_parallel_size=options.gpus)
        answers = llm.generate([{"prompt_token_ids": prompt} for prompt in prompts],
                               SamplingParams(max_tokens=options.tokens, ignore_eos=True, temperature=0,
                                              detokenize=False))
    same = 0
    for answer, tokens, gap in zip(answers, expected, gaps):
        got = list(answer.outputs[0].token_ids)
        first = next((i for i, (a, b) in enumerate(zip(got, tokens)) if a != b), None)
        same += first is None
        print("SAME" if first is None else f"DIFFERENT from token {first} on, where the largest logits are {gap[first]:.3f} apart",
              got, "" if first is None else tokens, flush=True)
    print(f"{same} of {PROMPTS} answers are the processor's")
    return same != PROMPTS


if __name__ == "__main__":
    sys.exit(main())
