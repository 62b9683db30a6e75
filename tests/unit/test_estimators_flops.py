"""FLOPs: against sums written out by hand, token by token and pair by pair."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing.errors import ConfigError
from packing.estimators import FlopsEstimator

INT64_MAX = 2**63 - 1
CONFIGS = Path(__file__).parent.parent / "data" / "configs"
HIDDEN, HEADS, GROUPS, HEAD_DIM, WIDTH, VOCABULARY, LAYERS = 12, 4, 2, 5, 20, 30, 3
DENSE = {
    "model_type": "mistral",
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "head_dim": HEAD_DIM,
    "intermediate_size": WIDTH,
    "vocab_size": VOCABULARY,
}


def published(name):
    return json.loads((CONFIGS / f"{name}.json").read_text())["config"]


def cost(model, length, prefix=None, **options):
    columns = {"length": np.array([length])}
    if prefix is not None:
        columns["prefix_length"] = np.array([prefix])
        options["prefix_column"] = "prefix_length"
    return int(FlopsEstimator(model, **options)(columns)[0])


def product(rows, inner, columns):
    """FLOPs of a (rows x inner) by (inner x columns) product, one multiplication and one addition each."""
    return sum(2 * inner for _ in range(rows) for _ in range(columns))


def by_hand(length, sees):
    """One forward pass of DENSE, with `sees(i, j)` saying whether token i attends to token j."""
    total = 0
    for layer in range(LAYERS):
        total += product(length, HIDDEN, HEADS * HEAD_DIM)  # queries
        total += product(length, HIDDEN, GROUPS * HEAD_DIM)  # keys
        total += product(length, HIDDEN, GROUPS * HEAD_DIM)  # values
        for i in range(length):
            for j in range(length):
                if sees(layer, i, j):
                    total += HEADS * product(1, HEAD_DIM, 1)  # one score per head
                    total += HEADS * product(1, 1, HEAD_DIM)  # one weighted value per head
        total += product(length, HEADS * HEAD_DIM, HIDDEN)  # output
        total += 2 * product(length, HIDDEN, WIDTH) + product(length, WIDTH, HIDDEN)  # gate, up, down
    return total + product(length, HIDDEN, VOCABULARY)


# --- the formula -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 2, 7, 16])
def test_causal_forward_pass_by_hand(length):
    assert cost(DENSE, length, training=False) == by_hand(length, lambda layer, i, j: j <= i)


def test_a_literal_sum():
    # Two tokens. Projections 12x20, 12x10, 12x10, 20x12; feed-forward 12x20 three times; logits 12x30; 3 pairs.
    layer = 2 * (2 * 240 + 2 * 120 + 2 * 120 + 2 * 240 + 3 * 2 * 240) + 3 * 4 * (2 * 5 + 2 * 5)
    assert layer == 6000
    assert cost(DENSE, 2, training=False) == 3 * 6000 + 2 * 2 * 360


@pytest.mark.parametrize("length", [1, 5, 9])
def test_full_attention_by_hand(length):
    assert cost(DENSE, length, training=False, causal=False) == by_hand(length, lambda layer, i, j: True)


@pytest.mark.parametrize("window", [1, 2, 4, 9, 2**80])
@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 12])
def test_sliding_window_by_hand(length, window):
    model = {**DENSE, "sliding_window": window}
    assert cost(model, length, training=False) == by_hand(length, lambda layer, i, j: 0 <= i - j < window)
    both_sides = by_hand(length, lambda layer, i, j: abs(i - j) < window)
    assert cost(model, length, training=False, causal=False) == both_sides


def test_windows_in_some_layers_by_hand():
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    model = {**DENSE, "sliding_window": 3, "layer_types": kinds}
    expected = by_hand(11, lambda layer, i, j: 0 <= i - j < (11 if layer == 1 else 3))
    assert cost(model, 11, training=False) == expected


@pytest.mark.parametrize(("length", "prefix"), [(6, 0), (6, 1), (6, 4), (6, 6), (0, 0), (1, 1)])
def test_prefix_by_hand(length, prefix):
    expected = by_hand(length, lambda layer, i, j: j <= i or (i < prefix and j < prefix))
    assert cost(DENSE, length, prefix, training=False) == expected


def test_plain_feed_forward_has_two_matrices():
    model = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 8, "vocab_size": 30}
    per_layer = 2 * (4 * 12 * 12 + 2 * 12 * 48)
    assert cost(model, 1, training=False) == 2 * (per_layer + 4 * 12) + 2 * 12 * 30


def test_experts_that_a_token_passes():
    shapes = {**DENSE, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 7}
    attention = 2 * HIDDEN * HEAD_DIM * (2 * HEADS + 2 * GROUPS) + 4 * HEADS * HEAD_DIM
    router, experts = 2 * HIDDEN * 8, 2 * 6 * HIDDEN * 7
    expected = LAYERS * (attention + router + experts) + 2 * HIDDEN * VOCABULARY
    assert cost({**shapes, "model_type": "qwen3_moe"}, 1, training=False) == expected
    shared = 6 * HIDDEN * 9 + 2 * HIDDEN
    with_shared = {**shapes, "model_type": "qwen2_moe", "shared_expert_intermediate_size": 9}
    assert cost(with_shared, 1, training=False) == expected + LAYERS * shared


@pytest.mark.parametrize("recompute", [False, True])
def test_published_formula_of_narayanan_et_al(recompute):
    # 96 B s l h^2 (1 + s / (6 h) + V / (16 l h)) with full recomputation; without it, 72 takes the place of 96.
    hidden, layers, vocabulary, length = 64, 5, 96, 40
    model = {
        "model_type": "gpt2", "n_embd": hidden, "n_head": 4, "n_layer": layers, "n_positions": 64,
        "vocab_size": vocabulary,
    }  # fmt: skip
    inner = Fraction(96 if recompute else 72) * (1 + Fraction(length, 6 * hidden))
    expected = length * layers * hidden**2 * (inner + Fraction(96 * vocabulary, 16 * layers * hidden))
    assert cost(model, length, causal=False, recompute=recompute) == expected


def test_six_flops_per_parameter_and_token():
    # The rule of thumb: training costs 6 FLOPs per matrix entry and token, all parameters but embedding and norms.
    config = published("llama-3.1-8b")
    matrices = 8_030_261_248 - 128256 * 4096 - 65 * 4096
    assert FlopsEstimator(config).flops_per_token == 6 * matrices


# --- options ---------------------------------------------------------------------------------------------------------


def parts(**options):
    """(layers' linear part, pair part, logits part) in forward passes."""
    estimator, forward = FlopsEstimator(DENSE, **options), FlopsEstimator(DENSE, training=False)
    wider = FlopsEstimator({**DENSE, "vocab_size": VOCABULARY + 1}, **options)
    logits = Fraction(wider.flops_per_token - estimator.flops_per_token, 2 * HIDDEN)
    layers = estimator.flops_per_token - logits * 2 * HIDDEN * VOCABULARY
    forward_layers = forward.flops_per_token - 2 * HIDDEN * VOCABULARY
    return Fraction(layers, forward_layers), Fraction(estimator.flops_per_pair, forward.flops_per_pair), logits


def test_passes():
    assert parts(training=False) == (1, 1, 1)
    assert parts() == (3, 3, 3)
    assert parts(recompute=True) == (4, 4, 3)
    assert parts(recompute_attention=True) == (3, Fraction(7, 2), 3)
    assert parts(frozen_weights=True) == (2, 3, 2)
    assert parts(recompute=True, recompute_attention=True, frozen_weights=True) == (3, Fraction(9, 2), 2)


@pytest.mark.parametrize("options", [{}, {"training": False}, {"recompute_attention": True}, {"causal": False}])
def test_common_unit_keeps_the_ratios(options):
    model = published("llama-3.1-70b")
    columns = {"length": np.array([1, 2, 3, 1000, 32768])}
    plain, reduced = FlopsEstimator(model, **options), FlopsEstimator(model, common_unit=True, **options)
    assert plain.unit == 1
    assert reduced.unit > 10**5
    assert (reduced(columns) * reduced.unit).tolist() == plain(columns).tolist()


@pytest.mark.parametrize(
    "name", ["training", "recompute", "recompute_attention", "frozen_weights", "causal", "common_unit"]
)
@pytest.mark.parametrize("value", [1, 0, "true", None])
def test_switches_are_true_or_false(name, value):
    with pytest.raises(ConfigError) as caught:
        FlopsEstimator(DENSE, **{name: value})
    assert str(caught.value) == f"`{name}` must be true or false, but got {value!r}."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"training": False, "recompute": True}, "`recompute` must be false where `training` is false"),
        ({"training": False, "frozen_weights": True}, "`frozen_weights` must be false where `training` is false"),
        ({"training": False, "recompute_attention": True}, "`recompute_attention` must be false where"),
        ({"prefix_column": 3}, "`prefix_column` must be the name of a column, but got 3"),
        ({"prefix_column": "p", "causal": False}, "`prefix_column` must be None where `causal` is false"),
        (
            {"prefix_column": "p", "model": {**DENSE, "sliding_window": 4}},
            "`prefix_column` must be None for a model with sliding windows",
        ),
    ],
)
def test_contradictions(options, message):
    with pytest.raises(ConfigError, match=message):
        FlopsEstimator(**{"model": DENSE, **options})


def test_columns():
    assert FlopsEstimator(DENSE).columns == ("length",)
    assert FlopsEstimator(DENSE, prefix_column="prompt_tokens").columns == ("length", "prompt_tokens")
    with pytest.raises(ConfigError, match="`flops` needs the column `prompt_tokens`, but the columns are: `length`"):
        FlopsEstimator(DENSE, prefix_column="prompt_tokens")({"length": np.array([1])})


def test_prefixes_are_checked():
    estimator = FlopsEstimator(DENSE, prefix_column="p")
    with pytest.raises(ConfigError) as caught:
        estimator({"length": np.array([4, 5]), "p": np.array([4, 6])})
    assert str(caught.value) == "`p` must be at most the length 5 of sample 1, but got 6."
    with pytest.raises(ConfigError, match="`p` must have one value per sample, but got 1 for 2"):
        estimator({"length": np.array([4, 5]), "p": np.array([4])})
    assert estimator({"length": np.array([], np.int64), "p": np.array([], np.int64)}).shape == (0,)


def test_equal_estimators_are_equal():
    assert FlopsEstimator(DENSE) == FlopsEstimator({**DENSE, "rope_theta": 1.0})
    assert FlopsEstimator(DENSE) != FlopsEstimator(DENSE, recompute=True)
    assert hash(FlopsEstimator(DENSE)) == hash(FlopsEstimator(dict(DENSE)))


# --- exactness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-2-2b", "mistral-7b-v0.1", "gpt2", "mixtral-8x7b"])
def test_costs_grow_with_the_length(name):
    costs = FlopsEstimator(published(name))({"length": np.arange(5000)})
    assert costs.dtype == np.int64
    assert (np.diff(costs) > 0).all()
    assert costs[0] == 0


def test_exact_around_two_to_the_53():
    estimator = FlopsEstimator(published("llama-3.1-8b"))
    around = list(range(150_000, 150_200))
    exact = [
        estimator.flops_per_token * length + 32 * estimator.flops_per_pair * (length * (length + 1) // 2)
        for length in around
    ]
    assert min(exact) > 2**52
    assert estimator({"length": np.array(around)}).tolist() == exact
    odd = FlopsEstimator({**DENSE, "vocab_size": 10**9 + 1, "num_attention_heads": 2, "head_dim": 1}, training=False)
    lengths = [13_000_001, 13_000_002, 13_000_003]
    got = odd({"length": np.array(lengths)}).tolist()
    assert got == [odd.flops_per_token * n + 3 * odd.flops_per_pair * (n * (n + 1) // 2) for n in lengths]
    assert any(int(float(value)) != value for value in got), "these would not survive a float"


def test_a_cost_that_does_not_fit_names_the_sample():
    estimator = FlopsEstimator(published("llama-3.1-70b"))
    at_limit = estimator({"length": np.array([1_000_000])}).tolist()
    assert at_limit == [417_010_286_592 * 10**6 + 80 * 98304 * (10**6 * (10**6 + 1) // 2)]
    with pytest.raises(ConfigError) as caught:
        estimator({"length": np.array([10, 3_000_000, 9_000_000])})
    text = str(caught.value)
    assert text.startswith(
        "the `flops` cost of sample 1 must fit into 64-bit integers, but `length` = 3000000 gives 36"
    )
    assert text.endswith("Set `common_unit` for smaller numbers of the same ratio.")
    reduced = FlopsEstimator(published("llama-3.1-70b"), common_unit=True)
    assert reduced({"length": np.array([9_000_000])}).tolist() == [
        (417_010_286_592 * 9 * 10**6 + 80 * 98304 * (9 * 10**6 * (9 * 10**6 + 1) // 2)) // reduced.unit
    ]


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2**45), min_size=1, max_size=5),
    st.integers(1, 2**45) | st.none(),
    st.booleans(),
    st.integers(1, 2**20),
)
def test_exact_or_an_error(lengths, window, causal, vocabulary):
    estimator = FlopsEstimator({**DENSE, "sliding_window": window, "vocab_size": vocabulary}, causal=causal)
    exact = []
    for length in lengths:
        near = length if window is None else min(length, window)
        pairs = near * (near + 1) // 2 + (length - near) * (window or 0)
        pairs = pairs if causal else 2 * pairs - length
        exact.append(estimator.flops_per_token * length + LAYERS * estimator.flops_per_pair * pairs)
    columns = {"length": np.array(lengths)}
    if max(exact) <= INT64_MAX:
        assert estimator(columns).tolist() == exact
    else:
        with pytest.raises(ConfigError, match="must fit into 64-bit integers"):
            estimator(columns)
