"""binpacking: greedy fills in Python; a constant number of bins knows no cap."""

import binpacking

from adapters import Method, Step


def volume(step: Step) -> list[list[int]]:
    return [list(members) for members in binpacking.to_constant_volume(dict(enumerate(step.lengths)), step.capacity)]


def number(step: Step) -> list[list[int]]:
    return [list(members) for members in binpacking.to_constant_bin_number(dict(enumerate(step.costs)), step.ranks)]


DISTRIBUTION = "binpacking"
METHODS = {
    "to_constant_volume": Method(("packs",), volume, slow=True),
    "to_constant_bin_number": Method(("balance", "capped"), number),
}
