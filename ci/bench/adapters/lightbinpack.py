"""LightBinPack: best-fit decreasing in C++, alone and in groups of one bin per rank."""

import lightbinpack

from adapters import Method, Step

DISTRIBUTION = "lightbinpack"


def obfd(step: Step) -> list[list[int]]:
    return lightbinpack.obfd(step.lengths, step.capacity)


def ogbfd(step: Step) -> list[list[int]]:
    groups = lightbinpack.pack(step.lengths, step.capacity, strategy="ogbfd", dp_size=step.ranks)
    return [members for group in groups for members in group]


METHODS = {"obfd": Method(("packs",), obfd), "ogbfd": Method(("capped",), ogbfd)}
