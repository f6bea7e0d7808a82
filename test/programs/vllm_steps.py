"""Decoding steps of vLLM's offline engine: medians per token, as its own clock has them.

Called with the folder of a model's configuration (weights are dummy), and:
  --tp N       GPUs that share the model
  --layers N   the model is cut to so many layers
  --graphs     CUDA graphs and torch.compile, as vLLM does by default; eager without it
  --tokens N   of an answer
  --times N    answers that are measured, one after another, after two that are not
"""

import argparse
import statistics
import time

from vllm import LLM, SamplingParams


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--tp", type=int, default=1)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--graphs", action="store_true")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args()

    started = time.perf_counter()
    engine = LLM(options.model, load_format="dummy", tensor_parallel_size=options.tp, max_model_len=1024,
                 enforce_eager=not options.graphs, disable_log_stats=True,
                 hf_overrides={"num_hidden_layers": options.layers})
    print(f"started after {time.perf_counter() - started:.2f} s", flush=True)
    # The answer's length does not depend on its values.
    sampling = SamplingParams(temperature=0.0, max_tokens=options.tokens, ignore_eos=True)
    prompt = {"prompt_token_ids": list(range(1, 33))}
    took = []
    for _ in range(options.times + 2):
        begin = time.perf_counter()
        engine.generate([prompt], sampling, use_tqdm=False)
        took.append((time.perf_counter() - begin) / options.tokens * 1e3)
    took = took[2:]
    print(f"per token: median {statistics.median(took):.3f} ms of {' '.join(f'{t:.3f}' for t in took)}", flush=True)


if __name__ == "__main__":
    main()
