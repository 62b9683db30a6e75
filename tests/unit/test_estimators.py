"""The estimators that need no model config: tokens, attention, and plain functions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import packing.estimators
from packing.errors import ConfigError
from packing.estimators import AttentionEstimator, CallableEstimator, TokenEstimator
from packing.records import SampleKey, SampleMetadata, WorkloadCost

INT64_MAX = 2**63 - 1
lengths_strategy = st.lists(st.integers(0, 2**40), max_size=12)


def columns_of(lengths, **others):
    return {"length": np.array(lengths, dtype=np.int64), **{name: np.array(v) for name, v in others.items()}}


# --- the package -----------------------------------------------------------------------------------------------------


def test_public_names_are_there():
    for name in packing.estimators.__all__:
        assert getattr(packing.estimators, name).__name__ == name
        assert name in dir(packing.estimators)
    with pytest.raises(AttributeError, match="no attribute 'NoSuchEstimator'"):
        _ = packing.estimators.NoSuchEstimator


def test_names_load_on_first_use():
    code = (
        "import sys, packing.estimators as package; before = set(sys.modules); "
        "assert not any(name.startswith('packing.estimators.') for name in before), before; "
        "package.TokenEstimator; assert 'packing.estimators.tokens' in sys.modules; "
        "assert 'packing.estimators.flops' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("estimator", [TokenEstimator(), AttentionEstimator()])
def test_missing_column_lists_those_there(estimator):
    with pytest.raises(ConfigError) as caught:
        estimator({"prompt_tokens": np.array([1]), "image_tokens": np.array([2])})
    assert "needs the column `length`, but the columns are: `prompt_tokens`, `image_tokens`." in str(caught.value)
    with pytest.raises(ConfigError, match="but the columns are: none"):
        estimator({})


@pytest.mark.parametrize("estimator", [TokenEstimator(), AttentionEstimator()])
@pytest.mark.parametrize(
    ("length", "message"),
    [
        (np.array([1, -2]), "`length` must be non-negative, but got -2 at index 1."),
        (np.array([1.5]), "`length` must hold whole numbers, but got 1.5 at index 0."),
        (np.ones((2, 2), np.int64), "`length` must be one-dimensional, but got shape (2, 2)."),
    ],
)
def test_bad_lengths(estimator, length, message):
    with pytest.raises(ConfigError) as caught:
        estimator({"length": length})
    assert str(caught.value) == message


@pytest.mark.parametrize("estimator", [TokenEstimator(), AttentionEstimator(), CallableEstimator(lambda record: 1)])
def test_no_samples(estimator):
    costs = estimator(columns_of([]))
    assert costs.shape == (0,)
    assert costs.dtype == np.int64


# --- tokens ----------------------------------------------------------------------------------------------------------


@given(lengths_strategy)
def test_tokens_are_the_lengths(lengths):
    columns = columns_of(lengths)
    costs = TokenEstimator()(columns)
    assert costs.tolist() == lengths
    assert costs.dtype == np.int64
    assert not np.shares_memory(costs, columns["length"])


# --- attention -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 10**6)), st.integers(0, 10**6), st.integers(0, 10**3))
def test_attention_is_its_polynomial(lengths, linear, quadratic):
    costs = AttentionEstimator(linear, quadratic)(columns_of(lengths))
    assert costs.tolist() == [linear * length + quadratic * length**2 for length in lengths]
    assert costs.dtype == np.int64


def test_attention_default_is_the_causal_ratio_of_hidden_size_4096():
    hidden = 4096
    # Matrix products of a layer, FLOPs per token, and 4 h FLOPs for each of the L (L + 1) / 2 causal pairs.
    products, per_pair = 24 * hidden**2, 4 * hidden
    estimator = AttentionEstimator()
    for length in (1, 1000, 32768, 10**6):
        ours = int(estimator(columns_of([length]))[0])
        layer = products * length + per_pair * length * (length + 1) // 2
        assert layer - 2 * hidden * ours == 2 * hidden * length, "they differ by the diagonal alone"


def test_attention_is_exact_up_to_the_last_bit():
    for length in (2**26 + 1, 94_906_267, 3_037_000_499):
        assert AttentionEstimator(0, 1)(columns_of([length])).tolist() == [length**2]
        assert length**2 > 2**52
    assert AttentionEstimator(1, 0)(columns_of([INT64_MAX])).tolist() == [INT64_MAX]


def test_attention_that_overflows_names_the_sample():
    with pytest.raises(ConfigError) as caught:
        AttentionEstimator(0, 1)(columns_of([5, 3_037_000_500, 7]))
    assert str(caught.value) == (
        "the `attention` cost of sample 1 must fit into 64-bit integers, but `length` = 3037000500 gives "
        f"{3_037_000_500**2}."
    )
    with pytest.raises(ConfigError, match="cost of sample 0 must fit"):
        AttentionEstimator(2**63, 0)(columns_of([1]))
    assert AttentionEstimator(2**63, 0)(columns_of([0])).tolist() == [0]


@given(st.lists(st.integers(0, INT64_MAX), min_size=1, max_size=5), st.integers(0, 2**64), st.integers(0, 2**64))
def test_attention_is_exact_or_an_error(lengths, linear, quadratic):
    exact = [linear * length + quadratic * length**2 for length in lengths]
    estimator = AttentionEstimator(linear, quadratic)
    if max(exact) <= INT64_MAX:
        assert estimator(columns_of(lengths)).tolist() == exact
    else:
        at = next(i for i, cost in enumerate(exact) if cost > INT64_MAX)
        with pytest.raises(ConfigError, match=f"cost of sample {at} must fit"):
            estimator(columns_of(lengths))


@pytest.mark.parametrize("name", ["linear", "quadratic"])
@pytest.mark.parametrize("value", [-1, True, "1", None, np.bool_(True)])
def test_attention_weights_are_non_negative_integers(name, value):
    with pytest.raises(ConfigError, match=f"`{name}` must be a non-negative integer, but got"):
        AttentionEstimator(**{name: value})


def test_attention_says_why_weights_are_whole():
    with pytest.raises(ConfigError, match=r"`linear` must be a non-negative integer, but got 0\.5; costs are exact"):
        AttentionEstimator(linear=0.5)


# --- plain functions -------------------------------------------------------------------------------------------------


def test_function_sees_the_columns_of_each_sample():
    seen = []

    def cost(record):
        seen.append(record)
        return record.features["image_tokens"] * 2 + record.pack_tokens

    costs = CallableEstimator(cost)(columns_of([3, 4], image_tokens=[10, 0], kind=["a", "b"]))
    assert costs.tolist() == [23, 4]
    assert costs.dtype == np.int64
    assert seen == [
        SampleMetadata(3, features={"length": 3, "image_tokens": 10, "kind": "a"}),
        SampleMetadata(4, features={"length": 4, "image_tokens": 0, "kind": "b"}),
    ]


def test_function_sees_the_records_themselves():
    records = [SampleMetadata(3, cost=WorkloadCost(llm=1.5), key=SampleKey(0, i)) for i in range(3)]
    seen = []
    costs = CallableEstimator(lambda record: seen.append(record) or record.cost)(columns_of([3, 3, 3]), records=records)
    assert all(one is other for one, other in zip(seen, records, strict=True))
    assert costs.tolist() == [1.5, 1.5, 1.5]
    assert costs.dtype == np.float64


@pytest.mark.parametrize(
    ("returned", "dtype"),
    [
        ([1, 2.0, WorkloadCost(llm=3)], np.int64),
        ([1, 2.5, 0], np.float64),
        ([2.0**53 - 1, 0, 0], np.int64),
        ([2.0**53, 0, 0], np.float64),
        ([2**53 + 1, 0, 0], np.int64),
        ([INT64_MAX, 0, 0], np.int64),
        ([2**63, 0, 0], np.float64),
        ([np.float32(0.5), np.int16(2), np.uint64(3)], np.float64),
    ],
)
def test_function_costs_keep_their_value(returned, dtype):
    costs = CallableEstimator(lambda record: returned[record.pack_tokens - 1])(columns_of([1, 2, 3]))
    assert costs.dtype == dtype
    assert costs.tolist() == [getattr(value, "llm", value) for value in returned]


@pytest.mark.parametrize(
    "value", [-1, -0.5, float("nan"), float("inf"), True, np.bool_(False), None, "3", [1], 1j, 10**400]
)
def test_function_must_return_a_cost(value):
    with pytest.raises(ConfigError) as caught:
        CallableEstimator(lambda record: value if record.pack_tokens == 7 else 1)(columns_of([1, 7]))
    text = str(caught.value)
    assert text.startswith(
        "the estimator function must return a finite non-negative number or a WorkloadCost, but got "
    )
    assert text.endswith(" for sample 1.")
    assert repr(value)[:20] in text


def test_function_errors_are_passed_on():
    with pytest.raises(ZeroDivisionError):
        CallableEstimator(lambda record: 1 // 0)(columns_of([1]))


def test_function_must_be_callable():
    with pytest.raises(ConfigError) as caught:
        CallableEstimator("tokens")
    assert str(caught.value) == "`function` must be callable, but got 'tokens'."
