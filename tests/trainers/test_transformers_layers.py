"""Documents of a row stay apart in every kind of model, or it is refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagefeed as pf

REASON = "make test-trainers ARGS=transformers"
torch = pytest.importorskip("torch", reason=REASON)
tf = pytest.importorskip("transformers", reason=REASON)
accelerate = pytest.importorskip("accelerate", reason=REASON)

from pagefeed.integrations.accelerate import prepare  # noqa: E402
from pagefeed.integrations.settings import DECIDED  # noqa: E402
from pagefeed.integrations.transformers import attach  # noqa: E402

Sizes = dict[str, Any]
SIZES: Sizes = {
    "vocab_size": 1024,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
}
HEADS: Sizes = {
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
MAMBA: Sizes = {
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 16,
    "mamba_expand": 2,
}
CONV: Sizes = {"layer_types": ["conv", "full_attention"], "block_multiple_of": 16}
LINEAR: Sizes = {
    "layer_types": ["linear_attention", "full_attention"],
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
EXPERTS: Sizes = {
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
GRANITE: Sizes = {
    "layer_types": ["mamba", "attention"],
    "num_local_experts": 0,
    "shared_intermediate_size": 32,
}
MAMBA2: Sizes = {
    "num_heads": 4,
    "head_dim": 16,
    "state_size": 16,
    "n_groups": 1,
    "chunk_size": 16,
}
FEW: Sizes = {
    "num_experts_per_tok": 1,
    "layer_types": ["linear_attention", "full_attention"],
}
NEMOTRON: Sizes = {
    "layers_block_type": ["mamba", "attention"],
    "mamba_num_heads": 4,
    "mamba_head_dim": 16,
    "ssm_state_size": 16,
    "n_groups": 1,
    "head_dim": 16,
}
ZAMBA2: Sizes = {
    "layers_block_type": ["mamba", "hybrid"],
    "n_mamba_heads": 4,
    "mamba_d_state": 16,
    "use_mamba_kernels": False,
}

PURE = {"Llama": HEADS, "Mistral": HEADS, "Qwen3": HEADS | {"head_dim": 16}}
"""Attention alone."""
JOINED = {
    "Bamba": HEADS | MAMBA | {"attn_layer_indices": [1]},
    "FalconH1": HEADS | MAMBA | {"head_dim": 16, "mamba_d_ssm": 64},
    "GraniteMoeHybrid": HEADS | MAMBA | GRANITE,
    "Lfm2": HEADS | CONV,
    "Lfm2Moe": HEADS | CONV | EXPERTS | {"num_dense_layers": 1},
    "OlmoHybrid": HEADS | LINEAR,
    "Qwen3_5": HEADS | LINEAR,
    "Qwen3_5Moe": HEADS | LINEAR | EXPERTS,
    "Qwen3Next": HEADS | LINEAR | EXPERTS,
}
"""Their kernels take the borders of joined rows, and without these they refuse them."""
NEITHER = {
    "BailingHybrid": HEADS | EXPERTS,
    "FalconMamba": {"state_size": 16},
    "Jamba": HEADS | {"mamba_expand": 2, "num_experts": 1, "use_mamba_kernels": False},
    "Mamba": {"state_size": 16},
    "Mamba2": MAMBA2,
    "MiniMax": HEADS | {"head_dim": 16, "num_local_experts": 2} | FEW,
    "NemotronH": HEADS | NEMOTRON,
    "RecurrentGemma": HEADS | {"lru_width": 32},
    "Rwkv": {"attention_hidden_size": 32, "intermediate_size": 64},
    "Zamba2": HEADS | ZAMBA2,
    "xLSTM": {"num_heads": 2},
}
"""They take no borders."""
MASKS = {
    "Bloom": {"n_head": 2},
    "GptOss": HEADS | {"num_local_experts": 2, "num_experts_per_tok": 1},
    "OPT": HEADS | {"ffn_dim": 64, "word_embed_proj_dim": 32},
}
"""Their attention masks do not look at positions."""


def made(name: str) -> Any:
    torch.manual_seed(0)
    kind = getattr(tf, f"{name}TextConfig", None) or getattr(tf, f"{name}Config")
    config = kind(**SIZES | (PURE | JOINED | NEITHER | MASKS)[name])
    return getattr(tf, f"{name}ForCausalLM")(config)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("layers")
    rows = [[16 * n + k for k in range(1, 9 + n % 5)] for n in range(48)]
    pq.write_table(pa.table({"input_ids": rows}), path / "a.parquet")
    return path


def loader_of(folder: Path, sequences: Any = None) -> pf.Loader:
    names = ("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen")
    return pf.Loader(
        pf.parquet(folder, column="input_ids"),
        sequences=sequences or pf.Packed(64, eos=0),
        batch_size=1,
        seed=1,
        format="torch",
        fields=pf.Fields(names=names),
    )


def batch_of(model: Any, folder: Path, **settings: Any) -> dict[str, Any]:
    args = {"output_dir": str(folder / "out"), "report_to": [], "use_cpu": True}
    args |= {"per_device_train_batch_size": 1, "max_steps": 1}
    trainer = tf.Trainer(model=model, args=tf.TrainingArguments(**args))
    attach(trainer, loader_of(folder), **settings)
    return dict(next(iter(trainer.get_train_dataloader())))


def leak(model: Any, batch: dict[str, Any]) -> float:
    """How far another first document moves the outputs of the second one."""
    batch.pop("labels")
    starts = [*(batch["position_ids"][0] == 0).nonzero()[:, 0].tolist(), 64]
    changed = batch["input_ids"].clone()
    changed[0, : starts[1]] = 1000 - changed[0, : starts[1]]
    model.eval()
    with torch.no_grad():
        before, after = (
            model(**batch | {"input_ids": ids}).logits[0]
            for ids in (batch["input_ids"], changed)
        )
    moved = (before - after).abs()
    assert float(moved[: starts[1]].max()) > 1e-4
    return float(moved[starts[1] : starts[2]].max())


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("name", PURE)
def test_attention_alone_keeps_documents_apart(name: str, flatten: bool, folder: Path):
    model = made(name)
    assert leak(model, batch_of(model, folder, flatten=flatten)) < 1e-6


@pytest.mark.parametrize("name", [*JOINED, *NEITHER])
def test_layers_with_a_state_are_refused_in_rows(name: str, folder: Path):
    model = made(name)
    with pytest.raises(pf.errors.InvalidArgumentError, match="a state") as refused:
        batch_of(model, folder)
    assert ("flatten=True" in str(refused.value)) == (name in JOINED)
    assert leak(model, batch_of(model, folder, leak="allowed")) > 1e-6
    accelerator = accelerate.Accelerator(cpu=True)
    accelerator.prepare(model)
    with pytest.raises(pf.errors.InvalidArgumentError, match="a state"):
        prepare(accelerator, loader_of(folder))
    prepare(accelerator, loader_of(folder, pf.Documents(max_length=20)))


@pytest.mark.parametrize("flatten", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_masks_without_positions_are_refused(name: str, flatten: bool, folder: Path):
    model = made(name)
    with pytest.raises(pf.errors.InvalidArgumentError, match="masks without positions"):
        batch_of(model, folder, flatten=flatten)
    assert leak(model, batch_of(model, folder, flatten=flatten, leak="allowed")) > 1e-6
    model.config._attn_implementation = "flash_attention_2"  # Reads the borders.
    batch_of(model, folder, flatten=True)


# Its attention masks would not keep documents apart, even where its kernels do.
TO_KERNELS = [name for name in JOINED if name != "GraniteMoeHybrid"]


@pytest.mark.parametrize("name", TO_KERNELS)
def test_joined_rows_have_the_borders_that_kernels_need(name: str, folder: Path):
    model = made(name)
    batch = batch_of(model, folder, flatten=True)
    with pytest.raises(ValueError, match="packed"):  # No kernel of a GPU is here.
        leak(model, batch)


@pytest.mark.parametrize("name", NEITHER)
def test_joined_rows_are_refused_where_no_layer_takes_borders(name: str, folder: Path):
    with pytest.raises(pf.errors.InvalidArgumentError, match="a state"):
        batch_of(made(name), folder, flatten=True)


def test_settings_that_a_loader_decides_are_warned_of(folder: Path):
    asked: Sizes = {
        "data_seed": 7,
        "dataloader_drop_last": True,
        "dataloader_num_workers": 2,
    }
    asked |= {"train_sampling_strategy": "group_by_length"}
    args = tf.TrainingArguments(
        output_dir=str(folder / "out"),
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=1,
        max_steps=1,
        **asked,
    )
    with pytest.warns(pf.errors.PagefeedWarning) as told:
        attach(tf.Trainer(model=made("Llama"), args=args), loader_of(folder))
    names = {str(one.message).partition("=")[0] for one in told}
    assert names >= {*asked}


def test_the_page_lists_what_is_warned_of():
    page = Path(__file__).parents[2] / "docs/reference/trainer-settings.md"
    rows = [f"| `{name}` | {each.instead} |" for name, each in DECIDED.items()]
    assert "\n".join(rows) in page.read_text()
    for model in [*PURE, *JOINED, *NEITHER, *MASKS]:
        assert model in page.read_text()
