"""What the programs here share: models of examples/models cut to a few layers, and tokens to learn."""

import json
import pathlib
import tempfile

MODELS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "models"


def tiny_config(name="qwen3-0.6b", layers=2, **changes):
    """The configuration of a model of examples/models with fewer layers, and whatever else is to change."""
    from transformers import AutoConfig

    settings = json.loads((MODELS / name / "config.json").read_text()) | {"num_hidden_layers": layers} | changes
    if "layer_types" in settings:
        settings["layer_types"] = settings["layer_types"][:layers]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(settings))
        return AutoConfig.from_pretrained(folder)


def small_qwen3():
    """A configuration whose training steps are computed in full with --execute small, as no kernel is too long."""
    return tiny_config(vocab_size=512, hidden_size=128, intermediate_size=256, num_attention_heads=2,
                       num_key_value_heads=1, head_dim=64)


def tokens(count, length, vocabulary, seed=0):
    """`count` sequences that can be learned: each counts up from a number of its own. int64, (count, length)."""
    import torch

    first = torch.randint(0, vocabulary, (count, 1), generator=torch.Generator().manual_seed(seed))
    return (first + torch.arange(length)) % vocabulary
