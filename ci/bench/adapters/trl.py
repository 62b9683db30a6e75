"""TRL: `pack_dataset` on a whole `datasets.Dataset`; its time includes moving the tokens into rows."""

import datasets
import numpy as np
import pyarrow as pa
from trl.data_utils import pack_dataset

from adapters import Method, Step

DISTRIBUTION = "trl"
datasets.disable_progress_bars()


def rows(step: Step) -> tuple[datasets.Dataset, int]:
    """Every token of a sample is the sample's index, so that the answer tells what went where."""
    offsets = np.concatenate(([0], np.cumsum(step.lengths))).astype(np.int32)
    tokens = np.repeat(np.arange(len(step.lengths), dtype=np.int32), step.lengths)
    return datasets.Dataset(pa.table({"input_ids": pa.ListArray.from_arrays(offsets, tokens)})), step.capacity


def bfd(given: tuple[datasets.Dataset, int]) -> datasets.Dataset:
    dataset, capacity = given
    whole = {"batch_size": len(dataset), "keep_in_memory": True, "load_from_cache_file": False}
    return pack_dataset(dataset, capacity, strategy="bfd", map_kwargs=whole)


def samples(packed: datasets.Dataset) -> list[list[int]]:
    columns = packed.with_format("arrow")[:]
    pairs = zip(columns["input_ids"], columns["seq_lengths"], strict=True)
    return [row.values.to_numpy()[np.cumsum([0, *parts.values.to_numpy()[:-1]])].tolist() for row, parts in pairs]


METHODS = {"pack_dataset": Method(("packs",), bfd, rows, samples, slow=True)}
